"""Surprising cases among measured answers, by stated rules, and the files that show them.

Chosen cases: they say that such a thing happens, not how often.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from pydantic import TypeAdapter

from spare_demo.comparison.request import UNPRUNED
from spare_demo.evaluation.cells import title_of
from spare_demo.evaluation.records import Row
from spare_demo.evaluation.sheets import Sheet, drawn_sheet
from spare_demo.scenes import sets
from spare_demo.table import counted

RULES = {
    "more-is-worse": "A method is right at one budget and wrong at the next larger one.",
    "split": "At one budget one method is right and another one is wrong.",
    "gain": "A method is right where the same model with all tokens is wrong.",
}
"""What makes a case surprising, by name."""
MOST_SHOWN = 8


@dataclass(frozen=True)
class Case:
    """One question about one scene.

    Attributes:
        rule: of `RULES`.
        set, seed: which scene it is.
        methods: the method that the rule is about; for "split" the one that is right first.
        budget: visual tokens kept. wrong_budget: of "more-is-worse", where it is wrong.
        predictions: the answers that the rule compares, by what gave them.
    """

    rule: str
    set: str
    seed: int
    question: str
    truth: str
    methods: tuple[str, ...]
    budget: int
    wrong_budget: int | None
    predictions: dict[str, str]

    @property
    def line(self) -> str:
        """What happens, in a few words."""
        first, k = title_of(self.methods[0]), self.budget
        if self.rule == "more-is-worse":
            return f"{first}: right at {k}, wrong at {self.wrong_budget}"
        if self.rule == "split":
            return f"At {k}: {first} right, {title_of(self.methods[1])} wrong"
        return f"{first}: right at {k}, wrong with all tokens"


@dataclass(frozen=True)
class Gallery:
    """Cases that were mined, and from what.

    Attributes:
        model: its name and revision. budgets, methods: what was measured.
        set, seeds: the scenes, from the first seed to the last.
        scenes, questions: how many of each were tried.
        found: how many cases follow each rule.
        cases: at most `MOST_SHOWN` of them, as `choose_shown` takes them.
    """

    model: str
    set: str
    seeds: tuple[int, int]
    methods: tuple[str, ...]
    budgets: tuple[int, ...]
    scenes: int
    questions: int
    found: dict[str, int]
    cases: tuple[Case, ...]

    @property
    def sentence(self) -> str:
        """From what the cases were chosen."""
        first, last = self.seeds
        tried = (
            f"{counted(self.questions, 'question')} about {counted(self.scenes, 'scene')} (seeds "
            f"{first} to {last})"
        )
        if not self.cases:
            return f"No surprising case among {tried}."
        cases = counted(sum(self.found.values()), "surprising case")
        shown = "The one shown is" if len(self.cases) == 1 else f"The {len(self.cases)} shown are"
        return f"{cases} among {tried}. {shown} chosen, not typical."


def scene_sheets(which: str, seeds: Iterable[int]) -> Iterator[Sheet]:
    """The scenes of a set with these seeds that allow questions, and up to four questions each."""
    for seed in seeds:
        sheet = drawn_sheet(which, sets.sample_of(which, seed))
        if sheet.questions:
            yield dataclasses.replace(sheet, scene=None)  # where relevance falls is of no interest


def find_cases(rows: Sequence[Row]) -> list[Case]:
    """Every case that follows a rule, question by question in the order of the rows.

    rows: of drawn scenes, at budgets that are numbers of tokens, the unpruned answer among them.
    """
    cases: list[Case] = []
    questions = itertools.groupby(rows, key=lambda row: (row.set, row.picture, row.number))
    for _, of_question in questions:
        answers = list(of_question)
        whole = next(row for row in answers if row.method == UNPRUNED)
        pruned = [row for row in answers if row.method != UNPRUNED]
        cases += [
            _case(rule, right, wrong)
            for rule, right, wrong in _pairs(pruned, whole)
            if right.right and not wrong.right
        ]
    return cases


def _pairs(rows: list[Row], whole: Row) -> Iterator[tuple[str, Row, Row]]:
    """Each rule with two answers that follow it where the first is right and the second wrong."""
    for _, of_method in itertools.groupby(rows, key=lambda row: row.method):
        for fewer, more in itertools.pairwise(of_method):
            yield "more-is-worse", fewer, more
    for one, other in itertools.permutations(rows, 2):
        if one.budget == other.budget:
            yield "split", one, other
    for row in rows:
        yield "gain", row, whole


def _case(rule: str, right: Row, wrong: Row) -> Case:
    by_budget = rule == "more-is-worse"
    return Case(
        rule=rule,
        set=right.set,
        seed=int(right.picture),
        question=right.question,
        truth=right.truth,
        methods=(right.method, wrong.method) if rule == "split" else (right.method,),
        budget=int(right.budget),
        wrong_budget=int(wrong.budget) if by_budget else None,
        predictions={
            f"{row.method} at {row.budget}" if by_budget else row.method: row.prediction
            for row in (right, wrong)
        },
    )


def choose_shown(cases: Sequence[Case]) -> tuple[Case, ...]:
    """The first of each rule in turn, one per scene, up to `MOST_SHOWN`."""
    left = {rule: [case for case in cases if case.rule == rule] for rule in RULES}
    shown: list[Case] = []
    while len(shown) < MOST_SHOWN and any(left.values()):
        for rule in RULES:
            seeds = {case.seed for case in shown}
            left[rule] = [case for case in left[rule] if case.seed not in seeds]
            shown += left[rule][:1]
    return tuple(shown[:MOST_SHOWN])


def make_gallery(
    model: str,
    which: str,
    seeds: tuple[int, int],
    methods: Sequence[str],
    budgets: Sequence[int],
    rows: Sequence[Row],
) -> Gallery:
    """The gallery of a run over the scenes of a set, from the first seed to the last."""
    cases = find_cases(rows)
    counts = Counter(case.rule for case in cases)
    return Gallery(
        model=model,
        set=which,
        seeds=seeds,
        methods=tuple(methods),
        budgets=tuple(budgets),
        scenes=len({row.picture for row in rows}),
        questions=len({(row.picture, row.number) for row in rows}),
        found={rule: counts[rule] for rule in RULES},
        cases=choose_shown(cases),
    )


def write_gallery(folder: Path, gallery: Gallery) -> None:
    """Write gallery.json, index.html and the pictures; OSError if the folder cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    data = {"rules": RULES, **dataclasses.asdict(gallery)}
    (folder / "gallery.json").write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    for case in gallery.cases:
        sets.save(case.set, case.seed, folder / f"scene-{case.seed}.png")
    (folder / "index.html").write_text(_page(gallery), encoding="utf-8")


