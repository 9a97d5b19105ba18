"""The Lab's steps: a measuring run that can be watched, stopped and looked into."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gradio as gr

from spare_demo.comparison.request import UNPRUNED, choose, read_seed
from spare_demo.evaluation import figures, tables
from spare_demo.evaluation.budgets import Budget, budget_words, middle_budget
from spare_demo.evaluation.cells import Table, say_once, title_of
from spare_demo.evaluation.experiment import Experiment
from spare_demo.evaluation.picks import picture_seed
from spare_demo.evaluation.records import Row, csv_text
from spare_demo.evaluation.run import measure
from spare_demo.evaluation.sheets import draw_sheets
from spare_demo.evaluation.summary import Summary, summarise
from spare_demo.models import Model
from spare_demo.models.generate.passes import ModelUnloadedError, OutOfMemory
from spare_demo.pruners import PRUNERS
from spare_demo.render.chart import plotly_figure
from spare_demo.settings import Settings
from spare_demo.table import counted
from spare_demo.ui import panels
from spare_demo.ui.examples import Example, draw_picture, example_of, keep_latest
from spare_demo.ui.steps import PageChanges

BUDGETS = (16, 32, 64, 128, 192)
METHODS = ("spare", "cdpruner", "random", "uniform")
MOST_SCENES = 200
MOST_SCENES_IN_PUBLIC = 20  # others wait for the same model
TO_COME = panels.words_html("Press Run to draw the curve here. It grows scene by scene.")
_RESAMPLES = 400  # for intervals that are drawn again after every scene
_CASES = 12
_STOP_SECONDS = 1.0  # between steps: a run that is stopped works on until its next one


@dataclass(frozen=True, eq=False)
class Bench:
    """What a visitor's run has found so far. Never changed, only replaced.

    Attributes:
        experiment: methods and budgets.
        scenes: how many were asked for.
        rows: of the scenes that are done.
        done: how many those are.
        seconds: since the start.
        seed: of the methods that draw at random.
    """

    experiment: Experiment
    scenes: int
    rows: tuple[Row, ...] = ()
    done: int = 0
    seconds: float = 0.0
    seed: int = 0

    def __deepcopy__(self, memo: dict) -> Bench:
        return self

    @cached_property
    def summary(self) -> Summary:
        """The figures of all rows; there must be some."""
        return next(iter(summarise(self.rows, resamples=_RESAMPLES).values()))


class Lab:
    """Holds the model and the settings, and nothing of any visitor."""

    def __init__(self, model: Model, settings: Settings) -> None:
        self.model, self.settings = model, settings
        # Goes with this, or at exit.
        self._folder = TemporaryDirectory(prefix="spare-lab-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)

    @property
    def methods(self) -> dict[str, str]:
        """Name and title of every method that this model can run."""
        against = self.model.reason_against
        return {name: m.title for name, m in PRUNERS.items() if against(m) is None}

    @property
    def budgets(self) -> tuple[int, ...]:
        """The budgets offered: those of the papers that a picture has tokens for."""
        most = self.model.most_tokens
        return tuple(k for k in BUDGETS if k < most) or (most,)

    @property
    def most_scenes(self) -> int:
        """Of one run."""
        return MOST_SCENES if self.settings.private else MOST_SCENES_IN_PUBLIC

    def measure(
        self,
        methods: Sequence[str],
        budgets: Sequence[int],
        scenes: object,
        which: str,
        seed: object,
        a: object = None,
        b: object = None,
        at: object = None,
    ) -> Iterator[PageChanges]:
        """Scene by scene; after each, all that is known. a, b, at: as of `choices`."""
        chosen = [name for name in self.methods if name in methods]
        if not chosen or not budgets:
            raise ValueError("Choose at least one method and one budget, then press Run.")
        start = read_seed(seed)
        experiment = Experiment(
            choose(chosen, start),
            tuple(sorted({int(k) for k in budgets})),
            blank=False,
            aspect=self.model.aspect(None),
            positions=self.model.position_option(None),
        ).within(self.model)
        experiment.check_budgets(self.model)
        for label, least in experiment.least.items():
            if not experiment.budgets_of(label):
                raise ValueError(
                    f"{title_of(label)} cannot meet any of these budgets. Choose one of at least "
                    f"{least}, or leave the method out."
                )
        bench = Bench(experiment, _read_scenes(scenes, self.most_scenes), seed=start)
        yield {
            "bench": bench,
            "message": "",
            "progress": _progress(bench),
            "curve": None,
            "curve_words": TO_COME,
            "download": gr.update(value=None, interactive=False),
            **self.choices(bench, a, b, at),
        }
        start_time = time.monotonic()
        for sheet in itertools.islice(draw_sheets(which, 10**6), bench.scenes):
            stoppable = time.monotonic()
            try:
                for part in measure(self.model, sheet, experiment):
                    if part is not None:
                        results = part
                    elif time.monotonic() - stoppable > _STOP_SECONDS:
                        yield {}
                        stoppable = time.monotonic()
            except (OutOfMemory, ModelUnloadedError) as error:  # what was found stays
                yield self.finished(bench) | {"message": panels.message_html(str(error))}
                return
            rows, seconds = (*bench.rows, *results.rows), time.monotonic() - start_time
            bench = replace(bench, rows=rows, done=bench.done + 1, seconds=seconds)
            figure = figures.accuracy(bench.summary)
            yield {
                "bench": bench,
                "progress": _progress(bench),
                "curve": plotly_figure(figure.chart),
                "curve_words": panels.words_html(figure.sentence),
                "skills": self.skills(bench, at),
            }
        yield self.finished(bench)

    def finished(self, bench: Bench | None) -> PageChanges:
        """The end of a run, by itself or by Stop: the rows as a file."""
        if bench is None or not bench.rows:
            return {"progress": _progress(bench, ended=True) if bench else ""}
        # Whoever tidies the machine may have removed it.
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / f"lab-{secrets.token_hex(4)}.csv"  # several processes write here
        file.write_bytes(csv_text(bench.rows).encode())
        keep_latest(self.folder)
        return {
            "bench": bench,
            "progress": _progress(bench, ended=True),
            "download": gr.update(value=str(file), interactive=True),
        }

    def choices(self, bench: Bench | None, a: object, b: object, at: object) -> PageChanges:
        """What A, B and the budget can be in this run, and what is found with them.

        a, b, at: what the page says; what this run does not have gives way to a default.
        """
        if bench is None:
            return {}
        labels, budgets = [*bench.experiment.methods, UNPRUNED], bench.experiment.budgets
        names = [(title_of(label), label) for label in labels]
        first = a if a in labels else next(label for label in labels if label != b)
        second = b if b in labels else next(label for label in labels if label != first)
        budget = _read_choice(at, budgets)
        return {
            "a": gr.update(choices=names, value=first),
            "b": gr.update(choices=names, value=second),
            "at": gr.update(choices=list(budgets), value=budget),
            **self.look_into(bench, first, second, budget),
        }

    def look_into(self, bench: Bench | None, a: Any, b: Any, budget: object) -> PageChanges:
        """Where A is right and B is wrong, and the skills, of the rows so far."""
        if bench is None or not bench.rows:
            hidden = gr.update(value=[], visible=False)
            return {"cases": hidden, "rows": [], "cases_words": "", "skills": ""}
        pictures, rows, sentence = self.cases(bench, a, b, budget)
        return {
            "cases": gr.update(value=pictures, visible=bool(pictures)),
            "rows": rows,
            "cases_words": panels.words_html(sentence),
            "skills": self.skills(bench, budget),
        }

    def skills(self, bench: Bench, budget: object) -> str:
        """The table of skills at one budget, as HTML."""
        summary = bench.summary
        k = _read_choice(budget, bench.experiment.budgets)
        parts = [tables.by_skill(summary, k), tables.by_number(summary, k)]
        return "".join(map(_table_html, say_once([table for table in parts if table])))

    def cases(
        self, bench: Bench, a: Any, b: Any, budget: object
    ) -> tuple[list[tuple[str, str]], list[Row], str]:
        """Where A is right and B is wrong: pictures with captions, A's rows, a sentence."""
        k = _read_choice(budget, bench.experiment.budgets)
        for label in (a, b):
            if label not in (*bench.experiment.methods, UNPRUNED):
                raise ValueError("Choose A and B among the methods of this run.")
            if k not in bench.experiment.budgets_of(label):
                sentence = (
                    f"{title_of(label)} was not measured at {budget_words(k)}: its schedule needs "
                    f"a budget of at least {bench.experiment.least[label]}. Choose a larger one."
                )
                return [], [], sentence
        rows = _rows_of(bench, a, k)
        pairs = [
            (one, other)
            for one, other in zip(rows, _rows_of(bench, b, k), strict=True)
            if one.right and not other.right
        ]
        names = f"{title_of(a)} is right and {title_of(b)} is wrong"
        sentence = f"{names} on {len(pairs)} of {len(rows)} questions at {budget_words(k)}."
        if pairs:
            more = f" The first {_CASES} are shown." if len(pairs) > _CASES else ""
            sentence += f"{more} Click one to open it under Compare."
        shown = pairs[:_CASES]
        pictures = [(str(self._picture(one)), _caption(one, other)) for one, other in shown]
        return pictures, [one for one, _ in shown], sentence

    def case(self, bench: Bench, row: Row) -> tuple[Example, int]:
        """A case as the comparison takes it, and the seed that draws there what was drawn here."""
        seed = picture_seed(bench.seed, row.set, row.picture)
        return example_of(self._picture(row), {row.question: row.truth}), seed

    def _picture(self, row: Row) -> Path:
        return draw_picture(row.set, int(row.picture), self.folder)


