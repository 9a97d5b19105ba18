"""What the studies beyond one comparison found, as HTML, and as a message where it is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby

import numpy as np
import torch
from PIL import Image

from spare_demo.analysis.cost import rough_seconds_text, seconds_text
from spare_demo.analysis.leave_one_out import LeaveOneOut
from spare_demo.analysis.min_budget import Sufficiency
from spare_demo.comparison.request import UNPRUNED
from spare_demo.comparison.result import Result
from spare_demo.evaluation.grading import grade
from spare_demo.models import Answer
from spare_demo.pruners import PRUNERS
from spare_demo.render.base import data_address, number
from spare_demo.render.canvas import Canvas
from spare_demo.render.colours import cividis
from spare_demo.render.display import Display
from spare_demo.render.grid import INSIDE, Cell, by_kl, grid_sentence, kept_picture
from spare_demo.results.drawings import cells, consensus
from spare_demo.table import counted, tokens_word, with_full_stop
from spare_demo.ui.panels import table_html, words_html
from spare_demo.ui.payload import identity
from spare_demo.ui.visit import SLOTS, Visit
from spare_demo.ui.wire import array, to_numbered_json

_LONGEST = 320
"""Longest side of a picture in pixels: a row of six is shown smaller on most screens."""


def enough_html(visit: Visit, results: Mapping[str, Sufficiency]) -> str:
    """How few tokens are enough: the answer at each budget tried, per method."""
    parts = []
    for slot, result in results.items():
        title = visit.titles[slot]
        answers = groupby(result.trials, key=lambda trial: (trial.text, trial.same))
        rows = [
            (", ".join(str(t.budget) for t in trials), text, "same" if same else "another")
            for (text, same), trials in answers
        ]
        head = ("tokens", "answer", "against all tokens")
        parts.append(
            f"<section class='tried {slot.lower()}'>"
            f"{words_html(result.sentence(title), result.done, spoken=result.done)}"
            f"<details><summary>{counted(len(result.trials), 'budget')} tried</summary>"
            f"{table_html(f'Budgets tried, {slot}', head, rows)}</details></section>"
        )
    parts += [
        words_html(
            f"{visit.titles[slot]} chooses anew at every budget, so there is no order of picks to "
            "search."
        )
        for slot, method in visit.exploration.methods.items()
        if slot in visit.titles and not method.nested
    ]
    return "".join(parts)


def figures_html(canvas: Canvas, figures: Sequence[tuple[Display, str]], words: str) -> str:
    """Pictures side by side, each with its sentence as caption and alternative text.

    figures: each with its key as HTML. words: a sentence about all of them, or "".
    """
    row = ""
    for display, key in figures:
        # Without its legend, which is made for paper and would be too small to read here.
        picture = display.image.crop((0, 0, *canvas.size))
        row += (
            f'<figure><img src="{data_address(picture, compress_level=3)}" '
            f'alt="{escape(display.sentence)}">'
            f"{key}<figcaption>{escape(display.sentence)}</figcaption></figure>"
        )
    return f'<div class="figures-row">{row}</div>{words_html(words) if words else ""}'


def questions_key_html(padding: bool) -> str:
    """What the marks mean in a picture of two questions' picks; the sentence has the counts."""
    keys = {"both": "kept for both", "first": "only for the first", "second": "only for the second"}
    keys |= {"none": "for neither"} | ({"padding": "padding"} if padding else {})
    return "".join(f'<span class="key {kind}">{words}</span>' for kind, words in keys.items())


def two_questions_html(visit: Visit, question: str, second: Result) -> str:
    """What is answered to both questions, with all tokens and with each method's.

    visit: of the first question, finished. second: the result of the second one, `question`.
    """
    names = {UNPRUNED: "All tokens", **visit.titles}
    both = ((visit.request.question, visit.result.answers), (question, second.answers))
    rows = [
        (asked, *(answers[label].text if label in answers else "–" for label in names))
        for asked, answers in both
    ]
    return table_html("Answers to both questions", ("Question", *names.values()), rows)


