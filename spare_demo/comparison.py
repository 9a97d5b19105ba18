"""The one pipeline: picture + question + methods + budget -> what each keeps and what is answered.

`compare` runs all of it. The page runs the same steps as they finish: `model.look`, `model.ask`,
`choose`, `explore`, then `model.stream` for each answer.

Where a method's picks are nested it is run once per picture and question, for all n tokens: every
budget is then a prefix, so that moving the budget costs next to nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from torch import Tensor

from spare_demo import measures
from spare_demo.cost import UNPRUNED
from spare_demo.geometry import Aspect
from spare_demo.models import Answer, Model, View
from spare_demo.pictures import Source
from spare_demo.pruners import PRUNERS, LayerPlan, LayerPruner, Pruner, get_pruner
from spare_demo.pruners.base import check_budget
from spare_demo.pruners.greedy import Greedy, select_together
from spare_demo.pruners.options import Changes, configured, read_method, title_of, write_method
from spare_demo.relevance import RelevanceOptions, aggregate, raw_cosine
from spare_demo.tokens import Selection

if TYPE_CHECKING:
    from spare_demo.change import KlCurves

Chosen = dict[str, Pruner | Selection | LayerPlan]
"""What is compared, by the label it carries on the page and in result.json."""

RANDOM_SEEDS = tuple(range(8))
"""The random control of the curves: one draw says little, eight show the spread."""

_CURVE_BUDGETS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 448, 512)


@dataclass(frozen=True, eq=False)
class Curves:
    """Relative reconstruction error, ||X - X P|| / ||X||, against the number of tokens kept.

    budgets: the k of all curves, ascending, n the last; m of them.
    errors: (m,) per method's label.
    points: (k, error) per label of a set made by hand, which has one size only.
    random: mean, lowest and highest error over `RANDOM_SEEDS`, each (m,).
    bound: (m,) the least error any k directions can have; k tokens cannot beat it.
    """

    budgets: tuple[int, ...]
    errors: dict[str, tuple[float, ...]]
    points: dict[str, tuple[int, float]]
    random: measures.Spread
    bound: Tensor


@dataclass(frozen=True, eq=False)
class Exploration:
    """What every method keeps of one view, at every budget. No language model is involved.

    A method inside the language model has no set here but a plan; it is left out of everything
    that needs a set.

    methods: what was run under each label, text-free stand-ins included.
    full: the picks of all n tokens of the nested methods, and the hand-made sets as they are.
    select_seconds: wall time of each entry of `full` that a method made (all n picks at once).
        Greedy methods run together on one matrix of cosines: each carries the time of all.
    notes: sentences for the visitor, such as that the text part is off.
    """

    view: View
    methods: Chosen
    full: dict[str, Selection]
    select_seconds: dict[str, float]
    notes: tuple[str, ...]
    _made: dict[tuple[str, int], Selection] = field(default_factory=dict, repr=False)
    """What methods that are not nested keep, at the budgets asked for so far."""

    @property
    def n(self) -> int:
        """Number of visual tokens, the largest budget."""
        return self.view.tokens.n

    @property
    def titles(self) -> dict[str, str]:
        """What to call each label on a picture: what ran by its title, or a label of one's own."""
        return {
            label: title_of(method, PRUNERS)
            if isinstance(method, Pruner) and label.partition(":")[0] in PRUNERS
            else label
            for label, method in self.methods.items()
        }

    def selections(self, budget: int) -> dict[str, Selection]:
        """What each label keeps at this budget; a set made by hand is itself at every budget.

        Labels of `inside` have no set and are left out. Raises ValueError if budget is not a whole
        number from 1 to n.
        """
        k = check_budget(budget, self.n)
        return {
            label: self._selection(label, k) for label in self.methods if label not in self.inside
        }

    @cached_property
    def inside(self) -> tuple[str, ...]:
        """The labels that choose inside the language model, layer by layer."""
        return tuple(
            label
            for label, method in self.methods.items()
            if isinstance(method, LayerPruner | LayerPlan)
        )

    def plans(self, budget: int) -> dict[str, LayerPlan]:
        """The schedule of each label of `inside`; a ready-made plan is itself at every budget.

        Raises ValueError if one of them cannot meet the budget; the message says which it can.
        """
        return {label: self.plan(label, budget) for label in self.inside}

    def plan(self, label: str, budget: int) -> LayerPlan:
        """The schedule of one label of `inside`; raises as `plans`."""
        method = self.methods[label]
        if isinstance(method, LayerPlan):
            return method
        assert isinstance(method, LayerPruner)
        return method.plan(self.view, budget)

    @cached_property
    def relevance(self) -> Tensor | None:
        """(n,) raw mean cosine of each token with the question; None without a question."""
        image, text = self.view.tokens.clip_image, self.view.tokens.clip_text
        if image is None or text is None:
            return None
        return aggregate(raw_cosine(image, text), "mean").cpu()

    @cached_property
    def weights(self) -> dict[str, Tensor | None]:
        """(n,) the text weight each method used, or None where it used none."""
        found: dict[str, Tensor | None] = {}
        for label, method in self.methods.items():
            weight = method.weight(self.view.tokens) if isinstance(method, Pruner) else None
            found[label] = None if weight is None else weight.cpu()
        return found

    @cached_property
    def curves(self) -> Curves:
        """Reconstruction error of every label, of chance and of the best subspace; made once."""
        x = measures.compact(self.view.tokens.features)
        budgets = curve_budgets(self.n)
        errors: dict[str, tuple[float, ...]] = {}
        points: dict[str, tuple[int, float]] = {}
        for label, method in self.methods.items():
            if isinstance(method, LayerPruner | LayerPlan):
                continue
            if isinstance(method, Selection):
                points[label] = (method.size, self._error(x, method))
            elif method.nested:
                order = self.full[label].order
                curve = measures.reconstruction_curve(x, order, budgets, relative=True)
                errors[label] = tuple(curve.tolist())
            else:
                errors[label] = tuple(self._error(x, self._selection(label, k)) for k in budgets)
        return Curves(
            budgets,
            errors,
            points,
            measures.random_spread(x, budgets, RANDOM_SEEDS, relative=True),
            measures.svd_bound(x, budgets, relative=True),
        )

    def _selection(self, label: str, k: int) -> Selection:
        method = self.methods[label]
        if isinstance(method, Selection):
            return method
        assert isinstance(method, Pruner)
        if method.nested:
            return self.full[label].prefix(k)
        if (label, k) not in self._made:
            self._made[label, k] = method.select(self.view.tokens, k)
        return self._made[label, k]

    def _error(self, x: Tensor, selection: Selection) -> float:
        """Relative reconstruction error; x: `measures.compact` of the features."""
        if selection.features is None:
            return measures.reconstruction_error(x, selection.order, relative=True)
        features = self.view.tokens.features
        return measures.merged_error(features, selection.features, relative=True)


