"""What every method keeps of one picture and question, at every budget. No language model yet.

Where a method's picks are nested it is run once per picture and question, for all n tokens: every
budget is then a prefix, so that moving the budget costs next to nothing.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from torch import Tensor

from spare_demo import measures
from spare_demo.comparison.request import LabelledMethods
from spare_demo.models import View
from spare_demo.pruners import PRUNERS, LayerPlan, Method
from spare_demo.pruners.base import check_budget
from spare_demo.pruners.by_hand import SetByHand
from spare_demo.pruners.greedy import Greedy, select_together
from spare_demo.pruners.plan import Pruning
from spare_demo.tokens import Selection, VisualTokens
from spare_demo.tokens.arrays import FloatArray

BY_WORDS = (
    "Text guidance is by words of the language model, not CLIP: methods that read the question are "
    "then not as in their papers."
)

_KEPT_BUDGETS = 4
"""Of each method; at one budget the merged rows of a picture may take megabytes."""

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Curves:
    """Relative reconstruction error, ||X - X P|| / ||X||, against the number of tokens kept.

    budgets: the k of all curves, ascending, n the last; m of them.
    errors: (m,) per method's label.
    points: (k, error) per label of a set made by hand, which has one size only.
    random: mean, lowest and highest error over `measures.RANDOM_SEEDS`, each (m,).
    bound: (m,) the least error any k directions can have; k tokens cannot beat it.
    """

    budgets: tuple[int, ...]
    errors: dict[str, tuple[float, ...]]
    points: dict[str, tuple[int, float]]
    random: measures.Spread
    bound: FloatArray


@dataclass(frozen=True, eq=False)
class Exploration:
    """What every method keeps of one view, at every budget. No language model is involved.

    A method inside the language model has no set here but a plan; it is left out of everything
    that needs a set.

    methods: what was run under each label, text-free stand-ins included.
    picks: of the nested methods, in the order picked, as many as were asked for.
    select_seconds: wall time of each entry of `picks`. Greedy methods run
        together on one matrix of cosines: each carries the time of all.
    notes: sentences for the visitor, such as that the text part is off.
    """

    view: View
    methods: LabelledMethods
    picks: dict[str, Selection]
    select_seconds: dict[str, float]
    notes: tuple[str, ...]
    _made: dict[tuple[str, int], Any] = field(default_factory=dict, repr=False)
    """What methods that are not nested keep, and the plans of those inside the language model, at
    the last budgets asked for."""
    _made_seconds: dict[tuple[str, int], float] = field(default_factory=dict, repr=False)
    """Of choosing, at every budget asked for."""

    @property
    def n(self) -> int:
        """Number of visual tokens, the largest budget."""
        return self.view.tokens.n

    def with_set(self, label: str, picks: Selection) -> Exploration:
        """The same with a set made by hand beside it; nothing is run again."""
        return dataclasses.replace(self, methods={**self.methods, label: SetByHand(picks)})

    def selections(self, budget: int) -> dict[str, Selection]:
        """What each label keeps at this budget; a set made by hand is itself at every budget.

        Labels of `inside` have no set and are left out. Raises ValueError if budget is not a whole
        number from 1 to n.
        """
        k = check_budget(budget, self.n)
        return {
            label: self._selection(label, k) for label in self.methods if label not in self.inside
        }

    def seconds_to_select(self, label: str, budget: int) -> float | None:
        """Wall time of what a label keeps; of a nested method that of all its `picks`.

        Of a method inside the language model that of what enters. None where all tokens enter, for
        sets and plans made by hand, and for a budget that nothing was kept at yet.
        """
        if label in self.select_seconds:
            return self.select_seconds[label]
        return self._made_seconds.get((label, budget))

    @cached_property
    def inside(self) -> tuple[str, ...]:
        """The labels that choose inside the language model, layer by layer."""
        return tuple(label for label, method in self.methods.items() if method.inside)

    def plans(self, budget: int) -> tuple[dict[str, LayerPlan], dict[str, str]]:
        """The schedule of each label of `inside` at a budget, and why a label has none at it.

        A ready-made plan is itself at every budget.
        """
        plans, refused = {}, {}
        for label in self.inside:
            try:
                plans[label] = self._make(label, budget, self.methods[label].plan, self.view)
            except ValueError as error:
                refused[label] = str(error)
        return plans, refused

    def kept(self, budget: int) -> dict[str, Pruning]:
        """The set or the schedule of each label that has one at a budget."""
        return {**self.selections(budget), **self.plans(budget)[0]}

    @cached_property
    def complete(self) -> dict[str, Selection]:
        """The picks of all n tokens of the nested methods; made when they are first needed."""
        short = {
            label: method
            for label, method in self.methods.items()
            if method.nested and len(self.picks[label]) < self.n
        }
        return self.picks | select_each(short, self.view.tokens, self.n)[0]

    @cached_property
    def weights(self) -> dict[str, Tensor | None]:
        """(n,) the text weight each method used, or None where it used none."""
        weights = {label: m.weight(self.view.tokens) for label, m in self.methods.items()}
        return {label: None if w is None else w.cpu() for label, w in weights.items()}

    def errors(self, budget: int) -> dict[str, float]:
        """Relative reconstruction error of what each label keeps at a budget; see `selections`."""
        error = self.view.picture.error
        return {label: error(kept) for label, kept in self.selections(budget).items()}

    def leftover(self, selection: Selection) -> Tensor | None:
        """(n,) share of each patch that the kept ones cannot reconstruct, CPU; None if rows are
        merged.

        Over all views jointly, as the language model gets them, while novelty is view by view.
        """
        if selection.merged:
            return None
        return measures.leftover_share(self.view.picture.compact_features, selection.order).cpu()

    @cached_property
    def curves(self) -> Curves:
        """Reconstruction error of every label, of chance and of the best subspace; made once."""
        picture = self.view.picture
        x, budgets = picture.compact_features, measures.curve_budgets(self.n)
        errors: dict[str, tuple[float, ...]] = {}
        points: dict[str, tuple[int, float]] = {}
        for label, method in self.methods.items():
            if method.inside:
                continue
            if method.by_hand:
                picks = self._selection(label, self.n)
                points[label] = (picks.size, picture.error(picks))
            elif method.nested:
                order = self.complete[label].order
                curve = measures.reconstruction_curve(x, order, budgets)
                errors[label] = tuple(curve.tolist())
            else:
                errors[label] = tuple(picture.error(self._selection(label, k)) for k in budgets)
        return Curves(budgets, errors, points, picture.random_errors, picture.least_errors)

    def _selection(self, label: str, k: int) -> Selection:
        method = self.methods[label]
        if method.nested:
            picks = self.picks[label]
            return (picks if k <= len(picks) else self.complete[label]).prefix(k)
        if method.by_hand:
            return method.select(self.view.tokens, k)
        return self._make(label, k, method.select, self.view.tokens)

    def _make(self, label: str, k: int, choose: Callable[[Any, int], T], source: Any) -> T:
        """choose(source, k) and its time, kept while few other budgets are asked for."""
        made: T | None = self._made.get((label, k))
        if made is None:
            start = time.perf_counter()
            made = choose(source, k)
            seconds = time.perf_counter() - start
            by_hand = self.methods[label].by_hand
            if not isinstance(made, LayerPlan) or (made.entering is not None and not by_hand):
                self._made_seconds[label, k] = seconds  # else nothing is chosen yet
            self._made[label, k] = made
            kept = [key for key in [*self._made] if key[0] == label]  # a thread may add one
            for key in kept[:-_KEPT_BUDGETS]:
                self._made.pop(key, None)
        return made


def explore(view: View, requested: LabelledMethods, budget: int | None = None) -> Exploration:
    """Run every nested method once, so that each budget up to the given one is a prefix.

    budget: the largest that will be asked for; None for all n tokens.

    Without a question a method that needs one is replaced by its text-free form, and a note says
    so. Raises ValueError where there is no such form, a model has too few layers for a schedule, or
    a hand-made set or plan does not fit.
    """
    tokens, asks = view.tokens, bool(view.question.strip())
    methods: LabelledMethods = {}
    notes: list[str] = []
    for label, asked in requested.items():
        method = text_free_form(asked, tokens)
        if method is not asked:
            by_words = "" if tokens.words is None else " or guidance_text=words"
            without = f"a CLIP text side{by_words}" if asks else "a question"
            notes.append(
                f"Without {without} the text part of {asked.title} is off: "
                f"{method.title} ran in its place."
            )
        if asks and method.reads_relevance and not tokens.has_text:
            supplies = () if tokens.words is None else ("words",)
            raise ValueError(f"{method.title} cannot run here: {method.reason_against(supplies)}.")
        method.check(tokens)
        if method.inside and not view.layers:
            raise ValueError(
                f"{method.title} chooses inside the language model, which was not loaded. Choose "
                "another method, or load the model whole."
            )
        method.lowest(tokens.n, view.layers)  # refuses a model with too few layers
        if method.merging_note:
            notes.append(method.merging_note)
        methods[label] = method
    if tokens.by_words and any(method.reads_relevance for method in methods.values()):
        notes.append(BY_WORDS)
    nested = {label: method for label, method in methods.items() if method.nested}
    picks, seconds = select_each(nested, tokens, tokens.n if budget is None else budget)
    return Exploration(view, methods, picks, seconds, tuple(notes))


def text_free_form(method: Method, tokens: VisualTokens) -> Method:
    """The method that runs on these tokens: its text-free form where they carry no question."""
    if method.needs_text and not tokens.has_text and method.text_free:
        return PRUNERS[method.text_free]
    return method


def select_each(
    methods: Mapping[str, Method], tokens: VisualTokens, k: int
) -> tuple[dict[str, Selection], dict[str, float]]:
    """What each method keeps, and its seconds; greedy methods run together."""
    picks: dict[str, Selection] = {}
    seconds: dict[str, float] = {}
    for label, method in methods.items():
        if not isinstance(method, Greedy):
            start = time.perf_counter()
            picks[label] = method.select(tokens, k)
            seconds[label] = time.perf_counter() - start
    start = time.perf_counter()
    greedy = {label: method for label, method in methods.items() if isinstance(method, Greedy)}
    picks |= select_together(greedy, tokens, k)
    return picks, seconds | dict.fromkeys(greedy, time.perf_counter() - start)
