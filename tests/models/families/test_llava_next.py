"""LLaVA-NeXT: views, newline tokens, and that nothing but the kept rows differs from stock."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from PIL import Image
from stock import keep_all_as_stock, noise, stock
from tiny_checkpoint import PINPOINTS

from spare_demo import PRUNERS, Selection
from spare_demo.comparison.selections import explore
from spare_demo.models import Picture, View
from spare_demo.models.families.llava_next import LlavaNextModel

QUESTION = "What colour is the circle?"
SIZES = [(90, 60), (60, 90), (56, 56), (57, 111), (400, 2), (2, 400), (3, 7), (1, 1), (168, 55)]


@pytest.fixture(scope="module")
def fixed(tiny_next: LlavaNextModel, photo: Image.Image) -> View:
    return tiny_next.encode(photo, QUESTION)


@pytest.fixture(scope="module")
def own(tiny_next: LlavaNextModel, photo: Image.Image) -> View:
    return tiny_next.encode(photo, QUESTION, "any")


# --- what is seen ---


@pytest.mark.parametrize("size", SIZES)
def test_the_own_setting_is_stock_generate(tiny_next: LlavaNextModel, size: tuple) -> None:
    view = tiny_next.encode(noise(size), QUESTION, "any")
    inputs = tiny_next.processor(images=view.photo, text=view.prompt, return_tensors="pt")
    assert torch.equal(view.input_ids, inputs.input_ids)
    assert torch.equal(view.pixel_values, inputs.pixel_values)
    answers = keep_all_as_stock(tiny_next, view, **inputs)
    assert all(answer.newline_tokens == len(view.picture.breaks) for answer in answers)


@pytest.mark.parametrize("size", SIZES)
@torch.inference_mode()
def test_the_fixed_setting_is_the_stock_model_fed_by_hand(
    tiny_next: LlavaNextModel, size: tuple
) -> None:
    """Features of five stock crops, the tiles woven into one grid; no newline tokens."""
    view = tiny_next.encode(noise(size), QUESTION)
    crops = tiny_next.processor.image_processor(
        view.photo, image_grid_pinpoints=[[112, 112]], return_tensors="pt"
    ).pixel_values[0]
    hf = tiny_next.hf
    states = hf.model.vision_tower(crops, output_hidden_states=[-2]).hidden_states[-2][:, 1:]
    base, *tiles = hf.model.multi_modal_projector(states)
    square = torch.stack(tiles).view(2, 2, 4, 4, -1).permute(0, 2, 1, 3, 4).flatten(0, 3)
    features = torch.cat([base, square])
    torch.testing.assert_close(view.tokens.features, features, atol=1e-6, rtol=0)

    embeds = hf.get_input_embeddings()(view.input_ids).clone()
    embeds[0, view.input_ids[0] == hf.config.image_token_id] = features
    expected = stock(tiny_next, inputs_embeds=embeds)
    answer = tiny_next.answer(view, max_new_tokens=20)
    assert list(answer.token_ids) == expected.sequences[0].tolist()
    assert (answer.visual_tokens, answer.newline_tokens) == (80, 0)


@pytest.mark.parametrize("aspect", ["fixed", "any"])
@torch.inference_mode()
def test_pruned_is_the_stock_model_fed_the_kept_columns(
    tiny_next: LlavaNextModel, photo: Image.Image, aspect: Any
) -> None:
    view = tiny_next.encode(photo, QUESTION, aspect)
    kept = [3, 15, 16, 20, 41, view.grid.n - 1]
    hf = tiny_next.hf
    ids = view.input_ids
    image = (ids[0] == hf.config.image_token_id).nonzero().flatten()
    features = view.tokens.features
    keep = torch.ones(ids.shape[1], dtype=torch.bool)
    keep[image] = False
    if aspect == "any":
        packed = hf.get_image_features(
            pixel_values=view.pixel_values, image_sizes=torch.tensor([photo.size[::-1]])
        ).pooler_output[0]
        newline = (packed == hf.model.image_newline).all(dim=1)
        assert torch.allclose(packed[~newline], features, atol=1e-6)
        keep[image[newline]] = True
        keep[image[(~newline).nonzero().flatten()[kept]]] = True
    else:
        packed = features
        keep[image[kept]] = True
    embeds = hf.get_input_embeddings()(ids).clone()
    embeds[0, image] = packed
    expected = stock(tiny_next, inputs_embeds=embeds[:, keep])
    answer = tiny_next.answer(view, Selection(kept), max_new_tokens=20)
    assert list(answer.token_ids) == expected.sequences[0].tolist()
    torch.testing.assert_close(answer.first_logits, expected.logits[0][0], atol=1e-5, rtol=0)
    assert answer.prompt_tokens == int(keep.sum())
    assert answer.visual_tokens == 6
    assert answer.newline_tokens == (len(view.picture.breaks) if aspect == "any" else 0)


# --- budgets over views ---


def test_each_view_gets_its_share_or_all_share_one(fixed: View, own: View) -> None:
    spare = PRUNERS["spare"]
    for view in (fixed, own):
        of = torch.tensor(view.grid.view)
        counts = torch.bincount(of[spare.select(view.tokens, 13).order], minlength=5).tolist()
        assert counts == [3, 3, 3, 2, 2]
        together = dataclasses.replace(view.tokens, together=True)
        chosen = spare.select(together, 13)
        alone = spare.select(dataclasses.replace(view.tokens, view=None, class_states=None), 13)
        assert chosen.order.tolist() == alone.order.tolist()
        assert torch.bincount(of[chosen.order], minlength=5).tolist() != counts


def test_asking_for_one_budget_over_all_views(tiny_next: LlavaNextModel, fixed: View) -> None:
    assert not fixed.tokens.together
    view = tiny_next.ask(fixed.picture, QUESTION, together=True)
    assert view.tokens.together and view.tokens.view is not None


@pytest.mark.parametrize("name", ["fastv", "dart", "vscan-whole"])
def test_pruning_inside_leaves_newlines_alone(
    tiny_next: LlavaNextModel, own: View, name: str
) -> None:
    n = own.tokens.n
    whole = tiny_next.answer(own, None, max_new_tokens=6)
    same = tiny_next.answer(own, PRUNERS[name].plan(own, n), max_new_tokens=6)  # type: ignore[attr-defined]
    assert same.token_ids == whole.token_ids
    plan = PRUNERS[name].plan(own, n // 2)  # type: ignore[attr-defined]
    answer = tiny_next.answer(own, plan, max_new_tokens=3)
    assert answer.kept_per_layer == plan.per_layer
    assert answer.newline_tokens == whole.newline_tokens


# --- what belongs to which view ---


def test_relevance_and_reads_lie_at_their_tokens(
    tiny_next: LlavaNextModel, own: View, fixed: View
) -> None:
    """What is read of a token is what the tower gives at that patch of that crop."""
    tower = tiny_next.hf.model.vision_tower
    for view in (own, fixed):
        with torch.inference_mode():
            hidden = tower(view.pixel_values[0], output_hidden_states=[-2]).hidden_states[-2]
        places = torch.tensor(view.grid.place)
        expected = hidden[:, 1:].flatten(0, 1)[places]
        torch.testing.assert_close(view.picture.hidden[-2], expected)
        torch.testing.assert_close(view.tokens.states, expected)
        assert view.tokens.view is not None
        assert view.tokens.view.tolist() == list(view.grid.view)
        assert view.tokens.cls_attention is not None and view.tokens.class_states is not None
        assert view.tokens.cls_attention(-1).shape[1] == view.grid.n
        torch.testing.assert_close(view.tokens.class_states, hidden[:, 0])


def test_a_strip_that_unpadding_leaves_nothing_of(tiny_next: LlavaNextModel) -> None:
    picture: Picture = tiny_next.look(noise((400, 2)), "any")
    assert len(picture.grid.parts) == 1 and picture.slots == 16
    assert picture.pixel_values.shape[1] == 3  # the base view and two tiles were looked at


def test_what_it_offers(tiny_next: LlavaNextModel, photo: Image.Image) -> None:
    assert tiny_next.most_tokens == 80 and list(tiny_next.aspects) == ["fixed", "any"]
    assert [list(p) for p in tiny_next.hf.config.image_grid_pinpoints] == PINPOINTS
    with pytest.raises(ValueError, match="Choose one of: fixed, any"):
        tiny_next.look(photo, "pad")


def test_explore_tells_views_apart(fixed: View) -> None:
    exploration = explore(fixed, {"a": PRUNERS["cdpruner"]})
    first = exploration.selections(5)["a"].order
    assert sorted(fixed.grid.view[int(i)] for i in first) == [0, 1, 2, 3, 4]