def change_key_html(size: float) -> str:
    """The colours of the map of a change, from -size to +size."""
    end = number(size, scale=size)
    return colours_html(f"-{end}: nearer the first", f"+{end}: nearer the second")


def colours_html(low: str, high: str) -> str:
    """The colours of a map, with words on what their two ends mean."""
    colours = ",".join(f"rgb{tuple(map(int, c))}" for c in cividis(np.linspace(0, 1, 17)))
    return (
        f'<span class="bar"><b>{low}</b>'
        f'<span style="background:linear-gradient(to right,{colours})"></span>'
        f"<b>{high}</b></span>"
    )


def time_html(visit: Visit, slot: str, answer: Answer, rows: int) -> str:
    """About how long a slot will take, before it is begun; rows: how many are left out in turn."""
    one = answer.prefill_seconds + answer.decode_seconds
    return (
        f'<p class="note while-asked">{escape(visit.titles[slot])}: one answer took '
        f"{seconds_text(one)}, so one without each of its {rows} takes about "
        f"{rough_seconds_text(rows * one)}, less where several fit in one pass. Stop ends it.</p>"
    )


def carrier_html(
    visit: Visit, results: Mapping[str, LeaveOneOut], refused: Mapping[str, str]
) -> str:
    """A sentence per method, and a button that asks without the token that it names.

    results: what is known, by slot. refused: why there is nothing to know, of the others.
    """
    parts = []
    for slot in SLOTS:
        if slot in refused:
            parts.append(
                f'<p class="note">{escape(visit.titles[slot])}: {escape(refused[slot])}</p>'
            )
        elif slot in results:
            sentence = results[slot].sentence(visit.titles[slot], visit.canvas.where)
            parts.append(
                f'<section class="carried {slot.lower()}">'
                f"{words_html(sentence, results[slot].done, spoken=results[slot].done)}"
                f"{_button(results[slot], slot)}</section>"
            )
    return "".join(parts)


def _button(result: LeaveOneOut, slot: str) -> str:
    """Nothing where no patch can be taken from a set made by hand."""
    if not result.done or result.merged:
        return ""
    words = "that token" if result.turning else "the token with the largest loss"
    # js/carrier.js gets the map only once both methods are through, which Stop may come before.
    found = result.carrier.token
    others = [removal.token for removal in result.removals if removal.token != found]
    return (
        f'<button type="button" class="remove-carrier" data-others="{others}" '
        f'aria-label="Remove {words} from {slot}">Remove {words}</button>'
    )


def carrier_reply(
    visit: Visit, budget: int, results: Mapping[str, LeaveOneOut], refused: Mapping[str, str]
) -> str:
    """What leaving out each kept patch costs, by slot, for js/carrier.js to draw.

    tokens  u2 (m,) the patches; of merged rows those that gave most to one
    losses  f4 (m,) log probability of the answer lost without it, in nats
    """
    slots = {}
    for slot, result in results.items():
        losses: dict[int, float] = {}
        for removal in result.removals:
            if removal.token is not None:  # of several rows of one patch, the one that costs most
                loss = losses.get(removal.token, removal.log_loss)
                losses[removal.token] = max(loss, removal.log_loss)
        slots[slot] = {
            "tokens": array(torch.tensor(list(losses)), "u2"),
            "losses": array(torch.tensor(list(losses.values())), "f4"),
            "answer": result.answer,
        }
    of = identity(visit)
    return to_numbered_json("carrier", of=of, budget=budget, slots=slots, refused=refused)


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
        """The comparison so far; note: of what is missing, before "…"."""
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
        words += with_full_stop(
            f" With all {result.visual_tokens} tokens the answer is “{whole.text}”"
        )
    return words_html(f"{words} {note}".strip(), done=not note)


def _address(picture: Image.Image) -> str:
    picture.thumbnail((_LONGEST, _LONGEST), Image.Resampling.LANCZOS)
    return data_address(picture, compress_level=6)
