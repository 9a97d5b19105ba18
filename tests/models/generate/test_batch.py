"""Answers made together are those made one by one."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from elsewhere import Far
from PIL import Image
from torch.utils._pytree import tree_map

from spare_demo.models import Answer, LlavaModel
from spare_demo.models.families.qwen import QwenModel
from spare_demo.models.generate import batch as module
from spare_demo.models.generate.passes import Passes
from spare_demo.pruners import PRUNERS
from spare_demo.tokens import Selection

QUESTIONS = [
    "What colour is the circle?",
    "How many?",
    "Is the word 日本語 above the green one, or is it below the other one? 🙂",
]
PICKS: list[list[int] | None] = [None, [5], [3, 0, 15, 7], [15, 2, 9, 1, 4, 12, 11]]


@pytest.fixture(scope="module")
def asked(tiny_model: LlavaModel, photo: Image.Image) -> list[tuple[Any, Selection | None]]:
    """Every question of two pictures with all tokens, few and, at the end, merged ones."""
    pictures = [tiny_model.look(photo), tiny_model.look(photo.rotate(90, expand=True))]
    views = [tiny_model.ask(p, question) for question in QUESTIONS for p in pictures]
    sets = [None if picks is None else Selection(torch.tensor(picks)) for picks in PICKS]
    every: list[tuple[Any, Selection | None]] = [(view, s) for s in sets for view in views]
    for view in views[:2]:
        merged = view.tokens.features[:6].reshape(3, 2, -1).mean(1)
        every.append((view, Selection(torch.tensor([0, 2, 4]), features=merged)))
    return every


@pytest.fixture(scope="module")
def alone(tiny_model: LlavaModel, asked: list) -> list[Answer]:
    """Each answer by itself."""
    return [tiny_model.answer(view, s, max_new_tokens=5) for view, s in asked]


@pytest.mark.parametrize("room", [1, 120, 10_000])
def test_together_says_what_one_by_one_says(
    tiny_model: LlavaModel,
    asked: list,
    alone: list[Answer],
    room: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_POSITIONS", room)
    together = tiny_model.answer_many(asked, max_new_tokens=5)
    assert [said.token_ids for said in together] == [answer.token_ids for answer in alone]
    assert [said.text for said in together] == [answer.text for answer in alone]
    for said, answer in zip(together, alone, strict=True):
        torch.testing.assert_close(said.first_logits, answer.first_logits, atol=2e-4, rtol=1e-4)
    assert len({said.token_ids for said in together}) > 5  # the prompts do differ


def test_positions_on_several_axes_share_batches_too(
    tiny_qwen: QwenModel, photo: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = [tiny_qwen.look(photo.resize(size)) for size in ((224, 168), (112, 56))]
    views = [tiny_qwen.ask(p, question) for question in QUESTIONS[:2] for p in pictures]
    sets = [None, [5], [3, 0, 6]]
    requests = [(view, picks and Selection(picks)) for picks in sets for view in views]
    alone = [tiny_qwen.answer(view, s, max_new_tokens=5) for view, s in requests]
    given = alone[1].token_ids[:3]
    forced = [tiny_qwen.score(view, s, given) for view, s in requests]
    monkeypatch.setattr(tiny_qwen, "answer", None)  # none is made by itself
    together = tiny_qwen.answer_many(requests, max_new_tokens=5)
    assert [said.token_ids for said in together] == [answer.token_ids for answer in alone]
    assert len({said.token_ids for said in together}) > 3
    scores = tiny_qwen.score_many((request for request in requests), given)  # type: ignore[arg-type]
    for score, one in zip(scores, forced, strict=True):
        assert score.log_probabilities == pytest.approx(one.log_probabilities, abs=2e-4)


def test_equal_prompts_run_once(
    tiny_model: LlavaModel, asked: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two methods that keep the same tokens, in whatever order they picked them."""
    sizes: list[int] = []
    make = module._Batch

    def count(hf: Any, passes: Any, prompts: list) -> Any:
        sizes.append(len(prompts))
        return make(hf, passes, prompts)

    monkeypatch.setattr(module, "_Batch", count)
    (view, _), (other, _) = asked[:2]
    sets = [Selection(torch.tensor(picks)) for picks in ([3, 0, 7], [7, 3, 0], [3, 0, 6])]
    requests = [(v, s) for s in sets for v in (view, other)]
    replies = tiny_model.answer_many(requests, max_new_tokens=4)
    assert sum(sizes) == 4
    assert [r.token_ids for r in replies[:2]] == [r.token_ids for r in replies[2:4]]
    alone = [tiny_model.answer(*request, max_new_tokens=4) for request in requests]
    assert [r.token_ids for r in replies] == [answer.token_ids for answer in alone]


@pytest.fixture(scope="module")
def forced(tiny_model: LlavaModel, asked: list, alone: list[Answer]) -> list[Answer]:
    """The first three words of one answer, scored under each prompt by itself."""
    given = alone[7].token_ids[:3]
    return [tiny_model.score(view, s, given) for view, s in asked]