def _rows_of(bench: Bench, label: str, budget: Budget) -> list[Row]:
    """The rows of one method, in the order asked; "unpruned" has one budget only."""
    whole = label == UNPRUNED
    return [row for row in bench.rows if row.method == label and (whole or row.budget == budget)]


def _caption(one: Row, other: Row) -> str:
    words = other.prediction or "(nothing)"
    return f"{one.question} A: {one.prediction} · B: {words}"


def _progress(bench: Bench, ended: bool = False) -> str:
    """A bar with words: how far, how long still, how many answers."""
    done = bench.done
    if ended:
        verb = "Done" if done == bench.scenes else "Stopped"
        words = f"{verb}: {done} of {bench.scenes} scenes"
        words += f" in {duration(bench.seconds)}" if done else ""
    elif done:
        left = bench.seconds / done * (bench.scenes - done)
        words = f"{done} of {bench.scenes} scenes, {duration(left)} left"
    else:
        words = f"Measuring the first of {bench.scenes} scenes"
    questions = len({(row.picture, row.number) for row in bench.rows})
    words += f"; {counted(questions, 'question')}, {counted(len(bench.rows), 'answer')}."
    return (
        f'<p class="lab-progress" role="status"><progress max="{bench.scenes}" value="{done}">'
        f"</progress> {escape(words)}</p>"
    )


def duration(seconds: float) -> str:
    """ "42 s", "3 min 5 s", "2 h 10 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _table_html(table: Table) -> str:
    return (
        f"<h3>{escape(table.title)}</h3>"
        f"{panels.table_html(table.title, table.head, table.rows, 'cost')}"
        f"{panels.words_html(table.note)}"
    )


def _read_scenes(value: object, most: int) -> int:
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if type(number) is not int or not 1 <= number <= most:
        raise ValueError(f"The number of scenes must be a whole number from 1 to {most}.")
    return number


def _read_choice(value: object, offered: Sequence[Budget]) -> Budget:
    """The budget that is meant; where it is none of this run's, its middle one."""
    return next((budget for budget in offered if budget == value), middle_budget(offered))
