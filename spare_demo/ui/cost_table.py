"""What each answer cost, as HTML: a column an answer, a line a stage in the order of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from itertools import groupby

from spare_demo.analysis.cost import (
    allocated_sentence,
    bytes_text,
    cost_rows,
    cost_sentence,
    newline_sentence,
    operations_text,
    seconds_text,
    tokens_text,
)
from spare_demo.comparison.request import UNPRUNED
from spare_demo.models import Answer
from spare_demo.table import Wide
from spare_demo.ui.panels import table_html
from spare_demo.ui.visit import SLOTS, Visit

_NONE = "–"


def cost_html(visit: Visit, floor: Callable[[Answer], float | None]) -> str:
    """What each answer cost, measured in this run, and what pruning brought.

    floor: the least time this device could take for an answer's prefill, where that is known.
    """
    if {*visit.result.answers, *visit.result.refused} != {UNPRUNED, *SLOTS}:
        return '<p class="note">Measured as soon as all three answers are there.</p>'
    names = {UNPRUNED: "All tokens", **visit.titles}
    rows = cost_rows(visit.result.answers)
    floors = [_floor_below(answer, floor) for answer in visit.result.answers.values()]
    lines = [
        ("tokens in", *[str(row.prompt_tokens) for row in rows]),
        ("visual tokens in", *[tokens_text(row) for row in rows]),
        *_stages_before(visit, len(rows)),
        ("prefill", *[seconds_text(row.prefill_seconds) for row in rows]),
        ("prefill floor", *["not known" if s is None else seconds_text(s) for s in floors]),
        ("prefill operations", *[operations_text(row.prefill_operations) for row in rows]),
        ("decode", *[seconds_text(row.decode_seconds) for row in rows]),
        ("tokens out", *[str(row.new_tokens) for row in rows]),
        ("KV cache", *[bytes_text(row.kv_cache_bytes) for row in rows]),
    ]
    if allocation_note := allocated_sentence(rows):
        lines.append(
            ("allocated", *[bytes_text(max(r.kv_cache_bytes, r.allocated_bytes)) for r in rows])
        )
    notes = [
        newline_sentence(visit.result.answers),
        "Each time is of one run; other work on this machine makes it longer.",
    ]
    if which := " and ".join(sorted(visit.exploration.select_seconds)):
        notes.append(
            f"Select, {which}: all {visit.exploration.n} tokens are put in order once, and every "
            "budget takes the first of them."
        )
    if visit.exploration.inside:
        notes.append(
            "Operations and cache count each layer with the tokens it got; the operations leave "
            "out what a method computes between layers."
        )
        notes.extend(_paper_counts(visit))
    notes.append(allocation_note)
    if any(floors):
        notes.append(
            "Floor: the least time this device could take for the prefill, given its memory speed "
            "and arithmetic rate, both measured when the app started."
        )
    head, kinds = ["", *(names[row.label] for row in rows)], [row.label.lower() for row in rows]
    return (
        f"{table_html('Cost of each answer', head, lines, 'cost stages', kinds)}"
        f"<p>{escape(cost_sentence(rows, names))}</p>"
        f"<p class='note'>{escape(' '.join(filter(None, notes)))}</p>"
    )


def _floor_below(answer: Answer, floor: Callable[[Answer], float | None]) -> float | None:
    """The floor of an answer's prefill.

    None also where the prefill took less: the device was busy when its rates were measured.
    """
    seconds = floor(answer)
    return None if seconds is None or seconds > answer.prefill_seconds else seconds


def _stages_before(visit: Visit, answers: int) -> Iterator[tuple[str | Wide, ...]]:
    """The lines of what comes before the language model."""
    view = visit.exploration.view
    once = seconds_text(visit.exploration.view.picture.encode_seconds)
    yield "encode", Wide(f"{once}, once for this picture", answers)
    once = seconds_text(view.relevance_seconds)
    yield "relevance", Wide(f"{once}, once for this question", answers)
    cells, times = [Wide(_NONE, 1)], visit.result.select_seconds
    # Methods that ran as one carry one time.
    for seconds, run in groupby(filter(visit.result.answers.__contains__, SLOTS), key=times.get):
        together = len(list(run))
        if seconds is None:
            cells += [Wide(_NONE, 1)] * together
        else:
            text = seconds_text(seconds)
            cells.append(Wide(f"{text} together" if together > 1 else text, together))
    yield "select", *cells


def _paper_counts(visit: Visit) -> Iterator[str]:
    """What the papers of methods inside the language model count, where it is not the average."""
    for slot, plan in visit.result.plans.items():
        if note := visit.result.methods[slot].counting_note:
            yield (
                f"The paper of {visit.titles[slot]} counts {plan.counted:.1f} visual tokens, where "
                f"the average over layers is {plan.average:.1f}: {note}."
            )
