"""What the browser is sent, read back as it reads it."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image
from visits import page_request

from spare_demo.ui.guide import Guide
from spare_demo.ui.payload import leftover_reply, payload, picks_reply, why_reply
from spare_demo.ui.visit import Visit


@pytest.fixture
def visit(guide: Guide, photo_file: str) -> Visit:
    return guide.look(page_request(photo_file, "What is <it>?", "spare", "uniform"))


def unpacked(sent: dict | np.ndarray) -> list:
    if isinstance(sent, np.ndarray):
        return sent.tolist()
    return np.frombuffer(base64.b64decode(sent["data"]), f"<{sent['type']}").tolist()


def test_the_picture_comes_along_and_where_its_tokens_lie(visit) -> None:
    sent = payload(visit, 5)
    picture = Image.open(io.BytesIO(sent["picture"]))
    assert picture.tobytes() == visit.canvas.image.tobytes()
    canvas = sent["canvas"]
    assert (canvas["x"], canvas["y"]) == visit.canvas.rectangle(0)[:2]
    assert (canvas["width"], canvas["height"]) == picture.size
    assert unpacked(sent["padding"]) == visit.exploration.view.picture.grid.padding.tolist()


def test_nested_picks_come_whole_and_others_for_the_budget(visit) -> None:
    methods = payload(visit, 5)["methods"]
    assert unpacked(methods["A"]["order"]) == visit.exploration.full["A"].order.tolist()
    kept = visit.exploration.selections(5)["B"].order.tolist()
    assert unpacked(methods["B"]["order"]) == kept
    assert methods["B"]["budget"] == 5 and not methods["B"]["nested"]


def test_a_reply_has_what_the_browser_cannot_know(visit) -> None:
    picks = json.loads(picks_reply(visit, "B", 7))
    assert picks["order"] == visit.exploration.selections(7)["B"].order.tolist()
    left = json.loads(leftover_reply(visit, "A", 7))
    kept = visit.exploration.selections(7)["A"].order.tolist()
    assert [unpacked(left["values"])[i] for i in kept] == pytest.approx([0] * 7, abs=1e-6)


def test_reasons_in_a_reply(visit) -> None:
    order = visit.exploration.full["A"].order.tolist()
    kept, lost = (json.loads(why_reply(visit, order[i], 5, "own"))["reasons"]["A"] for i in (2, 9))
    assert (kept["rank"], kept["step"], kept["winner"]) == (3, 2, order[2])
    assert lost["rank"] is None and lost["step"] == 4
    assert {part["token"] for part in lost["parts"]} <= set(order[:5])
    factors = lost["factors"]
    product = factors["novelty"] * factors["magnitude"] * factors["text"]
    assert factors["value"] == pytest.approx(product)
    first = json.loads(why_reply(visit, order[9], 5, "first"))["reasons"]["A"]
    assert first["winner"] == order[0] and first["factors"]["novelty"] == pytest.approx(1)


@pytest.mark.parametrize("method", ["prumerge-plus", "visionzip"])
def test_what_went_into_merged_rows_is_sent(guide: Guide, photo_file: str, method: str) -> None:
    visit = guide.look(page_request(photo_file, "What is it?", "spare", method))
    for sent, budget in (
        (payload(visit, 6)["methods"]["B"], 6),
        (json.loads(picks_reply(visit, "B", 9)), 9),
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
