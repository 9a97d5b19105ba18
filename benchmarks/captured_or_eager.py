"""Does a captured prefill give the tokens of the eager one? In float32, where rounding decides no
token.

A module for `prepared.py`: the answers with all tokens and with SPARE's 64, before and after the
prefill is captured.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from comparing import QUESTION

from spare_demo import compare
from spare_demo.models import Answer, Model, load_model


def main(arguments: Sequence[str]) -> int:
    """arguments: model, device, picture, the JSON file to write. Raises ModelError where a prefill
    cannot be captured or differs from the eager one by more than rounding."""
    name, device, picture, out = arguments
    model = load_model(name, device, capture_prefill="off")
    model.hf.float()
    eager = ask(model, picture)
    model.capture_prefill("on")
    captured = ask(model, picture)
    Path(out).write_text(json.dumps({label: differ(label, eager, captured) for label in eager}))
    return 0


def ask(model: Model, picture: str) -> dict[str, Answer]:
    """The answers of 16 tokens, by label."""
    return dict(compare(model, picture, QUESTION, ("spare",), 64, max_new_tokens=16).answers)


def differ(
    label: str, eager: dict[str, Answer], captured: dict[str, Answer]
) -> dict[str, bool | float]:
    """Whether the tokens are the same, and by what share of their norm the first scores differ."""
    one, other = eager[label], captured[label]
    share = (one.first_logits - other.first_logits).norm() / one.first_logits.norm()
    return {"same_tokens": one.token_ids == other.token_ids, "scores_differ_by": float(share)}