def read_gallery(file: Path) -> Gallery:
    """The gallery of a gallery.json; ValueError, with a sentence to show, where it is none."""
    try:
        return TypeAdapter(Gallery).validate_json(file.read_bytes())
    except (OSError, ValueError):  # pydantic's error is a ValueError
        raise ValueError(
            f"{file} is missing or damaged. Get it again, or make it with evaluate --gallery."
        ) from None


def _page(gallery: Gallery) -> str:
    rules = "".join(
        f"<li>{escape(rule)} Found: {gallery.found[name]}.</li>" for name, rule in RULES.items()
    )
    figures = "".join(
        f'<figure><img src="scene-{case.seed}.png" width="336" alt="Scene {case.seed}">'
        f"<figcaption><b>{escape(case.line)}</b><br>{escape(case.question)} True answer: "
        f"{escape(case.truth)}. {escape(_predictions(case))}</figcaption></figure>"
        for case in gallery.cases
    )
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Surprising cases</title>"
        "<meta name='viewport' content='width=device-width'>"
        "<style>body{font-family:system-ui,sans-serif;max-width:1100px;margin:24px auto;"
        "padding:0 16px}figure{display:inline-block;box-sizing:border-box;width:360px;"
        "max-width:100%;margin:0;padding:12px;vertical-align:top}img{max-width:100%}</style>"
        f"<h1>Surprising cases</h1><p>{escape(gallery.sentence)} Model: {escape(gallery.model)}; "
        f"set {escape(gallery.set)}; "
        f"{escape(', '.join(map(title_of, gallery.methods)))} at "
        f"{', '.join(map(str, gallery.budgets))} tokens.</p><ul>{rules}</ul>{figures}</html>\n"
    )


def _predictions(case: Case) -> str:
    def answered(label: str, text: str) -> str:
        method, at, budget = label.partition(" at ")
        return f"{title_of(method)}{at}{budget}: {text or '(nothing)'}"

    return "; ".join(answered(*each) for each in case.predictions.items()) + "."
