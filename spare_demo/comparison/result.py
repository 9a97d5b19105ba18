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
from spare_demo.comparison.method_record import MethodRecord
from spare_demo.comparison.request import UNPRUNED, Request, RequestOptions
from spare_demo.comparison.selections import Curves
from spare_demo.images.geometry import Grid, MultiGrid
from spare_demo.models import Answer, View
from spare_demo.pruners import LayerPlan
from spare_demo.pruners.options import seeds_of
from spare_demo.pruners.plan import Stop
from spare_demo.tokens import Selection
from spare_demo.tokens.arrays import NOT_STORED, FloatArray


@dataclass(frozen=True)
class KlCurves:
    """KL of the first token to the unpruned model against k, as far as it has been measured.

    Attributes:
        budgets: ascending; m of them so far. At n itself the KL is 0 without a pass, but for rows
            that were merged.
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
        return cls(**{f.name: getattr(plan, f.name) for f in dataclasses.fields(cls)})


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
        view: the picture with the question as the model encoded it; None of a result from a file
            or from another process.
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

    def __repr__(self) -> str:
        """The question and its answers: all fields would fill many pages."""
        answers = {label: answer.text for label, answer in self.answers.items()}
        kept = f"{self.budget} of {self.visual_tokens} tokens"
        return f"<Result of {self.model}, {kept}: {self.question!r} {answers}>"

    def __getstate__(self) -> dict[str, Any]:
        """What another process gets: all but the view, whose functions stay with the model."""
        return {**vars(self), "view": None}

    def __deepcopy__(self, memo: object = None) -> Result:
        """Itself, since it is never changed."""
        return self

    __copy__ = __deepcopy__

    @property
    def finished(self) -> bool:
        """Whether every answer that can be given is there."""
        return not self.language_model or set(self.answers) == {UNPRUNED, *self.methods}

    @property
    def budget(self) -> int:
        """The budget asked for, as a number of this picture's visual tokens."""
        return int(self.settings.budget)

    @property
    def titles(self) -> dict[str, str]:
        """What to call each label on a picture: what ran by its title, or a label of one's own."""
        titles = {
            label: ", ".join([record.title, *seeds_of(label)])
            if label.partition(":")[0] == record.name
            else label
            for label, record in self.methods.items()
        }
        every = list(titles.values())  # two of one title would be one line of a chart
        return {
            label: title if every.count(title) == 1 else label for label, title in titles.items()
        }

    @property
    def inside(self) -> tuple[str, ...]:
        """The labels that choose inside the language model."""
        return tuple(label for label, record in self.methods.items() if record.inside)

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the pictures and result.json into a folder, as `spare-demo compare --out` does.

        Raises ValueError for a result that is not finished, OSError if it cannot be written.
        """
        if self.reconstruction is None:
            raise ValueError("Not every answer is there yet. Save the last result of run.")
        spare_demo.write_files(self, Path(folder))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Result:
        """The result of a result.json, or of the folder that `save` wrote it into.

        `spare_demo.read_result` also says what differs here. Raises ValueError, with a sentence to
        show, for another file, OSError if there is none.
        """
        file = Path(path)
        if file.is_dir():
            file /= "result.json"
        text = file.read_text(encoding="utf-8-sig", errors="replace")
        return spare_demo.read_result(text).result

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
        methods = {label: self._method_of(label) for label in self.methods}
        return Request(self.photo, self.question, methods, **vars(self.settings))

    def _method_of(self, label: str) -> Any:
        """The method, set or plan that ran under a label."""
        record = self.methods[label]
        method = record.method()
        if not record.planned_by_hand:
            return method or self.selections[label]
        plan = self.plans[label]
        size = (self.visual_tokens, plan.depth, plan.budget)
        return LayerPlan(method, *size, plan.stops, plan.entering)

    def relabel(self, labels: Mapping[str, str]) -> Result:
        """A copy under other labels. labels: old -> new; those without one stay."""

        def rename(values: Mapping[str, Any]) -> dict[str, Any]:
            return {labels.get(label, label): value for label, value in values.items()}

        curves, kl = self.reconstruction, self.kl
        if curves is not None:
            errors, points = rename(curves.errors), rename(curves.points)
            curves = dataclasses.replace(curves, errors=errors, points=points)
        if kl is not None:
            kl = dataclasses.replace(kl, series=rename(kl.series), points=rename(kl.points))
        by_label: dict[str, Any] = {
            name: rename(values) for name, values in vars(self).items() if isinstance(values, dict)
        }
        return dataclasses.replace(self, reconstruction=curves, kl=kl, **by_label)
