"""A visit as the package's own `Comparison`, for files that outlive the page."""

from __future__ import annotations

import dataclasses

from spare_demo.comparison.pipeline import Comparison, finished
from spare_demo.models import Model
from spare_demo.settings import Settings
from spare_demo.ui.session import Visit

OWN = "mine"
"""What the visitor's own set is called in files."""


def comparison_of(visit: Visit, model: Model, settings: Settings) -> Comparison:
    """What a visit found, at the budget of its answers; the own set with it if it was asked with.

    Raises ValueError, with a sentence to show, while an answer is missing.
    """
    if visit.refused:
        raise ValueError(" ".join(visit.refused.values()))
    explored, answers, choices = visit.exploration, dict(visit.answers), visit.choices
    if visit.own is not None:
        selection, answers[OWN] = visit.own
        explored = dataclasses.replace(
            explored,
            methods={**explored.methods, OWN: selection},
            full={**explored.full, OWN: selection},
            _made={},
        )
    return finished(
        model,
        explored,
        answers,
        visit.answered_budget,
        settings.max_new_tokens,
        choices.seed,
        visit.key[1],
        choices.relevance,
        choices.together,
        kl=visit.kl,
    )
