"""How a result comes about: begun with what is kept, completed with measures of the answers."""

from __future__ import annotations

import dataclasses

from spare_demo import measures
from spare_demo.comparison.method_record import record_of
from spare_demo.comparison.request import UNPRUNED, RequestOptions
from spare_demo.comparison.result import Result, Schedule
from spare_demo.comparison.selections import Exploration


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
        methods={label: record_of(exploration, label) for label in exploration.methods},
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
