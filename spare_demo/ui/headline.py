"""The headline above the stage: what is remarkable in the comparison that the page shows."""

from __future__ import annotations

from html import escape

from spare_demo.analysis.finding import headline, kept_sentence
from spare_demo.evaluation.grading import grade_all
from spare_demo.ui.visit import Visit


def headline_html(visit: Visit, budget: int) -> str:
    """The visit's headline; what is kept, where the answers are noise or of another budget.

    budget: where the slider stands.
    """
    result, truth = visit.result, visit.truth
    if visit.unknown or result.budget != budget:
        selections = visit.exploration.selections(budget)
        text = kept_sentence(result.methods, selections, visit.exploration.n)
    else:
        grades = grade_all({label: a.text for label, a in result.answers.items()}, truth)
        text = headline(result, truth, grades, visit.asked)
    return f'<p class="headline" aria-live="polite">{escape(text)}</p>'
