"""The terms: one text for the list and for the words on the page."""

from __future__ import annotations

import json
import re
from html import escape, unescape
from pathlib import Path

import pytest

import spare_demo.ui
from spare_demo.ui.terms import TERMS, glossary_html, mark_terms
from spare_demo.ui.viewer import code


def test_the_list_explains_every_term() -> None:
    html = glossary_html()
    assert html.count("<dt>") == len(TERMS)
    for word, meaning in TERMS.items():
        assert f"<dt>{escape(word[0].upper() + word[1:])}</dt><dd>{escape(meaning)}</dd>" in html


def test_a_mark_changes_no_text_and_marks_a_term_once() -> None:
    text = escape("prefill 3 ms · cache 2 MB · prefill again, by the model's own count")
    marked = mark_terms(text, "prefill", "cache")
    assert re.sub("<[^>]*>", "", marked) == text
    found = re.findall('data-term="(.*?)">(.*?)<', marked)
    assert found == [("prefill", "prefill"), ("cache", "cache")]
    assert 'data-term="KL">KL<' in mark_terms("the KL here", "KL")
    assert 'data-term="visual token">visual tokens<' in mark_terms("visual tokens", "visual token")
    assert mark_terms(unescape(text)) == unescape(text)


def test_a_word_without_an_explanation_is_refused() -> None:
    with pytest.raises(KeyError):
        mark_terms("attention", "attention")


def test_the_pages_script_has_the_same_words() -> None:
    assert json.dumps(TERMS) in code(["terms"])


def test_the_dotted_line_below_a_term_is_written_in_two_properties() -> None:
    """Safari passes over a `text-decoration` that says more than the line."""
    style = Path(spare_demo.ui.__file__).with_name("style.css").read_text("utf-8")
    assert "text-decoration-style: dotted" in style
    assert not re.search(r"text-decoration: *\w+ +\w", style)
