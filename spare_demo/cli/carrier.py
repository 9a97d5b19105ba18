"""`compare --carrier`: which of a method's kept tokens carries its answer."""

from __future__ import annotations

from spare_demo.analysis.leave_one_out import leave_one_out
from spare_demo.cli.options import print_wrapped
from spare_demo.comparison.result import Result
from spare_demo.models import Model, View
from spare_demo.render.canvas import Canvas


def print_carriers(model: Model, view: View, result: Result) -> None:
    """Prints a sentence per method, each with one answer per kept token.

    result: the finished comparison of this view. Methods inside the language model have no one set
    and get none.
    """
    where = Canvas(view.photo, view.grid).where
    settings = result.settings
    for label, selection in result.selections.items():
        title = result.titles[label]
        try:
            answer, most = result.answers[label], settings.max_new_tokens
            *_, last = leave_one_out(model, view, selection, answer, most, settings.positions)
            sentence = last.sentence(title, where)
        except ValueError as error:
            sentence = f"{title}: {error}"
        print_wrapped(sentence)
