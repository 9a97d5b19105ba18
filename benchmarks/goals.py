"""What was aimed at on a GPU, and whether it was met, from the files of the other programs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from measuring import milliseconds
from selection import SHAPES, in_words

ONE, MORE, FIVE, LONG = (in_words(*shape) for shape in SHAPES)
ALL, FEW = "576 visual + 120 text", "64 visual + 120 text"
PUBLISHED = "published-style loop, in half precision"

Row = tuple[str, str, str, str]


def number(value: float, digits: int = 3) -> str:
    """A number without a unit, with so many significant digits."""
    return f"{value:.{digits}g}"


def goal(
    what: str, sign: str, limit: float, value: float, show: Callable[[float], str] = number
) -> Row:
    """What it is, what is aimed at, what was measured, and whether that is as good."""
    met = value >= limit if sign == "≥" else value <= limit
    shown, digits = show(value), 3
    while show is number and not met and shown == number(limit):  # else it would look met
        digits += 1
        shown = number(value, digits)
    return what, f"{sign} {show(limit)}", shown, "met" if met else "missed"


def rows(results: Path) -> Iterator[Row]:
    """Every goal; those without their files are left out."""
    yield from _of_parts(results)
    for file in sorted(results.glob("rehearsal-*-cuda.json")):
        yield from _of_rehearsal(json.loads(file.read_text()))


def _of_rehearsal(figures: dict[str, Any]) -> Iterator[Row]:
    """Of the parts that were run and did not fail."""
    model, page, compared = figures["model"], figures.get("page", {}), figures["compare"]
    prefills = page.get("one visitor", {}).get("prefill_seconds", [])
    if len(prefills) > 1:
        first, last = (sum(prefills[i].values()) for i in (0, -1))
        what = f"{model}: first prefills, as a multiple of the last ones"
        yield goal(what, "≤", 1.2, first / last)
    memory = f"{model}: most GPU memory, as a multiple of what it says it needs"
    need = compared.get("16 bits", {}).get("needed_gb")
    if need and "gpu_of_one_model_gb" in page:
        yield goal(f"{memory}, page", "≤", 1.1, page["gpu_of_one_model_gb"] / need)
    elif need and "gpu_peak_gb" in page:
        what = f"{memory}, page, a change of model included"
        yield goal(what, "≤", 1.1, page["gpu_peak_gb"] / need)
    for bits in ("8 bits", "4 bits"):
        part = compared.get(bits, {})
        if "peak_to_needed" in part:
            what = f"{memory}, {bits}, {part['methods']} methods"
            yield goal(what, "≤", 1.1, part["peak_to_needed"])
            torch_gb = part["gpu_of_torch_gb"]
            idle = torch_gb["reserved"] - torch_gb["allocated"]
            used = (part["gpu_peak_gb"] - idle) / part["needed_gb"]
            yield goal(f"{what}, without what torch keeps for later", "≤", 1.1, used)
    for label, answer in figures.get("captured", {}).get("answers", {}).items():
        what = f"{model}: tokens of {label}, captured as eager in float32"
        found = ("the same", "met") if answer["same_tokens"] else ("others", "missed")
        yield what, "the same", *found


def _of_parts(results: Path) -> Iterator[Row]:
    paths = {name: results / f"{name}-cuda.json" for name in ("selection", "prefill", "decode")}
    if not all(path.exists() for path in paths.values()):
        return
    files = {name: json.loads(path.read_text())["figures"] for name, path in paths.items()}

    def figure(file: str, what: str, shape: str = "", dtype: str = "") -> dict[str, Any]:
        """The only one, or the first, of that name, shape and number format."""
        return next(
            f
            for f in files[file]
            if f["what"] == what and shape in ("", f["shape"]) and dtype in ("", f["dtype"])
        )

    def choosing(shape: str, loop: str = "greedy loop") -> float:
        """Seconds of choosing tokens, from features in half precision."""
        return statistics.median(figure("selection", loop, shape, "float16")["seconds"])

    whole, few = (figure("prefill", "7b shape, captured", shape) for shape in (ALL, FEW))
    whole_seconds, few_seconds = (statistics.median(f["seconds"]) for f in (whole, few))
    together = figure("decode", "together, whole answers")["ratio"]
    one = choosing(ONE)
    loops = "the published loop, as a multiple of ours"
    captured = "the captured prefill of all tokens, as a multiple of that of 64"
    floor = "as a multiple of its floor"
    slowest = "three answers together, as a multiple of the slowest"

    yield goal("choosing 64 of 576 tokens", "≤", 0.4e-3, one, milliseconds)
    yield goal("choosing 192 of 576 tokens", "≤", 0.8e-3, choosing(MORE), milliseconds)
    yield goal("five views, as a multiple of one", "≤", 1.5, choosing(FIVE) / one)
    yield goal(f"{loops}, 64 of 576", "≥", 5, choosing(ONE, PUBLISHED) / one)
    yield goal(f"{loops}, 640 of 2,880", "≥", 5, choosing(LONG, PUBLISHED) / choosing(LONG))
    yield goal(captured, "≥", 3, whole_seconds / few_seconds)
    yield goal(f"that of all tokens, {floor}", "≤", 1.6, whole["ratio"])
    yield goal(f"that of 64 tokens, {floor}", "≤", 1.6, few["ratio"])
    yield goal("choosing 64 tokens, as a share of their prefill", "≤", 0.05, one / few_seconds)
    yield goal(slowest, "≤", 1.25, together)
