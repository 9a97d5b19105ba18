"""The log of a training as a picture: every figure over the steps."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

_WIDTH, _HEIGHT, _MARGIN = 900, 90, 40


def figures_of(log: list[str]) -> dict[str, list[tuple[int, float]]]:
    """Each figure of a log's lines, "name step/steps  phase  figure value  …": steps and values."""
    figures: dict[str, list[tuple[int, float]]] = {}
    for line in log:
        if not (head := re.match(r"\w+ (\d+)/\d+  ", line)):
            continue
        for name, value in re.findall(r"  (\w+) (-?\d+\.\d+)(?=  )", line):
            figures.setdefault(name, []).append((int(head[1]), float(value)))
    return figures


def write_curve(file: Path, log: list[str]) -> None:
    """Writes an SVG file, one band to a figure, from the smallest value to the largest."""
    parts = []
    figures = figures_of(log)
    last = max((steps for points in figures.values() for steps, _ in points), default=1)
    for row, (name, points) in enumerate(figures.items()):
        values = [value for _, value in points]
        low, high = min(values), max(values)
        top = row * (_HEIGHT + _MARGIN) + _MARGIN
        scale = _HEIGHT / (high - low or 1.0)
        line = " ".join(
            f"{s / last * _WIDTH:.1f},{top + (high - v) * scale:.1f}" for s, v in points
        )
        title = f"{name}: {low:.3f} to {high:.3f}, at step {points[-1][0]} {values[-1]:.3f}"
        parts.append(f'<text x="0" y="{top - 8}">{escape(title)}</text>')
        parts.append(f'<polyline points="{line}" fill="none" stroke="#1f5fbf"/>')
    height = len(figures) * (_HEIGHT + _MARGIN) + _MARGIN
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    body = "".join(parts)
    file.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" '
        f'font-size="14"><rect width="100%" height="100%" fill="#fff"/>{body}</svg>\n'
    )
