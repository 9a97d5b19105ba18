"""What the browser is sent, read back as it reads it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from visits import page_reply, page_request, unpacked

from spare_demo.analysis.why import why as reason_of
from spare_demo.models.families.llava_next import LlavaNextModel
from spare_demo.relevance import RelevanceOptions
from spare_demo.settings import Settings
from spare_demo.ui.guide import Guide
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.payload import identity, payload
from spare_demo.ui.visit import Visit


@pytest.fixture
def visit(guide: Guide, photo_file: str) -> Visit:
    return guide.look(page_request(photo_file, "What is <it>?", "spare", "uniform"))


def test_the_picture_comes_along_and_where_its_tokens_lie(
    guide: Guide, visit, photo_file: str
) -> None:
    sent = payload(visit, 5)
    picture = Image.open(io.BytesIO(sent["picture"]))
    assert picture.tobytes() == visit.canvas.image.tobytes()
    canvas = sent["canvas"]
    assert (canvas["x"], canvas["y"]) == visit.canvas.rectangle(0)[:2]
    assert (canvas["width"], canvas["height"]) == picture.size
    assert sent["key"] == "-".join(visit.key) and visit.key[1] == "pad"
    assert unpacked(sent["padding"]) == visit.exploration.view.picture.grid.padding.tolist()
    assert not canvas["cropped"]
    cut = guide.look(page_request(photo_file, "What is it?", aspect="crop"))
    assert payload(cut, 5)["canvas"]["cropped"]


def test_each_view_comes_with_its_rows_and_its_photo(
    tiny_next: LlavaNextModel, small_settings: Settings, photo_file: str
) -> None:
    visit = Guide(tiny_next, small_settings).look(page_request(photo_file, "What?", aspect="any"))
    sent = payload(visit, 5)
    shapes = [(part["start"], part["rows"], part["cols"]) for part in sent["parts"]]
    assert shapes == [(0, 4, 4), (16, 6, 8)]
    assert sent["canvas"]["photos"] == [list(box) for box in visit.canvas.photos]
    assert len(sent["canvas"]["photos"]) == 2


def test_nested_picks_come_whole_and_others_for_the_budget(visit) -> None:
    methods = payload(visit, 5)["methods"]
    assert unpacked(methods["A"]["order"]) == visit.exploration.picks["A"].order.tolist()
    kept = visit.exploration.selections(5)["B"].order.tolist()
    assert unpacked(methods["B"]["order"]) == kept
    assert methods["B"]["budget"] == 5 and not methods["B"]["nested"]


def test_a_reply_has_what_the_browser_cannot_know(handlers: Handlers, visit) -> None:
    picks = page_reply(handlers, "picks", visit, slot="B", budget=7)
    assert picks["order"] == visit.exploration.selections(7)["B"].order.tolist()
    left = page_reply(handlers, "leftover", visit, slot="A", budget=7)
    kept = visit.exploration.selections(7)["A"].order.tolist()
    assert [unpacked(left["values"])[i] for i in kept] == pytest.approx([0] * 7, abs=1e-6)


def test_a_reply_says_which_comparison_slot_and_budget_it_is_of(handlers: Handlers, visit) -> None:
    for name, slot in (("picks", "B"), ("leftover", "A")):
        reply = page_reply(handlers, name, visit, slot=slot, budget=7)
        assert (reply["of"], reply["slot"], reply["budget"]) == (identity(visit), slot, 7)
    why = page_reply(handlers, "why", visit, patch=3, budget=7, step="last")
    assert (why["of"], why["patch"], why["budget"], why["step"]) == (identity(visit), 3, 7, "last")


def test_a_comparison_is_the_same_at_every_budget_and_no_other(
    guide: Guide, photo_file: str, wide_picture: Path
) -> None:
    def of(question: str = "What?", **other: Any) -> str:
        return identity(guide.look(page_request(photo_file, question, **other)))

    assert of(budget=7) == of()
    others = [of("Which?"), of(method_b="uniform"), of(relevance=RelevanceOptions(-1))]
    picture = identity(guide.look(page_request(str(wide_picture), "What?")))
    assert len({of(), *others, picture}) == 5


def test_reasons_in_a_reply(handlers: Handlers, visit) -> None:
    order = visit.exploration.picks["A"].order.tolist()

    def why(pick: int, step: str) -> dict:
        asked = {"patch": order[pick], "budget": 5, "step": step}
        return page_reply(handlers, "why", visit, **asked)["reasons"]["A"]

    kept, lost = why(2, "own"), why(9, "own")
    assert (kept["rank"], kept["step"], kept["winner"]) == (3, 2, order[2])
    assert lost["rank"] is None and lost["step"] == 4
    assert {part["token"] for part in lost["parts"]} <= set(order[:5])
    factors = lost["factors"]
    product = factors["novelty"] * factors["magnitude"] * factors["text"]
    assert factors["value"] == pytest.approx(product)
    stand_ins = reason_of(visit.exploration, "A", order[9], 5).stand_ins
    assert stand_ins is not None
    for name, values in (("coefficient", stand_ins.coefficients), ("share", stand_ins.shares)):
        assert [part[name] for part in lost["parts"]] == pytest.approx([*values])
    later = page_reply(handlers, "why", visit, patch=order[9], budget=8, step="last")
    assert later["reasons"]["A"]["step"] == 7
    first = why(9, "first")
    assert first["winner"] == order[0] and first["factors"]["novelty"] == pytest.approx(1)


@pytest.mark.parametrize("method", ["prumerge-plus", "visionzip"])
def test_what_went_into_merged_rows_is_sent(
    handlers: Handlers, photo_file: str, method: str
) -> None:
    visit = handlers.guide.look(page_request(photo_file, "What is it?", "spare", method))
    for sent, budget in (
        (payload(visit, 6)["methods"]["B"], 6),
        (page_reply(handlers, "picks", visit, slot="B", budget=9), 9),
    ):
        parts = sent["sources"]
        exact = visit.exploration.selections(budget)["B"].sources
        counts = np.array(unpacked(parts["counts"]), int)
        rows = np.repeat(np.arange(len(counts)), counts)
        told = np.zeros(exact.shape)
        told[rows, np.array(unpacked(parts["patches"]), int)] = unpacked(parts["shares"])
        assert (told == exact.numpy()).all()
    assert "sources" not in payload(visit, 6)["methods"]["A"]


def test_more_parts_than_there_is_room_for_are_not_sent(
    guide: Guide, photo_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    visit = guide.look(page_request(photo_file, "What is it?", "spare", "visionzip"))
    monkeypatch.setattr("spare_demo.ui.wire._MOST_PARTS", 3)
    assert payload(visit, 6)["methods"]["B"]["sources"] is None
