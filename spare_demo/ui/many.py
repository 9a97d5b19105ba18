"""All methods at one budget as HTML: a figure for each, and how many of them keep each patch."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from PIL import Image

from spare_demo.comparison.request import UNPRUNED
from spare_demo.comparison.result import Result
from spare_demo.evaluation.grading import grade
from spare_demo.pruners import PRUNERS
from spare_demo.render.base import data_address, tokens_word
from spare_demo.render.canvas import Canvas
from spare_demo.render.grid import INSIDE, Cell, by_kl, grid_sentence, kept_picture
from spare_demo.results.drawings import cells, consensus
from spare_demo.ui.panels import colours_html, figures_html, words_html

_LONGEST = 320
"""Longest side of a picture in pixels: a row of six is shown smaller on most screens."""


class ManyHtml:
    """Writes the same comparison again and again as its answers come; draws each picture once."""

    def __init__(self, canvas: Canvas, reasons: Mapping[str, str], truth: str | None) -> None:
        """reasons: why a method is left out, by name, in words that follow "…: ".
        truth: the true answer, None where it is not known.
        """
        self._canvas, self._reasons, self._truth = canvas, reasons, truth
        self._pictures: dict[str, str] = {}
        self._consensus: str | None = None

    def __call__(self, result: Result, note: str = "") -> str:
        """The comparison so far; note: a sentence about what is missing."""
        known = cells(result)
        figures = "".join(self._figure(cell, result.visual_tokens) for cell in by_kl(known))
        if self._consensus is None:
            self._consensus = self._consensus_html(result)
        left_out = "".join(
            f"<li>{escape(PRUNERS[name].title)}: {escape(reason)}</li>"
            for name, reason in self._reasons.items()
        )
        return (
            f'<div class="many">{_head(result, note)}<div class="multiples">{figures}</div>'
            f"{words_html(grid_sentence(known))}{self._consensus}"
            + (f'<div class="note">Left out:<ul>{left_out}</ul></div>' if left_out else "")
            + "</div>"
        )

    def _figure(self, cell: Cell, n: int) -> str:
        picture, words = f'<p class="unseen">{INSIDE}</p>', ""
        if cell.kept is not None:
            if cell.title not in self._pictures:
                self._pictures[cell.title] = _address(kept_picture(self._canvas, cell.kept))
            in_last = " in the last layer" if cell.error is None else ""
            words = f"{cell.title} keeps {len(cell.kept)} of {tokens_word(n)}{in_last}."
            picture = f'<img src="{self._pictures[cell.title]}" alt="{escape(words)}">'
        lines = [f"<b>{escape(cell.title)}</b>"]
        if cell.figures:
            lines.append(f"<span>{escape(cell.figures)}</span>")
        if cell.answer is not None:
            verdict = "" if cell.same else " <i>another answer</i>"
            lines.append(
                f"{self._mark(cell.answer)}<q>{escape(cell.answer) or '(no words)'}</q>{verdict}"
            )
        return f"<figure>{picture}<figcaption>{'<br>'.join(lines)}</figcaption></figure>"

    def _mark(self, answer: str) -> str:
        """Whether an answer is the true one, where that is known, before the answer itself."""
        right = None if self._truth is None else grade(answer, self._truth)
        if right is None:
            return ""
        kind, sign = ("right", "✓") if right else ("wrong", "✗")
        return f'<span class="grade {kind}" aria-label="{kind}" role="img">{sign}</span> '

    def _consensus_html(self, result: Result) -> str:
        display = consensus(result, self._canvas)
        if display is None:
            return ""
        key = colours_html("kept by none", f"by all {len(result.selections)}")
        figure = figures_html(self._canvas, [(display, key)], "")
        return f"<h3>How many methods keep each patch</h3>{figure}"


def _head(result: Result, note: str) -> str:
    whole = result.answers.get(UNPRUNED)
    words = f"{len(result.methods)} methods at a budget of {result.budget}."
    if whole is not None:
        words += f" With all {result.visual_tokens} tokens the answer is “{whole.text}”."
    return words_html(f"{words} {note}".strip())


def _address(picture: Image.Image) -> str:
    picture.thumbnail((_LONGEST, _LONGEST), Image.Resampling.LANCZOS)
    return data_address(picture, compress_level=6)
