"""The result of a request; these dataclasses are the schema of result.json.

Numbers, words and arrays on the CPU, so that a result outlives its model. `results/io.py` writes
and reads it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from PIL import Image

import spare_demo
from spare_demo import measures
from spare_demo.comparison.request import UNPRUNED, Request, RequestOptions
from spare_demo.comparison.selections import Curve, Curves, Exploration
from spare_demo.images.geometry import Grid, MultiGrid
from spare_demo.models import Answer, View
from spare_demo.pruners import PRUNERS, LayerPlan
from spare_demo.pruners.inside.base import Stop
from spare_demo.pruners.options import title_of
from spare_demo.tokens import Selection
from spare_demo.tokens.arrays import NOT_STORED, FloatArray


@dataclass(frozen=True)
class KlCurves:
    """KL of the first token to the unpruned model against k, as far as it has been measured.

    Attributes:
        budgets: ascending; m of them so far. At n itself the KL is 0 without a pass.
        series: (m,) nats per method's label; None below the least budget of a schedule, that of a
            method inside the language model, whose budgets are averages over its layers.
        points: (tokens kept, nats) per label of a set or plan made by hand; of a plan, its budget.
        random: (m,) mean, lowest and highest over `KL_SEEDS`.
        done: share of the passes that are through, 0 to 1.
    """

    budgets: tuple[int, ...]
    series: dict[str, tuple[float | None, ...]]
    points: dict[str, tuple[int, float]]
    random: tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]
    done: float


@dataclass(frozen=True)
class MethodRecord:
    """What ran under a label, in words.

    Attributes:
        name: in the table of methods; None for a set made by hand.
        title: on pictures.
        settings: its fields' values.
        inside: whether it chooses inside the language model, layer by layer.
        least_budget: the least that its schedule can meet on this picture; 1 for all others.
        counting_note: how its paper counts a budget, where that is not the mean over layers.
    """

    name: str | None
    title: str
    settings: dict[str, Any] = field(default_factory=dict)
    inside: bool = False
    least_budget: int = 1
    counting_note: str = ""

    def method(self) -> Any:
        """The method as it was set; None for a set made by hand.

        Raises ValueError, with a sentence to show, where this version has no such method.
        """
        if self.name is None:
            return None
        try:
            return dataclasses.replace(PRUNERS[self.name], **self.settings)  # type: ignore[type-var]
        except (KeyError, TypeError, ValueError):
            raise ValueError(
                f"The method {self.name[:40]!r} with these settings is not in this version. Use "
                "the version that made the result."
            ) from None

    @property
    def budget_is_average(self) -> bool:
        """As `Method.budget_is_average`; True for a set made by hand."""
        method = self.method()
        return method is None or bool(method.budget_is_average)


@dataclass(frozen=True)
class Schedule:
    """Which visual tokens enter the language model, and where they leave inside it.

    Attributes:
        budget: as asked for; depth: layers of the language model.
        stops: where tokens leave.
        per_layer: visual rows of each layer; average: their mean; last: in the last layer.
        counted: the number of visual tokens it stands for in its paper's tables.
        entering: what the language model gets of the picture's tokens; None for all of them.
    """

    budget: int
    depth: int
    stops: tuple[Stop, ...]
    per_layer: tuple[int, ...]
    average: float
    last: int
    counted: float
    entering: Selection | None = None

    @classmethod
    def of(cls, plan: LayerPlan) -> Schedule:
        """A plan without its method."""
        return cls(
            plan.budget,
            plan.depth,
            plan.stops,
            plan.per_layer,
            plan.average,
            plan.last,
            plan.counted,
            plan.entering,
        )


@dataclass(frozen=True, eq=False)
class Result:
    """One comparison, finished or under way. It is never changed, only replaced.

    Everything by label is in the order compared.

    Attributes:
        model, revision: name and revision of the model that ran.
        photo: the upright RGB picture. It is written as a picture, not as a field.
        grid: where the n visual tokens lie on it.
        question, prompt: as asked, and as the language model got it.
        settings: of the request; the budget in tokens, and the aspect and the positions that were
            used.
        visual_tokens: n.
        encode_seconds, relevance_seconds: wall time of the vision pass and of the text pass.
        relevance: (n,) raw mean cosine of each token with the question; None without one.
        notes: sentences for the visitor, such as that the text part is off.
        methods: what ran, text-free forms included.
        selections: what methods before the language model keep at the budget.
        weights: (n,) the text weight that each of these used, None where it used none.
        select_seconds: wall time of choosing them, and what enters under a plan where not all
            does; methods that ran as one carry one time.
        plans: the schedules of methods inside it; what they kept is in their answer's `layer_sets`.
        refused: why a method inside the language model has no answer: its schedule cannot meet the
            budget.
        answers: the finished ones, "unpruned" first.
        leftover: (n,) share of each patch that the kept ones cannot reconstruct; None for merged
            rows. Made with the last answer, as is `reconstruction`.
        kl: how far the first word moved at every budget, where that was measured.
        errors: relative reconstruction error of each of `selections`. Made with the last answer.
        first_kl: KL of the first token to the unpruned model, in nats, of each answer. Likewise.
        partial_text: the text so far of each answer that is under way.
        language_model: whether the model had one; without it there are no answers.
        system: the system sentence of the prompt, by name.
        view: the picture with the question as the model encoded it; None of a result from a file.
    """

    model: str
    revision: str
    photo: Annotated[Image.Image, NOT_STORED]
    grid: Grid | MultiGrid
    question: str
    prompt: str
    settings: RequestOptions
    visual_tokens: int
    encode_seconds: float
    relevance_seconds: float
    relevance: FloatArray | None
    notes: tuple[str, ...]
    methods: dict[str, MethodRecord]
    selections: dict[str, Selection]
    weights: dict[str, FloatArray | None]
    select_seconds: dict[str, float]
    plans: dict[str, Schedule]
    refused: dict[str, str] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    leftover: dict[str, FloatArray | None] = field(default_factory=dict)
    reconstruction: Curves | None = None
    kl: KlCurves | None = None
    errors: dict[str, float] = field(default_factory=dict)
    first_kl: dict[str, float] = field(default_factory=dict)
    partial_text: dict[str, str] = field(default_factory=dict)
    language_model: bool = True
    system: str = "none"
    view: Annotated[View | None, NOT_STORED] = None

    @property
    def finished(self) -> bool:
        """Whether every answer is there that can be."""
        return not self.language_model or set(self.answers) == {UNPRUNED, *self.methods}

    @property
    def budget(self) -> int:
        """The budget asked for, as a number of this picture's visual tokens."""
        return int(self.settings.budget)

    @property
    def titles(self) -> dict[str, str]:
        """What to call each label on a picture: what ran by its title, or a label of one's own."""
        return {
            label: record.title if label.partition(":")[0] == record.name else label
            for label, record in self.methods.items()
        }

    @property
    def inside(self) -> tuple[str, ...]:
        """The labels that choose inside the language model."""
        return tuple(label for label, record in self.methods.items() if record.inside)

    def html(self, path: str | PathLike[str]) -> None:
        """Write the comparison as one HTML file that opens without a server or a network.

        Raises ValueError, with a sentence to show, for a result that was read from a file, without
        two methods or not finished; OSError if the file cannot be written.
        """
        page = spare_demo.saved_page(self)
        Path(path).write_text(page, encoding="utf-8")

    def _repr_html_(self) -> str:
        """The same page in a notebook; a sentence where there is none."""
        try:
            page = spare_demo.saved_page(self)
        except ValueError as error:
            return f"<p>{escape(str(error))}</p>"
        # Without its origin it reaches nothing of the notebook.
        return (
            f'<iframe srcdoc="{escape(page)}" sandbox="allow-scripts" title="SPARE demo" '
            'style="width: 100%; height: 860px; border: 0"></iframe>'
        )

    @property
    def request(self) -> Request:
        """What was asked, to be asked again; raises as `MethodRecord.method`."""
        methods = {
            label: record.method() or self.selections[label]
            for label, record in self.methods.items()
        }
        return Request(self.photo, self.question, methods, **vars(self.settings))

    def relabel(self, labels: Mapping[str, str]) -> Result:
        """The same with a new label for each label."""

        def rename(values: Mapping[str, Any]) -> dict[str, Any]:
            return {labels.get(label, label): value for label, value in values.items()}

        curves, kl = self.reconstruction, self.kl
        if curves is not None:
            errors, points = rename(curves.errors), rename(curves.points)
            curves = dataclasses.replace(curves, errors=errors, points=points)
        if kl is not None:
            kl = dataclasses.replace(kl, series=rename(kl.series), points=rename(kl.points))
        names = (
            "methods selections weights select_seconds plans refused answers leftover errors "
            "first_kl partial_text"
        )
        by_label: dict[str, Any] = {name: rename(getattr(self, name)) for name in names.split()}
        return dataclasses.replace(self, reconstruction=curves, kl=kl, **by_label)


