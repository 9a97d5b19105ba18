"""What came of a request: what each method keeps, and the answers so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from torch import Tensor

from spare_demo import measures
from spare_demo.comparison.request import UNPRUNED, Request
from spare_demo.comparison.selections import Exploration
from spare_demo.models import Answer, View
from spare_demo.pruners import LayerPlan
from spare_demo.tokens import Selection


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
    series: Mapping[str, tuple[float | None, ...]]
    points: Mapping[str, tuple[int, float]]
    random: tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]
    done: float


@dataclass(frozen=True, eq=False)
class Result:
    """One comparison, as far as it has come. It is never changed, only replaced.

    Attributes:
        request: what was asked, its image the upright photo and its aspect the one that was used.
        exploration: what every method keeps, at every budget.
        selections: what methods before the language model keep at the budget, by label.
        plans: the schedules of methods inside it; what they kept is in their answer's `layer_sets`.
        answers: the finished ones by label, "unpruned" first.
        partial_text: the text so far of each answer that is under way.
        model, revision: name and revision of the model that ran.
        kl: how far the first word moved at every budget, where that was measured.
    """

    request: Request
    exploration: Exploration
    selections: dict[str, Selection]
    plans: dict[str, LayerPlan]
    answers: dict[str, Answer]
    model: str
    revision: str
    partial_text: dict[str, str] = field(default_factory=dict)
    kl: KlCurves | None = None

    @property
    def finished(self) -> bool:
        """Whether every answer is there."""
        return set(self.answers) == {UNPRUNED, *self.exploration.methods}

    @property
    def budget(self) -> int:
        """The budget asked for, as a number of this picture's visual tokens."""
        return self.request.budget_of(self.exploration.n)

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