@dataclass(frozen=True, eq=False)
class Comparison:
    """One finished comparison. `answers` has a key for each method and one more: "unpruned".

    selections: what methods before the language model kept, by label.
    plans: the schedules of methods inside it; what they kept is in their answer's `layer_sets`.
    model, revision: name and revision of the model that ran.
    budget, max_new_tokens, seed, aspect, relevance, together: as asked for.
    kl: how far the first word moved at every budget, where that was measured (`change.kl_curves`).
    """

    exploration: Exploration
    selections: dict[str, Selection]
    plans: dict[str, LayerPlan]
    answers: dict[str, Answer]
    model: str
    revision: str
    budget: int
    max_new_tokens: int
    seed: int
    aspect: Aspect
    relevance: RelevanceOptions
    together: bool
    kl: KlCurves | None = None

    @property
    def view(self) -> View:
        """The picture with the question, as the model encoded it."""
        return self.exploration.view

    @cached_property
    def leftover(self) -> dict[str, Tensor | None]:
        """(n,) share of each patch that the kept ones cannot reconstruct; None for merged rows."""
        x = measures.compact(self.view.tokens.features)
        return {
            label: measures.leftover_share(x, kept.order).cpu() if kept.features is None else None
            for label, kept in self.selections.items()
        }


def compare(
    model: Model,
    image: Source,
    question: str,
    pruners: Sequence[str] | Mapping[str, Pruner | Selection | LayerPlan] = ("spare", "cdpruner"),
    budget: int | str = 64,
    max_new_tokens: int = 64,
    seed: int = 0,
    aspect: Aspect | None = None,
    relevance: RelevanceOptions = RelevanceOptions(),
    together: bool = False,
) -> Comparison:
    """Ask one question of one picture, with all visual tokens and with what each method keeps.

    Args:
        model: from `load_model`.
        image: anything `open_picture` takes.
        question: blank for none; methods that need text then run in their text-free form.
        pruners: names of the table, or {label: Pruner | Selection | LayerPlan} for settings, for
            one method twice, or for hand-made sets.
        budget: visual tokens kept, 1..n, or a share of them such as "10%"; of methods inside the
            language model the average over its layers.
        max_new_tokens: longest answer.
        seed: for methods given by name that draw at random.
        aspect: one of `model.aspects`, None for the first.
        relevance: where the text weight comes from.
        together: spend the budget over all views of the picture, instead of equal shares.

    Raises:
        ValueError: an unknown method, or a budget out of range or of a schedule's reach; the
            message may be shown.
        PictureError: the picture cannot be used.
    """
    chosen = choose(pruners, seed)
    aspect = model.aspect(aspect)
    view = model.encode(image, question, aspect, relevance, together)
    budget = read_budget(budget, view.tokens.n)
    exploration = explore(view, chosen)
    selections, plans = exploration.selections(budget), exploration.plans(budget)
    answers = {UNPRUNED: model.answer(view, None, max_new_tokens)}
    for label in exploration.methods:
        kept = plans[label] if label in plans else selections[label]
        answers[label] = model.answer(view, kept, max_new_tokens)
    return Comparison(
        exploration,
        selections,
        plans,
        answers,
        model.name,
        model.revision,
        budget,
        max_new_tokens,
        seed,
        aspect,
        relevance,
        together,
    )


