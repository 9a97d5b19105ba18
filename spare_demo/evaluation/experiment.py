"""What is measured of every question: methods, budgets and the options of each; and what of it one
model can run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from spare_demo.comparison.request import QuestionOptions
from spare_demo.evaluation.budgets import Budget, as_share, axis_value
from spare_demo.evaluation.variants import Variant
from spare_demo.models import Model
from spare_demo.pruners import Method
from spare_demo.pruners.base import check_budget


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
        """A copy with the least budget that each schedule can meet on this model."""
        n, layers = model.most_tokens, model.layers
        shares = any(isinstance(budget, str) for budget in self.budgets)
        lowest = {label: m.lowest(n, layers) for label, m in self.methods.items() if m.inside}
        least = {label: as_share(k, n) if shares else k for label, k in lowest.items()}
        return dataclasses.replace(self, least=least)

    def check_budgets(self, model: Model) -> None:
        """ValueError for a budget above the number of visual tokens that any picture can have."""
        most = self.budgets[-1] if self.budgets and self.methods else 1
        if isinstance(most, int):
            check_budget(most, model.most_tokens)

    def budgets_of(self, label: str) -> tuple[Budget, ...]:
        """The budgets that a method is measured at."""
        least = axis_value(self.least.get(label, 0))
        return tuple(budget for budget in self.budgets if axis_value(budget) >= least)

    @property
    def rows_each(self) -> int:
        """How many results each question gives."""
        return 1 + self.blank + sum(len(self.budgets_of(label)) for label in self.methods)

    def variant_of(self, label: str) -> Variant:
        """How a label is measured."""
        return self.variants.get(label, Variant(self.relevance, self.positions))

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


class Fitted(NamedTuple):
    """An experiment as one model can run it.

    Attributes:
        model: name, revision, number format and so on, as of `describe`.
        notes: sentences about what is left out.
    """

    experiment: Experiment
    model: dict[str, str]
    notes: tuple[str, ...]


def fit(model: Model, experiment: Experiment, leave_out: bool) -> Fitted:
    """The experiment with the methods and budgets that this model can run.

    leave_out: whether a method that it cannot run is left out with a note.

    Raises ValueError: one that it cannot run, where none is left out; an aspect or positions it
    does not know; and as `Experiment.check_budgets`.
    """
    experiment.check_budgets(model)
    experiment = dataclasses.replace(
        experiment,
        aspect=model.aspect(experiment.aspect),
        positions=model.position_option(experiment.positions),
        variants={
            label: dataclasses.replace(each, positions=model.position_option(each.positions))
            for label, each in experiment.variants.items()
        },
    )
    methods, notes = {}, []
    for label, method in experiment.methods.items():
        reason = model.reason_against(method, experiment.variant_of(label).relevance.guidance_text)
        instead = "Leave it out"
        if method.inside and not reason:
            alone = dataclasses.replace(experiment, methods={label: method}).within(model)
            if not alone.budgets_of(label):
                least = alone.least[label]
                reason = f"its schedule needs a budget of at least {least} on this model"
                instead += f", or give {least} as a budget, too"
        if not reason:
            methods[label] = method
        elif leave_out:
            notes.append(f"{method.title} is left out: {reason}.")
        else:
            raise ValueError(f"{method.title} cannot be measured: {reason}. {instead}.")
    possible = dataclasses.replace(experiment, methods=methods).within(model)
    for label, least in possible.least.items():
        met = [str(k) for k in possible.budgets_of(label)]
        if len(met) < len(experiment.budgets):
            title = methods[label].title
            notes.append(
                f"{title} is measured at {', '.join(met)}: below {least} it has no schedule."
            )
    return Fitted(possible, describe(model), tuple(notes))


def describe(model: Model) -> dict[str, str]:
    """All of a model that results depend on, for the settings file."""
    dtypes = dict.fromkeys((model.dtype, model.hf.get_input_embeddings().weight.dtype))
    return {
        "name": model.name,
        "title": model.title,
        "revision": model.revision,
        "dtype": ", weights ".join(str(each).removeprefix("torch.") for each in dtypes),
        "device": model.device.type,
        "system": model.system,
    }
