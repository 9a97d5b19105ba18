"""What tables of an evaluation are made of: cells, rows, notes, and `Table` itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from spare_demo.comparison.request import UNPRUNED
from spare_demo.evaluation.records import BLANK
from spare_demo.evaluation.statistics import FEW, Estimate
from spare_demo.evaluation.summary import RIGHT, Summary
from spare_demo.evaluation.variants import split_label, words_of
from spare_demo.pruners import PRUNERS, options
from spare_demo.pruners.base import GROUPS
from spare_demo.table import listed, markdown_table, text_table

_INTERVALS = "The 95 % intervals, in brackets, come from a bootstrap over pictures"
SHARES_NOTE = (
    f"{_INTERVALS}; of fewer than {FEW} pictures, and where all answers are right or all wrong, "
    "they are Wilson's, with as many trials as pictures."
)
TOO_FEW = (
    f" With fewer than {FEW} pictures intervals of means and differences are too narrow to go by."
)

FEW_METHODS = 10
"""As many as one chart can show, and as a table needs no headings for."""

_OTHERS = "Others"


@dataclass(frozen=True)
class Table:
    """title and note: sentences; every row has as many cells as the head."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        """The table as Markdown, under its title in bold."""
        note = f"\n\n{self.note}" if self.note else ""
        return f"**{self.title}**\n\n{markdown_table(self.head, self.rows, numbers=True)}{note}"

    def text(self) -> str:
        """The table as text, columns side by side."""
        return "\n".join(filter(None, (self.title, text_table(self.head, self.rows), self.note)))


def title_of(label: str) -> str:
    """What to call a label: its method's title, or itself."""
    if label in (UNPRUNED, BLANK):
        return {UNPRUNED: "All tokens", BLANK: "Blank picture, all tokens"}[label]
    name, variant = split_label(label)
    try:
        title = options.title_of(options.read_method(name))
    except ValueError:  # a method or setting that only the version has which measured it
        return label
    words = [words_of(variant)] if variant else []
    return ", ".join([title, *options.seeds_of(name), *words])


def inside_note(labels: Sequence[str]) -> str:
    """What a budget is of methods inside the language model, in sentences; "" without one."""
    average: list[str] = []
    paper: list[str] = []
    for label in labels:
        try:
            method = options.read_method(split_label(label)[0])
        except ValueError:  # as in `title_of`
            continue
        if method.inside:
            (average if method.budget_is_average else paper).append(title_of(label))
    sentences = []
    if average:
        sentences.append(f"Of {listed(average)} a budget is the average over layers.")
    if paper:
        counts = "what the paper counts: the layers get more on average"
        sentences.append(f"Of {listed(paper)} a budget is {counts}.")
    return " ".join(sentences)


def percent(estimate: Estimate | None, signed: bool = False) -> str:
    """ "71.3 (68.2 to 74.5)", in percent; a dash for nothing."""
    return _interval(estimate, "+z.1f" if signed else "z.1f", 100)


def share(estimate: Estimate) -> str:
    """ "71.3 % (68.2 to 74.5)", for a sentence."""
    return percent(estimate).replace(" ", " % ", 1)


def plain(estimate: Estimate | None, signed: bool = False) -> str:
    """ "0.413 (0.401 to 0.425)"; of a small value two digits, not zeros; a dash for nothing."""
    small = estimate is not None and 0 < abs(estimate.value) < 0.01
    return _interval(estimate, ("+" if signed else "") + ("z#.2g" if small else "z.3f"))


def in_measure(measure: str, difference: Estimate | None) -> str:
    """A difference, with its sign, as its measure of `MEASURES` is written."""
    return (percent if measure == RIGHT else plain)(difference, signed=True)


def _interval(estimate: Estimate | None, form: str, scale: float = 1) -> str:
    if estimate is None:
        return "–"
    value, low, high = (
        f"{scale * v:{form}}" for v in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} ({low} to {high})"


def say_once(tables: Sequence[Table]) -> list[Table]:
    """The tables, each sentence about intervals only in the first note that has it."""
    earlier, shortened = "", []
    for table in tables:
        note = table.note
        for sentence in (SHARES_NOTE, f"{_INTERVALS}.", TOO_FEW.strip()):
            if sentence.rstrip(".") in earlier:
                note = note.replace(sentence, "")
        earlier += table.note
        shortened.append(replace(table, note=" ".join(note.split())))
    return shortened


def means_note(summary: Summary) -> str:
    """How intervals of means are made, and a warning where they rest on few pictures."""
    return f"{_INTERVALS}." + ("" if summary.pictures >= FEW else TOO_FEW)


def is_apart(summary: Summary, estimate: Estimate, value: float = 0.0) -> bool:
    """Whether there are pictures enough and the interval leaves the value out."""
    return summary.pictures >= FEW and estimate.apart_from(value)


def star(summary: Summary, difference: Estimate | None) -> str:
    """A star where a difference is apart from zero (`is_apart`)."""
    return "*" if difference is not None and is_apart(summary, difference) else ""


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


def by_group(labels: Sequence[str]) -> dict[str, list[str]]:
    """The labels under the headings of `GROUPS`, in its order; in a group they keep theirs.

    A label that names no method of the table comes last, under a heading of its own. Up to
    `FEW_METHODS` labels stand together under an empty heading.
    """
    if len(labels) <= FEW_METHODS:
        return {"": list(labels)}
    groups: dict[str, list[str]] = {heading: [] for heading in (*GROUPS.values(), _OTHERS)}
    for label in labels:
        method = PRUNERS.get(split_label(label)[0].partition(":")[0])
        groups[GROUPS[method.group] if method else _OTHERS].append(label)
    return {heading: members for heading, members in groups.items() if members}