def finished(
    model: Model,
    exploration: Exploration,
    answers: Mapping[str, Answer],
    budget: int,
    max_new_tokens: int,
    seed: int,
    aspect: Aspect,
    relevance: RelevanceOptions,
    together: bool = False,
    kl: KlCurves | None = None,
) -> Comparison:
    """A comparison from parts that were made one by one, as a page makes them.

    Every label becomes the method's own name, as `choose` would have it, so that files and
    pictures say what ran; sets made by hand keep theirs.

    Args:
        answers: by the exploration's labels, and the unpruned one; all of them finished.
        budget, max_new_tokens, seed, aspect, relevance, together: what they were made with.
        kl: by the exploration's labels, where it was measured.

    Raises:
        ValueError: with a sentence to show: an answer is missing or was stopped.
    """
    missing = {UNPRUNED, *exploration.methods} - set(answers)
    if missing or any(answer.stopped for answer in answers.values()):
        raise ValueError("Not every answer is there yet. Ask, and let all of them end.")
    names: dict[str, str] = {}
    for label, method in exploration.methods.items():
        name = name_of(method) if isinstance(method, Pruner) else label
        turn = sum(other.split(" (")[0] == name for other in names.values()) + 1
        names[label] = name if turn == 1 else f"{name} ({turn})"
    named = dataclasses.replace(
        exploration,
        methods={names[label]: method for label, method in exploration.methods.items()},
        full={names[label]: picks for label, picks in exploration.full.items()},
        select_seconds={names[label]: t for label, t in exploration.select_seconds.items()},
        _made={},
    )
    selections, plans = exploration.selections(budget), exploration.plans(budget)
    return Comparison(
        named,
        {names[label]: picks for label, picks in selections.items()},
        {names[label]: plan for label, plan in plans.items()},
        {UNPRUNED: answers[UNPRUNED]} | {names[label]: answers[label] for label in names},
        model.name,
        model.revision,
        budget,
        max_new_tokens,
        seed,
        aspect,
        relevance,
        together,
        kl
        and dataclasses.replace(
            kl,
            series={names[label]: curve for label, curve in kl.series.items()},
            points={names[label]: point for label, point in kl.points.items()},
        ),
    )


def name_of(method: Pruner) -> str:
    """The method's name with what is set otherwise than usual, its seed left out, for `choose`."""
    values: dict[str, object] = dataclasses.asdict(method)  # type: ignore[call-overload]
    values = {key: value for key, value in values.items() if key != "seed" or not method.seeded}
    return write_method(method.name, values, PRUNERS)