def start_result(
    exploration: Exploration, settings: RequestOptions, model: str, revision: str
) -> Result:
    """The result of a request before any answer: what each method keeps at the budget.

    settings: the budget a number of the picture's tokens. model, revision: of the model that ran.
    """
    view, budget = exploration.view, int(settings.budget)
    selections = exploration.selections(budget)
    plans, refused = exploration.plans(budget)
    chosen = (*selections, *plans)
    seconds = {label: exploration.seconds_to_select(label, budget) for label in chosen}
    return Result(
        model=model,
        revision=revision,
        photo=view.photo,
        grid=view.grid,
        question=view.question,
        prompt=view.prompt,
        settings=settings,
        visual_tokens=exploration.n,
        encode_seconds=view.picture.encode_seconds,
        relevance_seconds=view.relevance_seconds,
        relevance=view.relevance,
        notes=exploration.notes,
        methods={label: _record(exploration, label) for label in exploration.methods},
        selections=selections,
        weights={label: exploration.weights[label] for label in selections},
        select_seconds={label: value for label, value in seconds.items() if value is not None},
        plans={label: Schedule.of(plan) for label, plan in plans.items()},
        refused=refused,
        language_model=view.layers > 0,
        system=view.system,
        view=view,
    )


def add_measures(result: Result, exploration: Exploration) -> Result:
    """The result with its reconstruction errors, leftover shares and KL."""
    x = exploration.view.picture.compact_features
    leftover = {
        label: None if kept.merged else measures.leftover_share(x, kept.order).cpu()
        for label, kept in result.selections.items()
    }
    errors = exploration.errors(result.budget)
    result = dataclasses.replace(
        result, leftover=leftover, reconstruction=exploration.curves, errors=errors
    )
    return add_first_kl(result)


