"""What a method says it needs, what it says without it, and settings that are numbers."""

from __future__ import annotations

import dataclasses

import pytest
from drawn_tokens import picture

from spare_demo import PRUNERS
from spare_demo.pruners import Method
from spare_demo.pruners.zoo import ZooPrune

WORDS = {  # optional field: what is said where a model cannot give it
    "clip_text": "no CLIP text side",
    "cls_attention": "no class token",
    "class_states": "no class token",
    "attention_received": "attention to itself",
    "vision_keys": "attention keys to itself",
    "vision_values": "attention values to itself",
    "class_queries": "no class token",
    "words": "without its language model",
    "states": "one state per visual token",
    "project": "one visual token at a time",
}
TEXT = [(m, m.text_field) for m in PRUNERS.values() if m.needs_text]
NEEDS = [(m, field) for m in PRUNERS.values() for field in sorted(m.needs)]


@pytest.mark.parametrize(
    ("method", "field"), [*TEXT, *NEEDS], ids=lambda part: getattr(part, "name", part)
)
def test_a_model_that_cannot_fill_a_field_is_told_why(method: Method, field: str) -> None:
    assert method.reason_against(set(WORDS)) is None
    assert WORDS[field] in method.reason_against(set(WORDS) - {field})
    if field in method.needs:
        with pytest.raises(ValueError, match=f"'{method.name}' cannot run here: .*{WORDS[field]}"):
            method.check(dataclasses.replace(picture(), **{field: None}))


def test_what_needs_nothing_runs_on_any_model() -> None:
    assert PRUNERS["spare-reconstruction"].reason_against(set()) is None


def test_a_language_model_too_shallow_or_of_another_kind_is_said() -> None:
    fastv, sparse = PRUNERS["fastv"], PRUNERS["sparsevlm"]
    assert fastv.reason_against(set()) is fastv.reason_against(set(), 2) is None
    assert sparse.reason_against(set(), 4) is None
    assert "has 1 layer, and its 1 step needs more" in fastv.reason_against(set(), 1)
    assert "has 3 layers, and its 3 steps need more" in sparse.reason_against(set(), 3)
    assert "layer by layer" in fastv.reason_against(set(), 0)
    assert PRUNERS["random"].reason_against(set(), 0) is None
    whole, supplies = PRUNERS["vscan-whole"], {"cls_attention"}
    assert whole.reason_against(supplies, 2, 3) is None
    assert "has 1 layer, and its 1 step needs more" in whole.reason_against(supplies, 1, 3)
    assert "layer by layer" in whole.reason_against(supplies, 0, 3)
    assert "no class token" in whole.reason_against(set(), 2, 3)
    assert "has 2 blocks, too few" in whole.reason_against(supplies, 2, 2)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"step": 10.5}, "Choose a number from 0.0001 to 10.0"),
        ({"step": float("nan")}, "Choose a number from"),
        ({"step": "2"}, "Choose a number from"),
        ({"step": True}, "Choose a number from"),
        ({"directions": 2.0}, "directions=2.0 is not a setting of ZooPrune. Choose a whole number"),
        ({"directions": 1025}, "Choose a whole number from 1 to 1024"),
    ],
)
def test_settings_that_are_numbers_have_limits(change: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ZooPrune(**change)


def test_a_whole_number_is_a_number() -> None:
    assert ZooPrune(step=3).step == 3
