"""The stage: the pictures that it holds, read back pixel by pixel, and what stands beside them."""

from __future__ import annotations

import base64
import dataclasses
import io
import re
from html import unescape

import numpy as np
import pytest
import torch
from PIL import Image

from spare_demo.ui.stage import LAYERS, OVERVIEW, stage_html
from spare_demo.ui.visit import Choices, Guide, Visit

SINGLE = [layer for layer in LAYERS if layer != OVERVIEW]


@pytest.fixture
def visit(guide: Guide, photo_file: str) -> Visit:
    return guide.look(photo_file, "What is <it>?", Choices("spare", "uniform"), None)


def pictures(html: str) -> list[Image.Image]:
    found = re.findall(r'src="data:image/png;base64,([^"]+)"', html)
    return [Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB") for data in found]


def alts(html: str) -> list[str]:
    return [unescape(text) for text in re.findall(r'alt="([^"]*)"', html)]


@pytest.mark.parametrize("layer", SINGLE)
def test_each_layer_is_one_picture_with_its_sentence(visit, layer: str) -> None:
    html = stage_html(visit, 5, layer)
    assert len(pictures(html)) == 1
    (alt,) = alts(html)
    caption = re.search("<figcaption>(.*)</figcaption>", html)
    assert caption and unescape(caption[1]) == alt
    assert len(alt) > 20


def test_the_overview_holds_four_pictures_with_four_sentences(visit) -> None:
    html = stage_html(visit, 5, OVERVIEW)
    assert len(pictures(html)) == 4
    assert len(set(alts(html))) == 4
    assert {picture.size for picture in pictures(html)} == {visit.canvas.size}


@pytest.mark.parametrize("slot", ["A", "B"])
def test_kept_patches_are_as_bright_as_the_photo_and_dropped_ones_dimmed(visit, slot: str) -> None:
    (drawn,) = pictures(stage_html(visit, 5, slot))
    kept = set(visit.exploration.selections(5)[slot].kept.tolist())
    shown = np.asarray(drawn).astype(int)
    whole = np.asarray(pictures(stage_html(visit, 16, slot))[0]).astype(int)
    width, height = visit.picture.photo.size
    right = []
    for index, (left, top, end, bottom) in enumerate(visit.picture.grid.boxes.tolist()):
        if not (0 < left + end < 2 * width and 0 < top + bottom < 2 * height):
            continue  # padding has nothing to dim
        x0, y0, x1, y1 = visit.canvas.rectangle(index)
        middle = np.s_[(y0 + y1) // 2, (x0 + x1) // 2]
        same = bool((shown[middle] == whole[middle]).all())
        right.append(same == (index in kept))
    assert right and all(right)


def test_the_slider_moves_every_picture_but_relevance(visit) -> None:
    few, many = (pictures(stage_html(visit, k, OVERVIEW)) for k in (2, 12))
    changed = [a.tobytes() != b.tobytes() for a, b in zip(few, many, strict=True)]
    assert changed == [False, True, True, True]


def test_the_counts_are_those_of_the_selections(visit) -> None:
    a, b = (set(visit.exploration.selections(6)[slot].kept.tolist()) for slot in ("A", "B"))
    sentence = alts(stage_html(visit, 6, "Difference"))[0]
    assert f"{len(a & b)} of them" in sentence
    assert f"Jaccard {len(a & b) / len(a | b):.2f}" in sentence


def test_the_map_says_what_high_means_and_marks_the_ends(visit) -> None:
    values = visit.exploration.relevance
    html = stage_html(visit, 5, OVERVIEW)
    assert "High means similar" in html
    assert f"<b>{float(values.min()):+.3f}</b>" in html
    assert f"<b>{float(values.max()):+.3f}</b>" in html
    assert ">mean</i>" in html


def test_zero_is_marked_where_it_lies_in_the_range(visit) -> None:
    def bar(low: float) -> str:
        explored = dataclasses.replace(visit.exploration)
        explored.__dict__["relevance"] = torch.linspace(low, 0.5, 16)
        return stage_html(dataclasses.replace(visit, exploration=explored), 5, OVERVIEW)

    assert 'left:50.0%">0</i>' in bar(-0.5)
    assert ">0</i>" not in bar(0.1)


def test_without_a_question_the_map_is_a_sentence(guide: Guide, photo_file: str) -> None:
    visit = guide.look(photo_file, "", Choices("spare", "uniform"), None)
    html = stage_html(visit, 5, "Relevance")
    assert pictures(html) == []
    assert "there is no question" in html
    assert len(pictures(stage_html(visit, 5, OVERVIEW))) == 3


def test_one_pixel_has_a_stage_too(guide: Guide, tmp_path) -> None:
    Image.new("RGB", (1, 1), "red").save(tmp_path / "one.png")
    visit = guide.look(str(tmp_path / "one.png"), "Red?", Choices("spare", "uniform"), None)
    for layer in LAYERS:
        assert pictures(stage_html(visit, 3, layer))