def add_first_kl(result: Result) -> Result:
    """The result with the KL of the answers that are there, once the unpruned one is."""
    whole = result.answers.get(UNPRUNED)
    if whole is None:
        return result
    kl = {
        label: float(measures.kl_divergence(whole.first_logits, answer.first_logits))
        for label, answer in result.answers.items()
        if label != UNPRUNED
    }
    return dataclasses.replace(result, first_kl=kl)


def add_gaps(
    curves: Mapping[str, Curve], methods: Mapping[str, MethodRecord], points: int
) -> dict[str, Curve]:
    """Curves by label, with an empty one for each method inside the language model without one.

    So that what is drawn of a label has the colour of its place among the methods.
    """
    empty = (None,) * points
    return {
        label: curves.get(label, empty)
        for label, record in methods.items()
        if label in curves or record.inside
    }


def inside_note(methods: Mapping[str, MethodRecord], error: bool) -> str:
    """What a curve against k means for methods inside the language model: a sentence each, or "".

    methods: by what to call each. error: whether the curve is the reconstruction error.
    """
    sentences = []
    for title, record in methods.items():
        if not record.inside:
            continue
        if error:
            sentences.append(
                f"{title} has no error of one set: it keeps other tokens in each layer."
            )
            continue
        least, note = record.least_budget, record.counting_note
        below = f"; below {least} it has no schedule" if least > 1 else ""
        if not record.budget_is_average:
            counts = f"is counted as its paper counts: {note}"
        elif note:
            counts = f"is the average over layers (its paper counts {note})"
        else:
            counts = "is the average over layers"
        sentences.append(f"k of {title} {counts}{below}.")
    return " ".join(sentences)


def _record(exploration: Exploration, label: str) -> MethodRecord:
    method: Any = exploration.methods[label]
    if method.by_hand and not method.inside:
        return MethodRecord(None, label)
    if method.by_hand:
        method = method.ready.method
    return MethodRecord(
        method.name,
        title_of(method, PRUNERS, exploration.view.tokens.by_words),
        dataclasses.asdict(method),
        method.inside,
        method.lowest(exploration.n, exploration.view.layers),
        method.counting_note,
    )
