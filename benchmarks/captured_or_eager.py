"""Does a captured prefill give the tokens of the eager one? In float32, where rounding decides no
token.

A module for `prepared.py`: the answers with all tokens and with SPARE's 64, before and after the
prefill is captured.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path

from comparing import QUESTION

from spare_demo import compare
from spare_demo.models import load_model


def main(arguments: Sequence[str]) -> int:
    """Write of each label whether the tokens are the same, and by what share of their norm the
    first scores differ.

    arguments: model, device, picture, the JSON file to write. Raises ModelError where a prefill
        cannot be captured or differs from the eager one by more than rounding.
    """
    name, device, picture, out = arguments
    model = load_model(name, device, capture_prefill="off")
    model.hf.float()
    asked = functools.partial(compare, model, picture, QUESTION, ("spare",), 64, max_new_tokens=16)
    eager = asked().answers
    model.capture_prefill("on")
    captured = asked().answers
    figures = {}
    for label, one in eager.items():
        other = captured[label]
        share = (one.first_logits - other.first_logits).norm() / one.first_logits.norm()
        same = one.token_ids == other.token_ids
        figures[label] = {"same_tokens": same, "scores_differ_by": float(share)}
    Path(out).write_text(json.dumps(figures))
    return 0
