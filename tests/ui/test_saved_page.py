"""A comparison as one file: how large it is, what it holds, and what is refused."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from visits import QUESTION, page_reply, with_result

from spare_demo import compare, saved_page
from spare_demo.comparison.result import Result
from spare_demo.models import LlavaModel, load_model
from spare_demo.pruners import PRUNERS
from spare_demo.results.io import read_result, write_result
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.saved_page import visit_of
from spare_demo.ui.visit import Visit

MARKUP = "</script><img src=x onerror=alert(1)> $answers ${scripts} SENTENCES = {}"


@pytest.fixture(scope="module")
def result(tiny_model: LlavaModel, photo: Image.Image) -> Result:
    return compare(tiny_model, photo, QUESTION, budget=5, max_new_tokens=3)


def test_a_page_names_no_address_and_stays_below_its_size(result: Result, tmp_path: Path) -> None:
    result.html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page == saved_page(result)
    assert len(page.encode()) < 1_000_000
    assert "http://" not in page and "https://" not in page
    assert "default-src 'none'" in page
    for text in (QUESTION, result.model, result.revision, "A SPARE", "B CDPruner"):
        assert text in page


def test_a_detailed_picture_is_compressed_until_it_fits(tiny_model: LlavaModel) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (1000, 1000, 3), dtype=np.uint8)
    result = compare(tiny_model, Image.fromarray(noise), QUESTION, budget=5, max_new_tokens=3)
    assert 500_000 < len(saved_page(result).encode()) < 1_000_000


def test_markup_in_question_or_label_stays_text(tiny_model: LlavaModel, photo: Image.Image) -> None:
    methods = {"<b>mine</b></script>": PRUNERS["spare"], "other": PRUNERS["cdpruner"]}
    page = saved_page(compare(tiny_model, photo, MARKUP, methods, budget=5, max_new_tokens=3))
    assert "<img src=x" not in page and "<b>mine" not in page
    assert "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt; $answers ${scripts}" in page
    assert "A &lt;b&gt;mine&lt;/b&gt;&lt;/script&gt;" in page
    # Theme, data, viewer: nothing ends them early and nothing is added.
    assert page.count("<script") == page.count("</script>") == 3


def test_the_picks_are_those_of_the_result(result: Result) -> None:
    visit = visit_of(result)
    for label, slot in zip(result.methods, "AB", strict=True):
        again = visit.exploration.selections(5)[slot]
        assert again.order.tolist() == result.selections[label].order.tolist()
        assert len(visit.exploration.picks[slot]) == result.visual_tokens


def test_of_more_methods_the_first_two_are_shown_and_it_says_so(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    names = ("random", "fastv", "spare")
    page = saved_page(compare(tiny_model, photo, "", names, budget=9, max_new_tokens=3))
    assert "3 methods were compared: this page shows the first 2 of them." in page
    assert "(no question)" in page and page.count('<section class="card') == 3
    by_rank = dataclasses.replace(PRUNERS["fastv"], counting="rank")  # type: ignore[type-var]
    methods = {"base": PRUNERS["trim"], "A": PRUNERS["fastv"], "B": by_rank}
    more = {**methods, "C": PRUNERS["visionzip"]}
    all_four = compare(tiny_model, photo, "Is it red?", more, budget=9, max_new_tokens=1)
    visit = visit_of(all_four)
    assert visit.result.plans == {"B": all_four.plans["A"]}  # not that of the third
    assert [note.split()[0] for note in all_four.notes] == ["TRIM", "VisionZip"]
    assert visit.exploration.notes == all_four.notes[:1]  # and of those shown alone


def test_without_answers_it_misses_only_what_a_saved_page_has(
    tiny_folder: Path, photo: Image.Image
) -> None:
    eyes = load_model(str(tiny_folder), "cpu", language_model=False)
    page = saved_page(compare(eyes, photo, QUESTION, budget=5))
    assert "without its language model" in page
    assert "need answers too" not in page


def test_what_cannot_be_a_page_is_said(
    tiny_model: LlavaModel, photo: Image.Image, result: Result, tmp_path: Path
) -> None:
    from_file = read_result(write_result(result)).result
    one = compare(tiny_model, photo, QUESTION, ("spare",), budget=5, max_new_tokens=3)
    half = dataclasses.replace(result, answers={})
    cases = ((from_file, "has no features"), (one, "Compare one more"), (half, "Not every answer"))
    for bad, sentence in cases:
        with pytest.raises(ValueError, match=sentence):
            bad.html(tmp_path / "page.html")
        assert re.search(f"^<p>.*{sentence}.*</p>$", bad._repr_html_())
    assert not (tmp_path / "page.html").exists()


def test_a_notebook_shows_it_in_a_frame_of_its_own(result: Result) -> None:
    html = result._repr_html_()
    assert html.startswith('<iframe srcdoc="') and html.count('"') == 8
    assert 'sandbox="allow-scripts"' in html


def test_the_button_sends_the_page_or_says_why_not(handlers: Handlers, finished: Visit) -> None:
    (made,) = handlers.replies.save_page({}, finished)
    assert (made["file"].name, made["file"].media_type) == ("spare-comparison.html", "text/html")
    page = made["file"].content.decode()
    assert "Probability of the first word" in page and 'class="answer-now"' not in page
    unfinished = with_result(finished, answers={})
    assert page_reply(handlers, "save_page", unfinished)["kind"] == "refused"
