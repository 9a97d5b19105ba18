"""The grid and the consensus of a comparison, from its own answers and sets."""

from __future__ import annotations

import dataclasses
import re

import pytest
import torch
from PIL import Image

from spare_demo import measures
from spare_demo.analysis.cost import cost_rows
from spare_demo.comparison.pipeline import compare
from spare_demo.comparison.request import UNPRUNED
from spare_demo.comparison.result import Result
from spare_demo.models import LlavaModel
from spare_demo.pruners import PRUNERS
from spare_demo.render.base import number
from spare_demo.render.colours import colours_of, hex_of
from spare_demo.render.display import Text
from spare_demo.results.drawings import OF_MANY, cells, drawings
from spare_demo.table import percent_of_all
from spare_demo.tokens import Selection


@pytest.fixture(scope="module")
def result(tiny_model: LlavaModel, photo: Image.Image) -> Result:
    names = ("spare", "cdpruner", "visionzip", "fastv")
    methods = {name: PRUNERS[name] for name in names} | {"by hand": Selection(order=[7, 2, 11])}
    return compare(tiny_model, photo, "Which number?", methods, budget=8, max_new_tokens=3)


def test_cells_carry_the_figures_of_the_budget(result: Result) -> None:
    by_title = {cell.title: cell for cell in cells(result)}
    assert list(by_title) == ["SPARE", "CDPruner", "VisionZip", "FastV", "by hand"]
    assert result.view is not None
    order = result.selections["spare"].order
    x = result.view.tokens.features
    error = measures.reconstruction_error(x, order)
    assert by_title["SPARE"].error == pytest.approx(error)
    whole, pruned = (result.answers[label] for label in (UNPRUNED, "spare"))
    kl = float(measures.kl_divergence(whole.first_logits, pruned.first_logits))
    assert by_title["SPARE"].kl == kl
    assert by_title["SPARE"].answer == pruned.text
    assert by_title["SPARE"].same == (pruned.text == whole.text)


def test_a_method_inside_shows_what_its_last_layer_got(result: Result) -> None:
    (cell,) = (cell for cell in cells(result) if cell.title == "FastV")
    last = result.answers["fastv"].layer_sets[-1].kept
    assert torch.equal(torch.as_tensor(cell.kept), last) and cell.error is None
    asked = dataclasses.replace(result, answers={}, first_kl={})
    (cell,) = (cell for cell in cells(asked) if cell.title == "FastV")
    assert cell.kept is None and cell.kl is None and cell.answer is None


def test_leftovers_share_one_scale_and_an_error_that_is_none_is_said(result: Result) -> None:
    left = [shares for shares in result.leftover.values() if shares is not None]
    ends = number(max(float(shares.max()) for shares in left))
    *maps, curve = drawings(result, ("leftover", "reconstruction"))
    assert [f"run from 0 to {ends}." in drawn.display.sentence for drawn in maps] == [True] * 3
    assert "FastV has no error of one set" in curve.display.sentence
    nothing = dataclasses.replace(result, leftover=dict.fromkeys(result.leftover, torch.zeros(16)))
    first, *_ = drawings(nothing, ("leftover",))
    assert "run from 0 to 1.00." in first.display.sentence


def test_the_picture_of_all_answers_shows_the_last_layer(result: Result) -> None:
    answer = result.answers["fastv"]
    assert len(answer.layer_sets) > 1
    last = dataclasses.replace(answer, layer_sets=answer.layer_sets[-1:])
    alike = dataclasses.replace(result, answers={**result.answers, "fastv": last})
    (one,), (other,) = (drawings(made, ("comparison",)) for made in (result, alike))
    assert one.display.image.tobytes() == other.display.image.tobytes()


def test_the_picture_of_all_answers_says_which_are_the_same(result: Result) -> None:
    answers = {
        label: dataclasses.replace(answer, text="a" if label in (UNPRUNED, "spare") else "b")
        for label, answer in result.answers.items()
    }
    (drawn,) = drawings(dataclasses.replace(result, answers=answers), ("comparison",))
    words = [item.words for item in drawn.display.items if isinstance(item, Text)]
    verdicts = [text for text in words if text.endswith(("as with all tokens", "another answer"))]
    assert verdicts == ["the same answer as with all tokens"] + ["another answer"] * 4


def test_files_have_names_of_their_own_whatever_the_labels(result: Result) -> None:
    foreign = result.relabel({"spare": "甲", "cdpruner": "乙"})
    names = [drawn.name for drawn in drawings(foreign, ("kept",))]
    before = ["kept-picks", "kept-picks-2", "kept-visionzip", "kept-by-hand"]
    assert names == [*before, "kept-fastv-from-layer-2"]


def test_two_sets_and_their_shares_stand_under_their_own_names(result: Result) -> None:
    two = {label: result.selections[label] for label in ("visionzip", "by hand")}
    (drawn,) = drawings(dataclasses.replace(result, selections=two), ("difference",))
    count = len(two["visionzip"])
    assert f"VisionZip (picks) keeps {count} tokens and by hand 3," in drawn.display.sentence
    colours = colours_of(result.methods)
    assert all(hex_of(colours[label]) in drawn.display.svg for label in two)
    (drawn,) = drawings(result, ("comparison",))
    words = "\n".join(item.words for item in drawn.display.items if isinstance(item, Text))
    rows = cost_rows(result.answers)[1:]
    prefills = re.findall(r"prefill [^(·]+ \((\S+)\)", words)
    assert prefills == [percent_of_all(row.prefill_share) for row in rows]
    assert "VisionZip, 8 merged of 16 tokens" in words and "SPARE, 8 of 16 tokens" in words
    caches = re.findall(r"· cache [^(\n]+ \((\S+)\)", words)
    assert caches == [percent_of_all(row.kv_cache_share) for row in rows]


def test_only_many_methods_have_them_and_sets_by_hand_do_not_vote(
    result: Result, tiny_model: LlavaModel, photo: Image.Image
) -> None:
    grid, consensus = drawings(result, OF_MANY)
    assert (grid.name, consensus.name) == OF_MANY
    counts = sum(
        torch.bincount(result.selections[name].kept, minlength=16)
        for name in ("spare", "cdpruner", "visionzip")
    )
    everyone, nobody = int((counts == 3).sum()), int((counts == 0).sum())
    assert f"kept by all 3 methods; {nobody} by none." in consensus.display.sentence
    assert consensus.display.sentence.startswith(str(everyone or "No patch"))
    methods = {"spare": PRUNERS["spare"], "uniform": PRUNERS["uniform"], "mine": Selection([1])}
    two = compare(tiny_model, photo, "", methods, budget=4, max_new_tokens=1)
    assert not [*drawings(two, OF_MANY)]
