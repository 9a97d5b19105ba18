"""What tables of an evaluation are made of: cells, rows, notes, and `Table` itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spare_demo.comparison.request import UNPRUNED
from spare_demo.evaluation.groups import by_group
from spare_demo.evaluation.resampling import FEW, Estimate
from spare_demo.evaluation.results import BLANK
from spare_demo.evaluation.summary import Summary
from spare_demo.evaluation.variants import split_label, words_of
from spare_demo.pruners import PRUNERS, options
from spare_demo.table import markdown_table, text_table

_INTERVALS = "The 95 % intervals, in brackets, come from drawing whole pictures again"
SHARES_NOTE = (
    f"{_INTERVALS}; of fewer than {FEW} pictures, and where all answers are right or all wrong, "
    "they are Wilson's, with as many trials as pictures."
)
TOO_FEW = f" With fewer than {FEW} pictures intervals are too narrow to go by."


@dataclass(frozen=True)
class Table:
    """title and note: sentences; every row has as many cells as the head."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        """Under its title in bold."""
        note = f"\n\n{self.note}" if self.note else ""
        return f"**{self.title}**\n\n{markdown_table(self.head, self.rows, numbers=True)}{note}"

    def text(self) -> str:
        """Columns side by side."""
        lines = [self.title, text_table(self.head, self.rows)]
        return "\n".join([*lines, *([self.note] if self.note else [])])


def title_of(label: str) -> str:
    """What to call a label: its method's title, or itself."""
    if label in (UNPRUNED, BLANK):
        return {UNPRUNED: "All tokens", BLANK: "Blank picture, all tokens"}[label]
    name, variant = split_label(label)
    if name.partition(":")[0] not in PRUNERS:
        return label
    title = options.title_of(options.read_method(name, PRUNERS), PRUNERS)
    return f"{title}, {words_of(variant)}" if variant else title


def percent(estimate: Estimate | None, signed: bool = False) -> str:
    """ "71.3 (68.2 to 74.5)", in percent; a dash for nothing."""
    if estimate is None:
        return "–"
    sign = "+" if signed else ""
    value, low, high = (
        f"{100 * v:{sign}.1f}" for v in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} ({low} to {high})"


def share(estimate: Estimate) -> str:
    """ "71.3 % (68.2 to 74.5)", for a sentence."""
    return percent(estimate).replace(" ", " % ", 1)


def plain(estimate: Estimate | None) -> str:
    """ "0.413 (0.401 to 0.425)"; a dash for nothing."""
    if estimate is None:
        return "–"
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def signed(estimate: Estimate | None) -> str:
    """ "+0.013 (-0.001 to +0.025)"; a dash for nothing."""
    if estimate is None:
        return "–"
    return f"{estimate.value:+.3f} ({estimate.low:+.3f} to {estimate.high:+.3f})"


def means_note(summary: Summary) -> str:
    """How intervals of means are made, and a warning where they rest on few pictures."""
    return f"{_INTERVALS}." + ("" if summary.pictures >= FEW else TOO_FEW)


def star(summary: Summary, difference: Estimate | None) -> str:
    """A star where there are pictures enough and the interval leaves out zero."""
    enough = summary.pictures >= FEW
    return "*" if enough and difference is not None and difference.apart_from(0) else ""


def method_rows(
    labels: Sequence[str], cells: Callable[[str], tuple[str, ...]]
) -> tuple[tuple[str, ...], ...]:
    """A row per method, its title and then its cells; of many the headings of their groups too."""
    rows: list[tuple[str, ...]] = []
    for heading, members in by_group(labels).items():
        if heading:
            rows.append((f"{heading}:", *("" for _ in cells(members[0]))))
        rows += [(title_of(label), *cells(label)) for label in members]
    return tuple(rows)
