"""`compare` as a rehearsal runs it: a picture, the program's arguments, and its figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

QUESTION = "What animal is this?"


def draw_picture(seed: int, path: Path) -> Path:
    """A smooth random picture of 640 by 480, written there."""
    noise = np.random.default_rng(seed).integers(0, 255, (12, 16, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((640, 480), Image.Resampling.BICUBIC).save(path)
    return path


def arguments(
    name: str, device: str, picture: Path, out: Path, budget: int, methods: Sequence[str]
) -> list[str]:
    """Of the program, for answers of 16 tokens."""
    return [
        *("compare", str(picture), QUESTION, "--model", name, "--device", device),
        *("--budget", str(budget), "--max-new-tokens", "16", "--out", str(out)),
        *("--methods", *methods),
    ]


def stages(out: Path) -> dict[str, Any]:
    """`encode_seconds`, and `prefill_seconds` and `decode_seconds` of each of the `answers`."""
    record = json.loads((out / "result.json").read_text())
    answers = {
        label: {key: answer[key] for key in ("prefill_seconds", "decode_seconds")}
        for label, answer in record["answers"].items()
    }
    return {"encode_seconds": record["encode_seconds"], "answers": answers}
