"""Small multiples: what many methods keep at one budget, in the order of KL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image

from spare_demo.render.base import token_flags
from spare_demo.render.canvas import Canvas
from spare_demo.render.colours import BLUE, Colour
from spare_demo.render.display import Box, Display, Item, Photo, Text
from spare_demo.render.legend import FAINT, INK
from spare_demo.render.marks import Outline, line_width
from spare_demo.render.text import LEADING, shorten, wrap
from spare_demo.table import counted
from spare_demo.tokens.checks import Indices

COLUMNS = 6
INSIDE = "inside the language model"

_PAPER: Colour = (238, 240, 243)
_WIDTH = 480  # of a cell, in units; half that where the picture is shown 1440 pixels wide
_EDGE, _GAP = 40, 32
_TITLE, _SMALL = 30, 26
_ANSWER_LINES = 2


class Cell(NamedTuple):
    """What came of one method.

    kept: (k,) token indices; of a method inside the language model those that its last layer got,
        None while they are not known.
    """

    title: str
    kept: Indices | None
    error: float | None = None  # relative reconstruction error, None where there is no one set
    kl: float | None = None  # of the first token to the unpruned model, nats; None until known
    answer: str | None = None  # None while there is none
    same: bool = False  # whether the answer is that of the unpruned model

    @property
    def figures(self) -> str:
        """Error and KL in words, as far as they are known."""
        error = "" if self.error is None else f"error {_error_text(self.error)}"
        kl = "" if self.kl is None else f"KL {kl_text(self.kl)}"
        return " · ".join(filter(None, (error, kl)))


def kl_text(kl: float) -> str:
    """A KL in nats with as many decimals as any other, so that a column of them can be read."""
    return "0" if kl == 0 else "<0.001" if kl < 0.0005 else f"{kl:.3f}"


def _error_text(error: float) -> str:
    return "0" if error == 0 else "<0.01" if error < 0.005 else f"{error:.2f}"


def by_kl(cells: Sequence[Cell]) -> list[Cell]:
    """The cells by KL, those without one last and by error; equal ones as they were."""

    def rank(cell: Cell) -> tuple[float, ...]:
        return tuple(math.inf if value is None else value for value in (cell.kl, cell.error))

    return sorted(cells, key=rank)


def kept_picture(canvas: Canvas, kept: Indices) -> Image.Image:
    """The photo with the kept patches as they are and outlined, all others dimmed; no words."""
    flags = token_flags(kept, canvas.grid.n)
    picture = canvas.keep(flags)
    Outline(canvas, flags, BLUE, line_width(canvas.patch)).paint(picture, 1)
    return picture


def methods_grid(canvas: Canvas, cells: Sequence[Cell]) -> Display:
    """A picture for each method, at most six to a row, with its figures and its answer under it.

    cells: at least one, in any order.
    """
    in_order = by_kl(cells)
    columns = min(COLUMNS, len(in_order))
    tall = min(max(1, round(_WIDTH * canvas.size[1] / canvas.size[0])), 2 * _WIDTH)
    words = round(_TITLE * 1.7) + round(_SMALL * LEADING) * (1 + _ANSWER_LINES) + _GAP
    items: list[Item] = []
    for index, cell in enumerate(in_order):
        row, column = divmod(index, columns)
        x, y = _EDGE + column * (_WIDTH + _GAP), _EDGE + row * (tall + words)
        _draw(items, canvas, cell, x, y, tall)
    rows = math.ceil(len(in_order) / columns)
    width = 2 * _EDGE + columns * (_WIDTH + _GAP) - _GAP
    return Display(width, 2 * _EDGE + rows * (tall + words) - _GAP, items, grid_sentence(cells))


def grid_sentence(cells: Sequence[Cell]) -> str:
    """How many methods there are, the best and the worst KL, and how many answers stayed.

    Without any KL, as of a model without its language model, they are in the order of the error.
    """
    in_order = by_kl(cells)
    methods = counted(len(cells), "method")
    measured = [cell for cell in in_order if cell.kl is not None]
    figure = "KL to the unpruned model" if measured else "the error of rebuilding all tokens"
    sentence = f"What {methods} kept, in the order of {figure}."
    if measured:
        best, worst = measured[0], measured[-1]
        sentence += f" The least KL is {kl_text(best.kl or 0.0)} ({best.title})"
        sentence += f", the largest {kl_text(worst.kl or 0.0)} ({worst.title})."
    answered = [cell for cell in cells if cell.answer is not None]
    if answered:
        same = sum(cell.same for cell in answered)
        was = "is" if same == 1 else "are"
        sentence += f" {same} of {len(answered)} answers {was} the same as with all tokens."
    return sentence


def _draw(items: list[Item], canvas: Canvas, cell: Cell, x: int, y: int, tall: int) -> None:
    """Adds a cell, from the top left corner x, y on; tall: of its picture."""
    title = shorten(cell.title, _WIDTH, _TITLE)
    items.append(Text(x, y + _TITLE * 0.7, title, _TITLE, INK))
    y += round(_TITLE * 1.7)
    if cell.kept is None:
        items.append(Box(x, y, _WIDTH, tall, _PAPER))
        items.append(Text(x + _WIDTH / 2, y + tall / 2, INSIDE, _SMALL, FAINT, "mm"))
    else:
        # As small as it is shown: an SVG holds every one of these pictures.
        picture = kept_picture(canvas, cell.kept)
        picture.thumbnail((_WIDTH, tall), Image.Resampling.LANCZOS)
        items.append(Photo(x, y, picture))
    y += tall
    lines = [(shorten(cell.figures, _WIDTH, _SMALL), FAINT)] if cell.figures else []
    if cell.answer is not None:
        answer = wrap(cell.answer.strip() or "(empty answer)", _WIDTH, _SMALL, _ANSWER_LINES)
        lines += [(line, INK) for line in answer]
    for index, (line, colour) in enumerate(lines):
        items.append(Text(x, y + (index + 0.8) * _SMALL * LEADING, line, _SMALL, colour))
