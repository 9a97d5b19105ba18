"""Shared by everything that draws curves: their look in a browser, and round ticks."""

from __future__ import annotations

import math
from typing import Any

# Read on a white and on a black page alike; the ground stays the page's own.
INK = "#808080"
FONT = "system-ui, sans-serif"
PLOTLY_AXIS: dict[str, Any] = {
    "gridcolor": "rgba(128,128,128,0.25)",
    "linecolor": INK,
    "showline": True,
    "zeroline": False,
    "automargin": True,
}
PLOTLY_LAYOUT: dict[str, Any] = {
    "template": "none",
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"color": INK, "size": 13, "family": FONT},
    "hoverlabel": {"bgcolor": "#ffffff", "font": {"color": "#20242a"}},
    "modebar": {"orientation": "v", "bgcolor": "rgba(0,0,0,0)", "color": INK},
}


def round_ticks(top: float) -> list[float]:
    """0 and up to five round steps, the last at or above `top`, which is above 0."""
    power = 10.0 ** math.floor(math.log10(top))
    step = next(power * part for part in (0.2, 0.5, 1.0, 2.0) if top / (power * part) <= 5)
    return [float(f"{step * i:.10g}") for i in range(math.ceil(top / step - 1e-9) + 1)]
