"""A visit as a `Result` of the package, for files that outlive the page."""

from __future__ import annotations

import dataclasses

from spare_demo.comparison.request import UNPRUNED, Request, name_of
from spare_demo.comparison.result import Result
from spare_demo.models import Model
from spare_demo.pruners import Pruner
from spare_demo.settings import Settings
from spare_demo.ui.session import Visit

OWN = "mine"
"""What the visitor's own set is called in files."""


def result_of(visit: Visit, model: Model, settings: Settings) -> Result:
    """What a visit found, at the budget of its answers; the own set with it if it was asked with.

    The slots become the methods' own names, so that files and pictures say what ran.

    Raises ValueError, with a sentence to show, while an answer is missing.
    """
    if visit.refused:
        raise ValueError(" ".join(visit.refused.values()))
    exploration, answers, choices = visit.exploration, dict(visit.answers), visit.choices
    if visit.own is not None:
        selection, answers[OWN] = visit.own
        exploration = dataclasses.replace(
            exploration,
            methods={**exploration.methods, OWN: selection},
            full={**exploration.full, OWN: selection},
            _made={},
        )
    if {UNPRUNED, *exploration.methods} - set(answers):
        raise ValueError("Not every answer is there yet. Ask, and let all of them end.")
    names: dict[str, str] = {}
    for label, method in exploration.methods.items():
        name = name_of(method) if isinstance(method, Pruner) else label
        turn = sum(other.split(" (")[0] == name for other in names.values()) + 1
        names[label] = name if turn == 1 else f"{name} ({turn})"
    kl = visit.kl
    if kl is not None:
        kl = dataclasses.replace(
            kl,
            series={names[label]: curve for label, curve in kl.series.items()},
            points={names[label]: point for label, point in kl.points.items()},
        )
    named = exploration.renamed(names)
    request = Request(
        image=visit.picture.photo,
        question=named.view.question,
        methods=named.methods,
        budget=visit.answered_budget,
        max_new_tokens=settings.max_new_tokens,
        seed=choices.seed,
        aspect=visit.key[1],
        relevance=choices.relevance,
        together=choices.together,
    )
    return Result(
        request=request,
        exploration=named,
        selections=named.selections(request.budget_of(named.n)),
        plans=named.plans(request.budget_of(named.n)),
        answers={UNPRUNED: answers[UNPRUNED]} | {names[label]: answers[label] for label in names},
        model=model.name,
        revision=model.revision,
        kl=kl,
    )
