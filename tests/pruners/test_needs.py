"""What a method says it needs, what it says without it, and settings that are numbers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import pytest
import torch

from spare_demo import PRUNERS, VisualTokens
from spare_demo.pruners.base import Pruner, setting
from spare_demo.tokens import Selection


@dataclass(frozen=True)
class Loudest(Pruner):
    """Keeps the tokens with the longest states."""

    power: float = field(default=2.0, metadata=setting("Power", "Of the norm.", limits=(0.0, 9.0)))
    skip: int = field(default=0, metadata=setting("Skip", "So many.", limits=(0, 3)))

    name = "loudest"
    title = "Loudest"
    summary = "The longest states."
    needs = frozenset({"states", "cls_attention"})

    def _select(self, tokens: VisualTokens, k: int) -> Selection:
        assert tokens.states is not None
        return Selection(tokens.states.norm(p=self.power, dim=1).argsort(descending=True)[:k])


def test_a_model_that_cannot_fill_a_field_is_told_why() -> None:
    every = {"clip_text", "states", "cls_attention"}
    assert Loudest().reason_against(every) is None
    assert "class token" in (Loudest().reason_against({"states"}) or "")
    assert "one state per" in (Loudest().reason_against({"cls_attention"}) or "")
    assert "CLIP text side" in (PRUNERS["spare"].reason_against(set()) or "")
    assert PRUNERS["spare"].reason_against({"clip_text"}) is None
    assert PRUNERS["spare-reconstruction"].reason_against(set()) is None


def test_a_language_model_too_shallow_or_of_another_kind_is_said() -> None:
    fastv, sparse = PRUNERS["fastv"], PRUNERS["sparsevlm"]
    assert fastv.reason_against(set()) is fastv.reason_against(set(), 2) is None
    assert sparse.reason_against(set(), 4) is None
    assert "has 1 layer, and its 1 step needs more" in (fastv.reason_against(set(), 1) or "")
    assert "has 3 layers, and its 3 steps need more" in (sparse.reason_against(set(), 3) or "")
    assert "layer by layer" in (fastv.reason_against(set(), 0) or "")
    assert PRUNERS["random"].reason_against(set(), 0) is None
    whole, supplies = PRUNERS["vscan-whole"], {"cls_attention"}
    assert whole.reason_against(supplies, 2, 3) is None
    assert "has 1 layer, and its 1 step needs more" in (whole.reason_against(supplies, 1, 3) or "")
    assert "layer by layer" in (whole.reason_against(supplies, 0, 3) or "")
    assert "no class token" in (whole.reason_against(set(), 2, 3) or "")
    assert "has 2 blocks, too few" in (whole.reason_against(supplies, 2, 2) or "")


def test_tokens_without_the_field_are_refused_in_the_same_words() -> None:
    x = torch.eye(3)
    with pytest.raises(ValueError, match=r"'loudest' cannot run here: .*class token"):
        Loudest().select(VisualTokens(x, states=x), 2)
    full = VisualTokens(x, states=x, cls_attention=lambda block, joined=False: x[:1])
    assert len(Loudest().select(full, 2)) == 2


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"power": 9.5}, "Choose a number from 0.0 to 9.0"),
        ({"power": float("nan")}, "Choose a number from"),
        ({"power": "2"}, "Choose a number from"),
        ({"power": True}, "Choose a number from"),
        ({"skip": 1.0}, "skip=1.0 is not a setting of Loudest. Choose a whole number from 0 to 3"),
        ({"skip": 4}, "Choose a whole number from 0 to 3"),
    ],
)
def test_settings_that_are_numbers_have_limits(change: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        dataclasses.replace(Loudest(), **change)


def test_a_whole_number_is_a_number() -> None:
    assert Loudest(power=3).power == 3
