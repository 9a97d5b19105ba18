"""The measurement: every question of a picture, by every method, at every budget.

A picture is encoded once. A nested method picks once for the largest budget, and once for all
questions of the picture if it does not read them. All answers of a picture are made together.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from PIL import Image
from torch import Tensor

from spare_demo import measures
from spare_demo.comparison.request import UNPRUNED, QuestionOptions
from spare_demo.evaluation import relevance_places as where
from spare_demo.evaluation.budgets import Budget, as_share, size, value
from spare_demo.evaluation.grading import is_right
from spare_demo.evaluation.results import BLANK, Key, Place, Row
from spare_demo.evaluation.sheets import LETTER_INSTRUCTION, Sheet, SheetQuestion
from spare_demo.evaluation.variants import Variant
from spare_demo.images.load import PictureError
from spare_demo.models import Model, Picture, View
from spare_demo.models.generate.batch import ShortAnswer
from spare_demo.pruners import LayerPlan, Method
from spare_demo.pruners.base import check_budget
from spare_demo.pruners.greedy import Greedy, select_together
from spare_demo.relevance import RelevanceOptions
from spare_demo.tokens import Selection


@dataclass(frozen=True)
class Experiment(QuestionOptions):
    """What is measured of every question.

    Attributes:
        methods: by label; none for the unpruned model alone.
        budgets: visual tokens kept, or shares of a picture's own, ascending. Where pictures have
            different numbers of tokens, one that has fewer keeps all.
        least: the least budget of a method inside the language model, whose schedule meets none
            below; `within` finds it.
        blank: whether every question is put to a blank picture too, nothing pruned.
        instruction: a line after the question, for the language model and for TRIM alone.
        variants: the labels that are measured otherwise than by `relevance` and `positions`.

    The rest is as of `QuestionOptions`.
    """

    methods: Mapping[str, Method]
    budgets: tuple[Budget, ...]
    least: Mapping[str, Budget] = field(default_factory=dict)
    blank: bool = True
    instruction: str = ""
    variants: Mapping[str, Variant] = field(default_factory=dict)
    max_new_tokens: int = field(default=16, kw_only=True)

    def within(self, model: Model) -> Experiment:
        """The same, with the budgets that each schedule can meet on this model."""
        n, layers = model.most_tokens, model.layers
        inside = {k: m for k, m in self.methods.items() if m.inside}
        least = {label: method.lowest(n, layers) for label, method in inside.items()}
        if any(isinstance(budget, str) for budget in self.budgets):
            return dataclasses.replace(
                self, least={label: as_share(k, n) for label, k in least.items()}
            )
        return dataclasses.replace(self, least=least)

    def budgets_of(self, label: str) -> tuple[Budget, ...]:
        """The budgets that a method is measured at."""
        least = value(self.least.get(label, 0))
        return tuple(budget for budget in self.budgets if value(budget) >= least)

    def rows_of(self, sheet: Sheet) -> int:
        """How many results a picture gives."""
        each = 1 + self.blank + sum(len(self.budgets_of(label)) for label in self.methods)
        return each * len(sheet.questions)

    def variant_of(self, label: str) -> Variant:
        """How a label is measured."""
        return self.variants.get(label, Variant(self.relevance, self.positions))

    def relevance_of(self, label: str) -> RelevanceOptions:
        """How a label reads relevance."""
        return self.variant_of(label).relevance

    def record(self) -> dict[str, Any]:
        """Everything that results depend on, for the settings file."""
        labels = [label for label in self.variants if label in self.methods]
        of_labels = {label: dataclasses.asdict(self.variants[label]) for label in labels}
        return {
            "methods": {label: _settings(method) for label, method in self.methods.items()},
            "budgets": list(self.budgets),
            "blank": self.blank,
            "instruction": self.instruction,
            "max_new_tokens": self.max_new_tokens,
            "aspect": self.aspect,
            "relevance": dataclasses.asdict(self.relevance),
            "together": self.together,
            "positions": self.positions,
            **({"variants": of_labels} if of_labels else {}),
        }


class PictureResults(NamedTuple):
    """The results of one picture."""

    sheet: Sheet
    rows: list[Row]
    places: list[Place]


def expected_rows(sheets: Sequence[Sheet], experiment: Experiment) -> dict[Key, int]:
    """How many rows each picture gives."""
    return {(sheet.set, sheet.picture): experiment.rows_of(sheet) for sheet in sheets}


def run(
    model: Model,
    sheets: Sequence[Sheet],
    experiment: Experiment,
    done: set[Key] = frozenset(),  # type: ignore[assignment]
    skip: Callable[[str], None] | None = None,
) -> Iterator[PictureResults]:
    """Measure picture by picture, leaving out those already done.

    skip: called with a sentence for a picture that cannot be opened; None: it ends the run.

    Raises:
        PictureError: naming the picture. ValueError: a budget above the number of visual tokens
            that any picture can have, or a method that needs a question's text where the model has
            no text tower.
    """
    most = experiment.budgets[-1] if experiment.budgets and experiment.methods else 1
    if isinstance(most, int):
        check_budget(most, model.most_tokens)
    for sheet in sheets:
        if (sheet.set, sheet.picture) in done:
            continue
        try:
            photo = sheet.open()
        except PictureError as error:
            sentence = f"The picture {sheet.where or sheet.picture} cannot be used. {error}"
            if skip is None:
                raise PictureError(sentence) from None
            skip(sentence)
            continue
        yield _measure(model, sheet, photo, experiment)


class _Trial(NamedTuple):
    """One answer to be made, with what is known of it before."""

    number: int
    method: str
    budget: Budget
    view: View
    selection: Selection | LayerPlan | None
    error: float


def _measure(
    model: Model, sheet: Sheet, photo: Image.Image, experiment: Experiment
) -> PictureResults:
    picture = model.look(photo, experiment.aspect)
    blank = model.look(_blank(model, photo.size), experiment.aspect) if experiment.blank else None
    methods = draw_anew(experiment.methods, sheet.set, sheet.picture)
    picks = _Picks(picture.features, methods, experiment)
    trials: list[_Trial] = []
    places: list[Place] = []
    for number, asked in enumerate(sheet.questions):
        options = dict.fromkeys([experiment.relevance, *map(experiment.relevance_of, methods)])
        views = {each: _ask(model, picture, asked, experiment, each) for each in options}
        view = views[experiment.relevance][0]
        trials.append(_Trial(number, UNPRUNED, view.tokens.n, view, None, 0.0))
        for label in experiment.methods:
            own = views[experiment.relevance_of(label)][1]
            for budget, selection, error in picks.of(label, own):
                trials.append(_Trial(number, label, budget, view, selection, error))
        if blank is not None:
            nothing = _ask(model, blank, asked, experiment, experiment.relevance)[0]
            n = nothing.tokens.n
            trials.append(_Trial(number, BLANK, n, nothing, None, float("nan")))
        if sheet.scene is not None:
            where_of = where.places(model, picture, sheet.scene, asked, experiment.relevance.text)
            places += [Place(sheet.set, sheet.picture, number, *values) for values in where_of]
    replies = _answers(model, trials, experiment)
    unpruned = {t.number: s for t, s in zip(trials, replies, strict=True) if t.method == UNPRUNED}
    full = torch.stack([unpruned[t.number].first_logits for t in trials])
    kl = measures.kl_divergence(full, torch.stack([s.first_logits for s in replies])).tolist()
    rows = []
    for trial, answer, divergence in zip(trials, replies, kl, strict=True):
        asked = sheet.questions[trial.number]
        rows.append(
            Row(
                set=sheet.set,
                picture=sheet.picture,
                number=trial.number,
                question=asked.question,
                truth=" | ".join(asked.answers),
                prediction=answer.text,
                right=is_right(answer.text, asked),
                category=asked.category,
                method=trial.method,
                budget=trial.budget,
                kl=divergence,
                error=trial.error,
            )
        )
    return PictureResults(sheet, rows, places)


def _answers(model: Model, trials: Sequence[_Trial], experiment: Experiment) -> list[ShortAnswer]:
    """One for each trial, in their order; those with the same positions are made together."""
    positions = [experiment.variant_of(trial.method).positions for trial in trials]
    answers: dict[int, ShortAnswer] = {}
    for each in dict.fromkeys(positions):
        places = [i for i, own in enumerate(positions) if own == each]
        requests = [(trials[i].view, trials[i].selection) for i in places]
        together = model.answer_many(requests, experiment.max_new_tokens, each)
        answers.update(zip(places, together, strict=True))
    return [answers[i] for i in range(len(trials))]


_Pick = tuple[Budget, Selection | LayerPlan, float]


class _Picks:
    """What the methods keep of one picture, with the error it leaves; text-free ones once."""

    def __init__(
        self, features: Tensor, methods: Mapping[str, Method], experiment: Experiment
    ) -> None:
        self.experiment, self.methods = experiment, methods
        self.features, self.x = features, measures.compact(features)
        self.known: dict[str, list[_Pick]] = {}
        self.greedy: dict[RelevanceOptions, tuple[View, dict[str, Selection]]] = {}

    def of(self, label: str, view: View) -> list[_Pick]:
        """Of each budget: the budget, the selection and its relative reconstruction error.

        Methods inside the language model have a plan instead, and no error of one set.
        """
        method, budgets, tokens = (
            self.methods[label],
            self.experiment.budgets_of(label),
            view.tokens,
        )
        if label in self.known:
            return self.known[label]
        if method.inside:
            return [(budget, keep(method, view, budget), float("nan")) for budget in budgets]
        sizes = [size(budget, tokens.n) for budget in budgets]
        picks: list[_Pick]
        if method.nested:
            most = self._most(label, view)
            chosen = [most.prefix(k) for k in sizes]
            errors = measures.reconstruction_curve(self.x, most.order, sizes, relative=True)
            picks = list(zip(budgets, chosen, errors.tolist(), strict=True))
        else:
            chosen = [method.select(tokens, k) for k in sizes]
            picks = [(b, s, self._error(s)) for b, s in zip(budgets, chosen, strict=True)]
        if not method.needs_text:
            self.known[label] = picks
        return picks

    def _most(self, label: str, view: View) -> Selection:
        """A nested method's picks for the largest budget; greedy methods pick all together."""
        most = max(size(budget, view.tokens.n) for budget in self.experiment.budgets)
        if not isinstance(self.methods[label], Greedy):
            return self.methods[label].select(view.tokens, most)
        relevance = self.experiment.relevance_of(label)
        picked_for, picks = self.greedy.get(relevance, (None, {}))
        if picked_for is not view:
            greedy = {
                other: method
                for other, method in self.methods.items()
                if isinstance(method, Greedy)
                and other not in self.known
                and self.experiment.relevance_of(other) == relevance
            }
            picks = select_together(greedy, view.tokens, most)
            self.greedy[relevance] = view, picks
        return picks[label]

    def _error(self, selection: Selection) -> float:
        if selection.features is not None:
            return measures.merged_error(self.features, selection.features, relative=True)
        return measures.reconstruction_error(self.x, selection.order, relative=True)


