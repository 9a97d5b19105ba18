"""Which token carries the answer, against answers made one by one."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from spare_demo.analysis.leave_one_out import LeaveOneOut, Removal, leave_one_out
from spare_demo.models import LlavaModel, View
from spare_demo.pruners import PRUNERS
from spare_demo.table import shortened
from spare_demo.tokens import Positions, Selection

LONGEST = 3


def run(
    model: LlavaModel, view: View, selection: Selection, positions: Positions | None = None
) -> list[LeaveOneOut]:
    answer = model.answer(view, selection, LONGEST, positions)
    return list(leave_one_out(model, view, selection, answer, LONGEST, positions))


def check_one_by_one(
    model: LlavaModel,
    view: View,
    selection: Selection,
    without: list[Selection],
    positions: Positions | None = None,
) -> LeaveOneOut:
    """The result, each removal of which is what `score` and `answer` give for that set alone."""
    *_, result = run(model, view, selection, positions)
    answer = model.answer(view, selection, LONGEST, positions)
    words = len(answer.token_ids) - (answer.ended == "end")
    assert result.done and result.rows == len(without) and result.answer == answer.text
    whole = sum(answer.log_probabilities[:words])
    assert result.log_probability == pytest.approx(whole, abs=5e-4)
    for removal, reduced in zip(result.removals, without, strict=True):
        forced = model.score(view, reduced, answer.token_ids, positions)
        loss = whole - sum(forced.log_probabilities[:words])
        assert removal.log_loss == pytest.approx(loss, abs=1e-3)
        assert removal.answer == model.answer(view, reduced, LONGEST, positions).text
    return result


@pytest.mark.parametrize("picks", [[5, 2], [15, 2, 9, 1, 4, 12, 11, 0, 6], list(range(16))])
@pytest.mark.parametrize("positions", [None, "original"])
def test_every_removal_is_its_own_answer(
    tiny_model, view, picks: list[int], positions: Positions | None
) -> None:
    without = [Selection([i for i in picks if i != token]) for token in sorted(picks)]
    result = check_one_by_one(tiny_model, view, Selection(picks), without, positions)
    assert [removal.token for removal in result.removals] == sorted(picks)
    assert not result.merged
    assert len({round(removal.log_loss, 5) for removal in result.removals}) > 1


def test_some_removal_turns_the_tiny_models_answer(tiny_model, view) -> None:
    *_, result = run(tiny_model, view, Selection([15, 2, 9, 1, 4]))
    texts = {removal.answer for removal in result.removals}
    assert texts - {result.answer}
    assert result.carrier in result.turning


@pytest.mark.parametrize("name", ["prumerge", "visionzip", "trim"])
def test_of_merged_tokens_a_row_is_left_out(tiny_model, view, name: str) -> None:
    selection = PRUNERS[name].select(view.tokens, 6)
    features, sources = selection.features, selection.sources
    rows = [[i for i in range(len(features)) if i != row] for row in range(len(features))]
    without = [replace(selection, features=features[stay], sources=sources[stay]) for stay in rows]
    result = check_one_by_one(tiny_model, view, selection, without)
    assert result.merged
    for removal, shares in zip(result.removals, sources, strict=True):
        assert (removal.token is None) == (not shares.any())
        assert removal.token is None or shares[removal.token] == shares.max()


@pytest.mark.parametrize("rows", [3, 2])
def test_merged_rows_without_sources_are_left_out_too(tiny_model, view, rows: int) -> None:
    features = view.tokens.features[: 2 * rows].reshape(rows, 2, -1).mean(1)
    *_, result = run(tiny_model, view, Selection([9, 0, 4], features=features))
    known = [0, 4, 9] if rows == 3 else [None, None]
    assert [removal.token for removal in result.removals] == known


def test_the_rows_that_stay_keep_their_bias(tiny_model, view) -> None:
    features, bias = view.tokens.features[:3], torch.tensor([0.0, -6.0, 4.0])
    selection = Selection([0, 1, 2], features=features, bias=bias)
    rows = [[1, 2], [0, 2], [0, 1]]
    without = [Selection(stay, features=features[stay], bias=bias[stay]) for stay in rows]
    check_one_by_one(tiny_model, view, selection, without)


def test_the_token_that_ends_the_answer_is_no_word(tiny_model, view) -> None:
    two = Selection([3, 4])
    answer = replace(tiny_model.answer(view, two, LONGEST), ended="end")
    *_, result = leave_one_out(tiny_model, view, two, answer, LONGEST)
    words = sum(answer.log_probabilities[:-1])
    assert result.log_probability == pytest.approx(words, abs=5e-4)


def test_the_steps_grow_by_batches(tiny_model, view) -> None:
    steps = run(tiny_model, view, Selection(list(range(11))))
    assert [len(step.removals) for step in steps] == [8, 11]
    assert steps[0].removals == steps[1].removals[:8]
    assert not steps[0].done and steps[1].done


def test_a_model_with_positions_of_its_own_is_measured_too(tiny_qwen, photo) -> None:
    view = tiny_qwen.encode(photo, "What is it?")
    without = [Selection([3, 5]), Selection([2, 5]), Selection([2, 3])]
    check_one_by_one(tiny_qwen, view, Selection([2, 5, 3]), without)


def test_what_has_nothing_to_leave_out_is_refused(tiny_model, view) -> None:
    two = Selection([3, 4])
    answer = tiny_model.answer(view, two, LONGEST)
    wordless = replace(answer, token_ids=())
    unread = Selection([3, 4], sources=torch.eye(2, 16))
    for selection, given, sentence in (
        (Selection([3]), answer, "budget of 2 or more"),
        (two, wordless, "no words to lose"),
        (unread, answer, "Run the method again"),
        (Selection([3, 16]), answer, "does not exist"),
    ):
        with pytest.raises(ValueError, match=sentence):
            next(leave_one_out(tiny_model, view, selection, given, LONGEST))


def where(token: int) -> str:
    return f"place {token}"


def test_the_sentence_names_the_token_that_turns_the_answer() -> None:
    removals = (
        Removal(3, 5.0, "FOX"),  # costs most, and still the answer stays
        Removal(7, math.log(0.98 / 0.04), "TEA"),
        Removal(9, 0.8, ""),
    )
    result = LeaveOneOut("FOX", math.log(0.98), 3, False, removals)
    assert result.sentence("A SPARE", where) == (
        "A SPARE: without the patch in place 7 the answer changes from “FOX” to “TEA” (probability "
        "of “FOX” 0.980 → 0.040). Of its 3 tokens, 1 other would change it alone."
    )
    alone = replace(result, rows=2, removals=removals[1:2] + removals[:1])
    assert alone.sentence("A", where).endswith("Of its 2 tokens, no other would change it alone.")
    silent = replace(result, rows=1, removals=removals[2:])
    assert "changes from “FOX” to no words (" in silent.sentence("A", where)
    long = replace(result, answer="FOX " * 20)
    assert f"probability of “{shortened(long.answer, 40)}” 0.980" in long.sentence("A", where)
    early = replace(result, rows=64)
    assert early.sentence("A SPARE", where) == "A SPARE: 3 of 64 tokens left out …"


def test_the_sentence_says_where_no_token_carries_the_answer() -> None:
    removals = (Removal(None, 9.0, "FOX"), Removal(2, -0.1, "FOX"))
    result = LeaveOneOut("FOX", math.log(0.9999), 2, True, removals)
    assert result.sentence("B", where) == (
        "B: no single one of its 2 merged rows carries the answer: whichever is left out, it stays "
        "“FOX”. The largest loss is without the row that holds no patch (probability of “FOX” "
        ">0.999 → <0.001)."
    )
    better = replace(result, rows=1, removals=removals[1:])
    assert better.sentence("B", where).endswith("it stays “FOX”, and none makes it less likely.")