@pytest.mark.parametrize("room", [1, 120, 10_000])
def test_given_words_are_scored_together_as_one_by_one(
    tiny_model: LlavaModel,
    asked: list,
    alone: list[Answer],
    forced: list[Answer],
    room: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_POSITIONS", room)
    given = alone[7].token_ids[:3]
    together = tiny_model.score_many(asked, given)
    torch.testing.assert_close(
        torch.tensor([score.log_probabilities for score in together]),
        torch.tensor([score.log_probabilities for score in forced]),
        atol=2e-4,
        rtol=1e-4,
    )
    own = [answer.token_ids[:3] == given for answer in alone]
    assert [score.by_itself for score in together] == own
    assert together[7].by_itself and not all(score.by_itself for score in together)


def test_words_after_one_that_ends_answers_are_scored_too(
    tiny_model: LlavaModel, asked: list, alone: list[Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    given, view = alone[7].token_ids[:3], asked[7][0]
    plan = PRUNERS["fastv"].plan(view, 12)  # which is scored by itself
    own = tiny_model.answer(view, plan, 3).token_ids
    # Each is the model's own, after one at which its answer would have ended.
    monkeypatch.setattr(tiny_model.hf.generation_config, "eos_token_id", [given[1], own[1]])
    score = tiny_model.score(*asked[7], given)
    (together,) = tiny_model.score_many(asked[7:8], given)
    assert score.token_ids == given
    assert score.log_probabilities == pytest.approx(together.log_probabilities, abs=2e-4)
    assert not together.by_itself
    first, past = (tiny_model.score_many([(view, plan)], ids)[0] for ids in (own[:1], own))
    assert first.by_itself and not past.by_itself and len(past.log_probabilities) == 3


def test_words_under_a_repetition_penalty_are_the_models_own(
    tiny_model: LlavaModel, asked: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny_model.hf.generation_config, "repetition_penalty", 0.8)
    given = tiny_model.answer(*asked[7], max_new_tokens=5).token_ids
    scores = tiny_model.score_many(asked[6:9], given)
    answers = [tiny_model.answer(view, s, max_new_tokens=5).token_ids for view, s in asked[6:9]]
    assert [score.by_itself for score in scores] == [ids == given for ids in answers]


def test_what_is_shared_is_run_once(
    tiny_model: LlavaModel, asked: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []
    decoder = tiny_model.hf.model.language_model
    monkeypatch.setattr(module, "_UNLIKE", 100)
    with decoder.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(len(kwargs["inputs_embeds"])), with_kwargs=True
    ):
        tiny_model.answer_many(asked, max_new_tokens=1)
    # Two pictures with four sets each, two merged sets; then the end of every prompt.
    assert rows == [2 * len(PICKS) + 2, len(asked)]


class OnGpu(Far):
    """A tensor that says it lies elsewhere, and counts the times that the CPU waits for one."""

    waits: ClassVar[list[int]] = []  # how many values each time

    def tolist(self) -> list[Any]:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def plain(value: Any) -> Any:
            return value.values if isinstance(value, OnGpu) else value

        found = func(*tree_map(plain, args), **tree_map(plain, kwargs or {}))
        if isinstance(found, int | float):
            cls.waits.append(1)
        elif (kwargs or {}).get("device") == torch.device("cpu"):
            cls.waits.append(found.numel())
            return found
        return tree_map(
            lambda value: cls(value) if isinstance(value, torch.Tensor) else value, found
        )


def test_a_step_waits_for_the_gpu_once_however_many_there_are(
    tiny_model: LlavaModel, asked: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, steps = Passes.run, list[int]()

    def on_a_gpu(self: Passes, step: Any, beside: Any = None) -> Any:
        result, seconds = run(self, step, beside)
        if isinstance(result, torch.Tensor):  # the scores of a step
            steps.append(len(result))
            return OnGpu(result), seconds
        return result, seconds

    given = tiny_model.answer(*asked[0], max_new_tokens=4).token_ids
    requests = asked[:4]
    expected = [tiny_model.answer_many(requests, 4), tiny_model.score_many(requests, given)]
    monkeypatch.setattr(Passes, "run", on_a_gpu)
    monkeypatch.setattr(OnGpu, "waits", [])
    replies = tiny_model.answer_many(requests, 4)
    assert [reply.token_ids for reply in replies] == [said.token_ids for said in expected[0]]
    assert max(steps) > 1 and OnGpu.waits == steps  # the tokens chosen, and nothing else
    steps.clear()
    OnGpu.waits.clear()
    assert tiny_model.score_many(requests, given) == expected[1]
    assert OnGpu.waits == [count for step in steps for count in (step, step)]


def test_batches_hold_what_is_alike_and_fits() -> None:
    lengths = [50, 10, 51, 100, 11, 10, 12]
    parts = module._parts(lengths, room=110)
    assert sorted(i for part in parts for i in part) == list(range(len(lengths)))
    for part in parts:
        of = [lengths[i] for i in part]
        assert len(part) == 1 or len(part) * max(of) <= 110
        assert max(of) <= module._UNLIKE * min(of)
    assert [1, 5, 4, 6] in parts
    assert module._parts([500, 500], room=110) == [[0], [1]]


def test_what_cannot_be_answered_is_refused(tiny_model: LlavaModel, asked: list) -> None:
    view = asked[0][0]
    with pytest.raises(ValueError, match="max_new_tokens"):
        tiny_model.answer_many(asked, max_new_tokens=0)
    with pytest.raises(ValueError, match="token_ids"):
        tiny_model.score_many(asked, [])
    with pytest.raises(ValueError, match="does not exist"):
        tiny_model.answer_many([(view, Selection(torch.tensor([16])))])