def keep(method: Method, view: View, budget: Budget) -> Selection | LayerPlan:
    """What a method keeps of a picture at one budget, or where tokens leave inside the model."""
    n = view.tokens.n
    if not method.inside:
        return method.select(view.tokens, size(budget, n))
    # Of a small picture a share may fall short of what a schedule meets there: then that.
    least = method.lowest(n, view.layers) if isinstance(budget, str) else 1
    return method.plan(view, max(size(budget, n), least))


def picture_seed(seed: int, which: str, picture: str) -> int:
    """The seed, from 0 to 2^32 - 1, of methods that draw at random on one picture of a set."""
    return zlib.crc32(f"{seed} {which} {picture}".encode())


def draw_anew(methods: Mapping[str, Method], which: str, picture: str) -> dict[str, Method]:
    """Methods that draw at random draw other tokens on every picture of a set, the same in every
    run."""
    seeded: dict[str, Any] = dict(methods)
    for label, method in seeded.items():
        if method.seeded:
            seed = picture_seed(method.seed, which, picture)
            seeded[label] = dataclasses.replace(method, seed=seed)
    return seeded


def _ask(
    model: Model,
    picture: Picture,
    asked: SheetQuestion,
    experiment: Experiment,
    relevance: RelevanceOptions,
) -> tuple[View, View]:
    """The view for the language model, and the one for the methods.

    The methods' text has no instructions; `VisualTokens.clip_prompt` alone has them.
    """
    view = model.ask(picture, asked.question, relevance, experiment.together)
    lines = [asked.question]
    if asked.choices:
        lines.append(LETTER_INSTRUCTION)
    if experiment.instruction:
        lines.append(experiment.instruction)
    if len(lines) == 1:
        return view, view
    full = model.ask(picture, "\n".join(lines), relevance, experiment.together)
    tokens = dataclasses.replace(view.tokens, clip_prompt=full.tokens.clip_sentence)
    return full, dataclasses.replace(view, tokens=tokens)


def _blank(model: Model, size: tuple[int, int]) -> Image.Image:
    """Uniform, in the mean colour of CLIP's pictures: what the tower takes for nothing."""
    red, green, blue = (round(255 * share) for share in model.processor.image_processor.image_mean)
    return Image.new("RGB", size, (red, green, blue))


def _settings(method: Method) -> dict[str, Any]:
    fields: Any = method  # every method is a dataclass, which its base class cannot say
    return {"name": method.name, **dataclasses.asdict(fields)}