def choose(
    pruners: Sequence[str] | Mapping[str, Pruner | Selection | LayerPlan],
    seed: int = 0,
    changes: Changes | None = None,
) -> Chosen:
    """Names or ready-made methods and sets -> what to compare, by label.

    A name may say how the method is set: "divprune:metric=euclidean".

    A name's label is the name; a name given twice gets "spare" and "spare (2)". A method given by
    name takes `seed` if it draws at random, and `changes` of its settings (`read_options` reads
    them); one given ready-made keeps its own.

    Raises ValueError for an unknown name (listing the known ones), a label that is taken, changes
    of a method that is not among the names, or nothing at all.
    """
    if isinstance(pruners, str):
        pruners = (pruners,)
    unused = [name for name in changes or {} if isinstance(pruners, Mapping) or name not in pruners]
    if unused:
        raise ValueError(
            f"{unused[0]!r} has settings but is not compared. Add it to the methods, or leave its "
            "settings out."
        )
    if not pruners:
        raise ValueError(f"Choose at least one method: {', '.join(PRUNERS)}.")
    if isinstance(pruners, Mapping):
        if UNPRUNED in pruners:
            raise ValueError(f'The label "{UNPRUNED}" is the answer with all tokens. Use another.')
        for label, method in pruners.items():
            if not isinstance(method, Pruner | Selection | LayerPlan):
                raise ValueError(
                    f"{label!r} must be a method, a Selection or a LayerPlan, not "
                    f"{type(method).__name__}. "
                    f"Methods are PRUNERS[name], with one of: {', '.join(PRUNERS)}."
                )
        return dict(pruners)
    chosen: Chosen = {}
    for name in pruners:
        method = read_method(name, PRUNERS)
        if method.seeded:
            method = dataclasses.replace(method, seed=seed)
        method = configured(method, (changes or {}).get(name, {}))
        turn = sum(other == name for other in pruners[: len(chosen)]) + 1
        chosen[name if turn == 1 else f"{name} ({turn})"] = method
    return chosen


def explore(view: View, chosen: Chosen) -> Exploration:
    """Run every nested method once, for all n tokens, so that each budget is a prefix.

    Without a question a method that needs one is replaced by its text-free form, and a note says
    so. Raises ValueError where there is no such form, or a hand-made set or plan does not fit.
    """
    tokens = view.tokens
    methods: Chosen = {}
    full: dict[str, Selection] = {}
    seconds: dict[str, float] = {}
    notes: list[str] = []
    for label, method in chosen.items():
        if isinstance(method, Selection):
            methods[label] = full[label] = method.check(tokens.n)
            continue
        if isinstance(method, LayerPlan):
            methods[label] = method.check(tokens.n, view.layers)
            continue
        if method.needs_text and not tokens.has_text and method.text_free:
            stand_in = get_pruner(method.text_free)
            notes.append(
                f"Without a question the text part of {method.title} is off: "
                f"{stand_in.title} ran in its place."
            )
            method = stand_in
        method.check(tokens)
        if method.merges:
            notes.append(
                f"{method.title} merges tokens: its rows hold parts of several patches. Picks, "
                "order and overlap are of the patches that the rows grew from."
            )
        methods[label] = method
        if method.nested and not isinstance(method, Greedy):
            start = time.perf_counter()
            full[label] = method.select(tokens, tokens.n)
            seconds[label] = time.perf_counter() - start
    start = time.perf_counter()
    greedy = {label: method for label, method in methods.items() if isinstance(method, Greedy)}
    full |= select_together(greedy, tokens, tokens.n)
    seconds |= dict.fromkeys(greedy, time.perf_counter() - start)
    return Exploration(view, methods, full, seconds, tuple(notes))


def read_budget(value: object, n: int) -> int:
    """What a visitor typed or a slider sent -> a budget from 1 to n.

    Takes 32, 32.0, "32", and "10%" for that share of n, rounded, at least 1. Raises ValueError,
    with a sentence to show, for anything else.
    """
    number = value
    if isinstance(value, str) and value.strip().endswith("%"):
        return _share_of(value, n)
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            number = float(value)
    if isinstance(number, float) and number.is_integer() and abs(number) < 1e9:
        number = int(number)
    # `check_budget` refuses whatever is not a whole number, so the type need not be known here.
    return check_budget(number, n)  # type: ignore[arg-type]


def _share_of(value: str, n: int) -> int:
    try:
        percent = float(value.strip()[:-1])
    except ValueError:
        percent = 0.0
    if not 0 < percent <= 100:
        raise ValueError(
            f"A budget of {value!r} is not possible. Choose a share above 0% and up to 100%."
        )
    return max(1, round(n * percent / 100))


def curve_budgets(n: int) -> tuple[int, ...]:
    """The budgets at which curves are drawn: dense where few tokens are kept, and n itself."""
    return (*(k for k in _CURVE_BUDGETS if k < n), n)
