"""What is measured of every question: methods, budgets and the options of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spare_demo.comparison.request import QuestionOptions
from spare_demo.evaluation.budgets import Budget, as_share, value
from spare_demo.evaluation.sheets import Sheet
from spare_demo.evaluation.variants import Variant
from spare_demo.models import Model
from spare_demo.pruners import Method
from spare_demo.relevance import RelevanceOptions


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
        shares = any(isinstance(budget, str) for budget in self.budgets)
        lowest = {label: m.lowest(n, layers) for label, m in self.methods.items() if m.inside}
        least = {label: as_share(k, n) if shares else k for label, k in lowest.items()}
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


def _settings(method: Method) -> dict[str, Any]:
    fields: Any = method  # every method is a dataclass, which its base class cannot say
    return {"name": method.name, **dataclasses.asdict(fields)}
