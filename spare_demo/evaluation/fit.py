"""What a model can measure of an experiment, and what the settings file says of the model."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from spare_demo.evaluation.experiment import Experiment
from spare_demo.models import Model


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
    does not know.
    """
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
        reason = model.reason_against(method, experiment.relevance_of(label).guidance_text)
        if method.inside and not reason:
            alone = dataclasses.replace(experiment, methods={label: method}).within(model)
            if not alone.budgets_of(label):
                least = alone.least[label]
                reason = f"its schedule needs a budget of at least {least} on this model"
        if not reason:
            methods[label] = method
        elif leave_out:
            notes.append(f"{method.title} is left out: {reason}.")
        else:
            raise ValueError(f"{method.title} cannot be measured: {reason}. Leave it out.")
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
