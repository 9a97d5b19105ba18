"""How many methods keep each patch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spare_demo.render.base import Tokens, token_flags
from spare_demo.render.canvas import Canvas
from spare_demo.render.display import Display
from spare_demo.render.heatmap import heatmap


def consensus_counts(kept: Sequence[Tokens], n: int) -> NDArray[np.int64]:
    """(n,) by how many of the methods each token is kept.

    kept: (k,) token indices of each method. Raises ValueError for indices out of range or repeated.
    """
    return np.sum([token_flags(tokens, n) for tokens in kept], axis=0, dtype=np.int64)


def consensus_map(canvas: Canvas, kept: Sequence[Tokens]) -> Display:
    """The counts of `consensus_counts` as a map, on a scale from no method to all of them.

    kept: of two methods or more.
    """
    counts = consensus_counts(kept, canvas.grid.n)
    display = heatmap(
        canvas,
        counts.astype(np.float64),
        f"How many of {len(kept)} methods keep each patch",
        "High means that they agree on it.",
        (0, len(kept)),
        whole=True,
    )
    return replace(display, sentence=consensus_sentence(counts, len(kept)))


def consensus_sentence(counts: NDArray[np.int64], methods: int) -> str:
    """How many patches all methods keep, and how many none."""
    everyone, nobody = int((counts == methods).sum()), int((counts == 0).sum())
    patches = {0: "No patch is", 1: "1 patch is"}.get(everyone, f"{everyone} patches are")
    return f"{patches} kept by all {methods} methods; {nobody} by none."
