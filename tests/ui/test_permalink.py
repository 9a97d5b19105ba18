"""Links: what was set comes back; what does not hold here is named, and the rest is used."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spare_demo.comparison.request import Request
from spare_demo.pruners import PRUNERS
from spare_demo.relevance import RelevanceOptions
from spare_demo.settings import Settings
from spare_demo.ui.guide import methods_by_slot
from spare_demo.ui.permalink import decode, encode

SCENES = ("scene-1001.png", "wide-1025.png")
MODEL = SimpleNamespace(
    name="built-in",
    revision="0123",
    most_tokens=576,
    layers=32,
    aspects=("pad", "crop"),
    several_views=True,
    position_options=("compact", "original"),
)
names = st.sampled_from([*PRUNERS, "spare:squash=minmax"])
requests = st.builds(
    lambda a, b, seed, question, aspect, layer, text, by, together, positions: Request(
        "photo.png",
        question,
        methods_by_slot(a, b, seed),
        seed=seed,
        aspect=aspect,
        relevance=RelevanceOptions(layer, text, by),
        together=together,
        positions=positions,
    ),
    names,
    names,
    st.integers(0, 2**32 - 1),
    st.text(),
    st.sampled_from(["pad", "crop"]),
    st.sampled_from([-1, -2]),
    st.sampled_from(["tokens", "stretches"]),
    st.sampled_from(["clip", "words"]),
    st.booleans(),
    st.sampled_from(["compact", "original"]),
)


def asked(query: str) -> dict[str, str]:
    """An address's query part as a server hands it over."""
    return dict(parse_qsl(query, keep_blank_values=True))


def read(query: dict[str, str], **other: Any) -> tuple[dict[str, Any], list[str]]:
    """The query as a page takes it whose model is `MODEL`, or differs from it in this."""
    model: Any = SimpleNamespace(**vars(MODEL) | other)
    return decode(query, model, Settings(), SCENES)


@given(requests, st.sampled_from([*SCENES, None]))
def test_what_was_set_comes_back(request: Request, example: str | None) -> None:
    text = encode(request, MODEL, example)  # type: ignore[arg-type]
    assert text.isascii() and "photo" not in text
    found, stale = read(asked(text))
    a, b = found.pop("method_a"), found.pop("method_b")
    assert methods_by_slot(a, b, request.seed) == request.labelled
    expected = {
        "seed": request.seed,
        "aspect": request.aspect,
        "relevance_layer": request.relevance.layer,
        "relevance_text": request.relevance.text,
        "together": request.together,
        "positions": request.positions,
    }
    expected |= {"question": request.question} if request.question else {}
    by = request.relevance.guidance_text
    expected |= {} if by == "clip" else {"guidance_text": by}  # as the page opens
    assert found == expected | ({"example": example} if example else {})
    assert stale == []


def test_a_link_names_the_model_that_it_was_made_with() -> None:
    request = Request("photo.png", "Red?", methods_by_slot("spare", "random", 0))
    assert asked(encode(request, MODEL, None))["model"] == "built-in@0123"  # type: ignore[arg-type]


def test_the_pages_script_adds_the_budget_and_the_layer() -> None:
    assert read({"k": "576", "depth": "32"}) == ({"budget": 576, "depth": 32}, [])


def test_foreign_keys_and_empty_values_do_not_count() -> None:
    assert read({"b": "", "q": ""}) == ({}, [])
    assert read({"__theme": "dark", "k": "8", "logs": "container"}) == ({"budget": 8}, [])


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("a=sparse", "A: there is no method 'sparse' here"),
        ("a=spare%3Asquash%3Dflat", "no method 'spare:squash=flat' here, or not with these"),
        ("k=577", "A budget of '577' does not fit this model's 576 tokens"),
        ("k=0", "A budget of '0'"),
        ("k=-3", "A budget of '-3'"),
        ("k=1e3", "A budget of '1e3'"),
        ("k=٣", "A budget of '٣'"),
        ("seed=99999999999999", "The seed '99999999999999'"),
        ("scene=../../etc/passwd", "The example '../../etc/passwd' is not among"),
        ("fit=native", "This model cannot fit a picture by 'native'"),
        ("layer=-7", "Relevance cannot be read from layer '-7'"),
        ("layer=two", "Relevance cannot be read from layer 'two'"),
        ("text=words", "Relevance cannot read the text by 'words'"),
        ("views=together", "A budget cannot be shared by 'together' among this model's views"),
        ("positions=compact", "Kept tokens cannot have 'compact' positions in this model."),
        ("depth=6", "This language model has no layer '6'; its last one is shown"),
        ("depth=0", "no layer '0'"),
        ("depth=last", "no layer 'last'"),
        ("model=built-in%40old", "made with the model 'built-in@old'; this is built-in@new"),
        ("q=" + "x" * 3000, "3,000 characters; at most 2,000"),
    ],
)
def test_what_is_stale_is_named_and_the_rest_is_used(query: str, sentence: str) -> None:
    found, (stale,) = read(
        asked(f"b=cdpruner&{query}"),
        layers=5,
        several_views=False,
        position_options=("original",),
        revision="new",
    )
    assert found["method_b"] == "cdpruner"
    assert sentence in stale


def test_a_strangers_words_are_cut_short() -> None:
    _, (sentence,) = read({"a": "<b>\n" + "x" * 500})
    assert len(sentence) < 140
    assert "\n" not in sentence


@given(
    st.dictionaries(
        st.sampled_from(["a", "k", "q", "seed", "layer", "views", "model"]) | st.text(), st.text()
    )
)
def test_no_text_is_too_odd(query: dict[str, str]) -> None:
    found, _ = read(query)
    assert 1 <= found.get("budget", 1) <= 576
