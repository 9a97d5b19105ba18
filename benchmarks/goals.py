"""What was aimed at on a GPU, and whether it was met, from the files of the other programs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measuring import milliseconds

ONE, MORE, FIVE, LONG = (
    "1 view, n=576, d=4096, k=64",
    "1 view, n=576, d=4096, k=192",
    "5 views, n=576, d=4096, k=64",
    "1 view, n=2880, d=4096, k=640",
)
ALL, FEW = "576 visual + 120 text", "64 visual + 120 text"
CAPTURED = "7b shape, captured"
PUBLISHED = "published-style loop, in half precision"


@dataclass(frozen=True)
class Goal:
    """what: in words. limit: what is aimed at. measured: the figure, from the files."""

    what: str
    limit: float
    measured: Callable[[Files], float]
    at_least: bool = False
    in_seconds: bool = False

    def row(self, files: Files) -> tuple[str, str, str, str]:
        """What, the goal, what was measured, and whether that is as good."""
        value = self.measured(files)
        met = value >= self.limit if self.at_least else value <= self.limit
        show = milliseconds if self.in_seconds else "{:.3g}".format
        sign = "≥" if self.at_least else "≤"
        return self.what, f"{sign} {show(self.limit)}", show(value), "met" if met else "missed"


class Files:
    """The figures of the other programs."""

    def __init__(self, told: Mapping[str, Mapping[str, Any]]) -> None:
        """told: the content of each file, by its name."""
        self._told = told

    def _figure(self, file: str, what: str, shape: str = "", dtype: str = "") -> Mapping[str, Any]:
        """The only one, or the first, of that name, shape and number format."""
        return next(
            f
            for f in self._told[file]["figures"]
            if f["what"] == what and shape in ("", f["shape"]) and dtype in ("", f["dtype"])
        )

    def choosing(self, shape: str, loop: str = "greedy loop") -> float:
        """Seconds of choosing tokens, from features in half precision."""
        return statistics.median(self._figure("selection", loop, shape, "float16")["seconds"])

    def prefill(self, shape: str) -> float:
        """Seconds of the captured prefill at 7B's shape."""
        return statistics.median(self._figure("prefill", CAPTURED, shape)["seconds"])

    def to_floor(self, shape: str) -> float:
        """The same as a multiple of its floor."""
        return float(self._figure("prefill", CAPTURED, shape)["ratio"])

    def together(self) -> float:
        """Three whole answers together as a multiple of the slowest of them alone."""
        return float(self._figure("decode", "together, whole answers")["ratio"])


GOALS = (
    Goal("choosing 64 of 576 tokens", 0.4e-3, lambda f: f.choosing(ONE), in_seconds=True),
    Goal("choosing 192 of 576 tokens", 0.8e-3, lambda f: f.choosing(MORE), in_seconds=True),
    Goal("five views, as a multiple of one", 1.5, lambda f: f.choosing(FIVE) / f.choosing(ONE)),
    Goal(
        "the published loop, as a multiple of ours, 64 of 576",
        5,
        lambda f: f.choosing(ONE, PUBLISHED) / f.choosing(ONE),
        at_least=True,
    ),
    Goal(
        "the published loop, as a multiple of ours, 640 of 2,880",
        5,
        lambda f: f.choosing(LONG, PUBLISHED) / f.choosing(LONG),
        at_least=True,
    ),
    Goal(
        "the captured prefill of all tokens, as a multiple of that of 64",
        3,
        lambda f: f.prefill(ALL) / f.prefill(FEW),
        at_least=True,
    ),
    Goal("that of all tokens, as a multiple of its floor", 1.6, lambda f: f.to_floor(ALL)),
    Goal("that of 64 tokens, as a multiple of its floor", 1.6, lambda f: f.to_floor(FEW)),
    Goal(
        "choosing 64 tokens, as a share of their prefill",
        0.05,
        lambda f: f.choosing(ONE) / f.prefill(FEW),
    ),
    Goal("three answers together, as a multiple of the slowest", 1.25, lambda f: f.together()),
)


def rows(results: Path) -> Iterator[tuple[str, str, str, str]]:
    """A row for each goal; none where its files are missing."""
    paths = {name: results / f"{name}-cuda.json" for name in ("selection", "prefill", "decode")}
    if all(path.exists() for path in paths.values()):
        files = Files({name: json.loads(path.read_text()) for name, path in paths.items()})
        yield from (goal.row(files) for goal in GOALS)
