"""Which kept token carries the answer, on the page: in words, with a button, and as a map."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import torch

from spare_demo.analysis.cost import seconds_text
from spare_demo.analysis.leave_one_out import LeaveOneOut
from spare_demo.models import Answer
from spare_demo.ui import panels
from spare_demo.ui.payload import identity
from spare_demo.ui.visit import SLOTS, Visit
from spare_demo.ui.wire import array, to_numbered_json


def time_html(visit: Visit, slot: str, answer: Answer, rows: int) -> str:
    """About how long a slot will take, before it is begun; rows: how many are left out in turn."""
    one = answer.prefill_seconds + answer.decode_seconds
    return (
        f'<p class="note while-asked">{escape(visit.titles[slot])}: one answer took '
        f"{seconds_text(one)}, so one without each of its {rows} takes about "
        f"{seconds_text(rows * one)}, less where several fit in one pass. Stop ends it.</p>"
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
                f"{panels.progress_html(sentence, results[slot].done)}"
                f"{_button(slot, results[slot])}</section>"
            )
    return "".join(parts)


def _button(slot: str, result: LeaveOneOut) -> str:
    """Nothing where no patch can be taken from a set made by hand."""
    if not result.done or result.merged:
        return ""
    words = "the token that carries it" if result.turning else "the token with the largest loss"
    return (
        f'<button type="button" class="remove-carrier" data-slot="{slot}" '
        f'data-token="{result.carrier.token}">Remove {words}</button>'
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
