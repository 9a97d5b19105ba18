"""Features on a GPU: nothing is computed with one tensor there and one on the CPU."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from elsewhere import ELSEWHERE, Far, there
from PIL import Image
from torch import Tensor
from transformers import DynamicCache

from spare_demo.analysis.why import why
from spare_demo.comparison.request import Request
from spare_demo.comparison.selections import explore
from spare_demo.models import LlavaModel, Model, Picture, View
from spare_demo.models.families.qwen import QwenModel
from spare_demo.models.generate.batch import PaddedCache
from spare_demo.models.generate.together import JoinedCache
from spare_demo.pruners import PRUNERS, LayerPruner, greedy, plain
from spare_demo.pruners.base import largest
from spare_demo.pruners.views import ViewPruner
from spare_demo.settings import Settings
from spare_demo.tokens import VisualTokens
from spare_demo.ui.guide import Guide, methods_by_slot

FIELDS = ("features", "clip_image", "clip_text", "states", "class_states")


@pytest.fixture(autouse=True)
def plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The greedy steps take the inner products from the device, as where there is no Triton."""
    monkeypatch.setattr(
        plain, "Cosines", lambda rows, takes: SimpleNamespace(row=_row(rows @ rows.mT))
    )
    assert greedy.plain is plain


def _row(table: torch.Tensor) -> Any:
    values = table.cpu().numpy()
    return lambda pick, value, takes: values[pick]


def test_the_stand_in_refuses_what_cuda_refuses() -> None:
    with there():
        x, here = torch.arange(6.0).view(2, 3).to(ELSEWHERE), torch.ones(3)
        assert type(x) is Far and type(x.cpu()) is torch.Tensor and float(x.sum()) == 15
        assert x[torch.tensor([1])].cpu().tolist() == [[3, 4, 5]]
        assert type(torch.zeros(2, device=ELSEWHERE) + x[:, 0]) is Far
        for mixed in (lambda: x + here, lambda: here[x[0].long()], lambda: torch.cat([x[0], here])):
            with pytest.raises(RuntimeError, match="same device"):
                mixed()


def test_rows_of_a_cache_are_taken_wherever_its_layers_lie() -> None:
    with there():
        hf = SimpleNamespace(device=ELSEWHERE, config=None)
        batch = PaddedCache.__new__(PaddedCache)
        batch._hf, batch.cache = hf, DynamicCache()
        batch.mask = torch.ones(3, 4, dtype=torch.long).to(ELSEWHERE)
        batch.next_places = torch.tensor([4, 5, 6])
        states = torch.arange(3.0)[:, None, None, None].expand(3, 1, 4, 2)
        for number in range(2):
            batch.cache.update(states, states, number)
        first = batch.cache.layers[0]
        first.keys, first.values = first.keys.to(ELSEWHERE), first.values.to(ELSEWHERE)
        batch.take([2, 0])
        for layer in batch.cache.layers:
            assert layer.keys[:, 0, 0, 0].cpu().tolist() == [2, 0]
        assert batch.mask.shape == (2, 4) and batch.next_places.tolist() == [6, 4]


def test_caches_are_joined_wherever_their_layers_lie() -> None:
    with there():
        hf = SimpleNamespace(device=ELSEWHERE, config=None, dtype=torch.float32)
        caches = []
        for length in (3, 1, 2):
            cache = DynamicCache()
            states = (10 * length + torch.arange(float(length)))[None, None, :, None]
            for number in range(2):
                cache.update(states, states, number)
            first = cache.layers[0]
            first.keys, first.values = first.keys.to(ELSEWHERE), first.values.to(ELSEWHERE)
            caches.append(cache)
        joined = JoinedCache(hf, caches, 4, [3, 1, 2])
        joined.take([0, 2])
        for layer in joined.cache.layers:
            assert layer.keys[0, 0, :, 0].cpu().tolist() == [30, 31, 32, 20, 21]
        assert joined.places.tolist() == [3, 2]
        seen = [[True] * 3 + [False] * 2, [False] * 3 + [True] * 2]
        assert (joined.mask == 0).tolist() == seen


