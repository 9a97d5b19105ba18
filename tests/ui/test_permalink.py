"""Links: what was set comes back; what does not hold here is named, and the rest is used."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spare_demo.pruners import PRUNERS
from spare_demo.settings import Settings
from spare_demo.ui.permalink import _KEYS, State, decode, encode

SCENES = ("scene-1001.png", "wide-1025.png")
names = st.sampled_from([*PRUNERS, "spare:squash=minmax", None])
states = st.builds(
    State,
    method_a=names,
    method_b=names,
    budget=st.none() | st.integers(1, 576),
    question=st.none() | st.text(min_size=1).map(str.strip).filter(bool),
    example=st.sampled_from([*SCENES, None]),
    seed=st.none() | st.integers(0, 2**32 - 1),
    aspect=st.sampled_from(["pad", "crop", None]),
    relevance_layer=st.sampled_from([-1, -2, None]),
    relevance_text=st.sampled_from(["tokens", "stretches", None]),
    views=st.sampled_from(["shares", "together", None]),
    depth=st.none() | st.integers(1, 32),
    model=st.sampled_from(["built-in@0123", None]),
)


def asked(query: str) -> dict[str, str]:
    """An address's query part as a server hands it over."""
    return dict(parse_qsl(query, keep_blank_values=True))


@given(states)
@settings(deadline=None, derandomize=True)
def test_what_was_set_comes_back(state: State) -> None:
    text = encode(state)
    assert text.isascii()
    assert decode(asked(text), tokens=576, layers=32, examples=SCENES) == (state, [])


def test_foreign_keys_do_not_count() -> None:
    found, stale = decode({"__theme": "dark", "k": "8", "logs": "container"}, tokens=16)
    assert found == State(budget=8)
    assert stale == []


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("a=sparse", "A: there is no method 'sparse' here"),
        ("b=", ""),
        ("a=spare%3Asquash%3Dflat", "no method 'spare:squash=flat' here, or not with these"),
        ("k=577", "A budget of '577' does not fit this model's 576 tokens"),
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
        ("depth=6", "This language model has no layer '6'; its last one is shown"),
        ("depth=0", "no layer '0'"),
        ("depth=last", "no layer 'last'"),
        ("model=built-in%40old", "made with the model 'built-in@old'; this is built-in@new"),
        ("q=" + "x" * 3000, "3,000 characters; at most 2,000"),
    ],
)
def test_what_is_stale_is_named_and_the_rest_is_used(query: str, sentence: str) -> None:
    found, stale = decode(
        asked("b=cdpruner&" + query if not query.startswith("b=") else query),
        tokens=576,
        layers=5,
        question=Settings().check_question,
        examples=SCENES,
        aspects=("pad", "crop"),
        views=(),
        model="built-in@new",
    )
    if sentence:
        assert found.method_b == "cdpruner"
        assert len(stale) == 1
        assert sentence in stale[0]
    else:
        assert (found, stale) == (State(), [])


def test_a_strangers_words_are_cut_short() -> None:
    _, (sentence,) = decode({"a": "<b>\n" + "x" * 500}, tokens=16)
    assert len(sentence) < 140
    assert "\n" not in sentence


@given(st.dictionaries(st.sampled_from(list(_KEYS)) | st.text(), st.text()))
@settings(deadline=None, derandomize=True)
def test_no_text_is_too_odd(query: dict[str, str]) -> None:
    found, _ = decode(query, tokens=16)
    assert found.budget is None or 1 <= found.budget <= 16