@pytest.mark.parametrize(
    "family", ["tiny_model", pytest.param("tiny_next", marks=pytest.mark.long)]
)
def test_an_open_comparison_lies_on_the_cpu_and_goes_to_the_gpu_to_choose(
    family: str, photo: Image.Image, request: pytest.FixtureRequest
) -> None:
    model: Model = request.getfixturevalue(family)
    view = model.encode(photo, "What colour is the circle?")
    assert view.to(view.tokens.features.device) is view  # where it is already, nothing is copied
    names = [name for name, method in PRUNERS.items() if not isinstance(method, LayerPruner)]
    chosen: Any = {name: PRUNERS[name] for name in names}
    here = explore(view, chosen)
    with there():
        near = view.to(ELSEWHERE)
        for name in FIELDS:
            assert type(getattr(near.tokens, name)) is Far, name
        attention = near.tokens.cls_attention
        assert attention is not None and type(attention(-1)) is Far
        far = explore(near, chosen)
        for name in names:
            ours, theirs = far.selections(5)[name], here.selections(5)[name]
            assert ours.order.tolist() == theirs.order.tolist(), name
            lost = next(i for i in range(far.n) if i not in ours.order.tolist())
            for patch in (lost, int(ours.order[0])):
                told, expected = why(far, name, patch, 5), why(here, name, patch, 5)
                assert (told.rank, told.winner) == (expected.rank, expected.winner), name
            if ours.features is None:
                torch.testing.assert_close(far.leftover(ours), here.leftover(theirs))
        for name, errors in far.curves.errors.items():
            assert errors == pytest.approx(here.curves.errors[name], abs=1e-9), name
        assert far.curves.bound.device.type == "cpu"
        back = near.to(torch.device("cpu"))
        assert not far_tensors(back)
        assert back.tokens.features is back.picture.features
        again = explore(back, chosen).selections(5)
        for name, expected in here.selections(5).items():
            assert again[name].order.tolist() == expected.order.tolist(), name
    for name in ("features", "states"):
        assert torch.equal(getattr(back.tokens, name), getattr(view.tokens, name))


@dataclasses.dataclass(frozen=True)
class Longest(ViewPruner):
    name = title = summary = "longest"

    def _pick(self, tokens: VisualTokens, view: Tensor, share: int) -> tuple[Tensor, Tensor]:
        lengths = torch.linalg.vector_norm(tokens.features[view], dim=1)
        order = largest(lengths, share)
        return order, lengths[order]


def test_a_method_of_ones_own_may_pick_where_the_features_lie() -> None:
    features = torch.tensor([[1.0], [5.0], [3.0], [2.0]])
    with there():
        tokens = VisualTokens(features.to(ELSEWHERE), view=torch.tensor([0, 0, 1, 1]))
        chosen = Longest().select(tokens, 3)
    assert chosen.order.tolist() == [1, 0, 2]
    assert chosen.gain is not None and chosen.gain.tolist() == [5, 1, 3]


def far_tensors(view: View) -> list[Far]:
    """The tensors elsewhere that a view holds itself."""
    picture, tokens = vars(view.picture), vars(view.tokens)
    held = [view.input_ids, *picture.values(), *tokens.values(), *view.picture.hidden.values()]
    held += view.picture.reads.values()
    return [value for value in held if isinstance(value, Far)]


def test_a_visit_keeps_nothing_on_the_gpu(
    tiny_model: LlavaModel, photo_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a model that says it is on a GPU, and whose views come from there."""
    guide = Guide(tiny_model, Settings(budget=5, max_new_tokens=3))
    chosen = methods_by_slot("spare", "cdpruner", 0)
    asked = Request(photo_file, "Is it red?", chosen, budget=5, max_new_tokens=3)
    usual = list(guide.answer(guide.look(asked), 5))[-1]
    view = usual.exploration.view
    moves: list[torch.device] = []
    to = View.to

    def watched(self: View, device: torch.device) -> View:
        moves.append(device)
        return to(self, ELSEWHERE if device.type == "cuda" else device)

    with there():
        monkeypatch.setattr(LlavaModel, "device", torch.device("cuda", 0))
        monkeypatch.setattr(View, "to", watched)
        monkeypatch.setattr(tiny_model, "encode", lambda *_: to(view, ELSEWHERE))
        visit = guide.look(asked)
        assert moves == [torch.device("cuda", 0), torch.device("cpu")]
        assert not far_tensors(visit.exploration.view)
        other = guide.change_methods(visit, methods_by_slot("spare", "divprune", 0), 0)
        assert moves[2:] == moves[:2] and not far_tensors(other.exploration.view)
        picture = visit.exploration.view.picture
        asked_again = dataclasses.replace(to(view, ELSEWHERE), picture=picture)
        monkeypatch.setattr(tiny_model, "ask", lambda *_: asked_again)
        again = guide.look(asked, visit)
        assert not far_tensors(again.exploration.view)
        # What was computed of the picture stays with it.
        for each in (other, again):
            assert each.exploration.view.picture is picture
    answered = list(guide.answer(visit, 5))[-1]
    for label, answer in usual.result.answers.items():
        assert answered.result.answers[label].token_ids == answer.token_ids


def test_a_picture_that_waited_on_the_cpu_is_asked_about_on_the_gpu(
    tiny_qwen: QwenModel, photo: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = tiny_qwen.look(photo)
    to = Picture.to
    with there():
        monkeypatch.setattr(QwenModel, "device", torch.device("cuda", 0))
        monkeypatch.setattr(Picture, "to", lambda self, device: to(self, ELSEWHERE))
        view = tiny_qwen.ask(picture, "Is it red?")
        assert type(view.tokens.features) is Far and view.picture is picture
