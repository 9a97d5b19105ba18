"""What `compare` prints of a finished comparison: headline, table, sentences."""

from __future__ import annotations

import textwrap

from spare_demo.analysis import cost
from spare_demo.analysis.finding import headline, informed_sentence
from spare_demo.analysis.leave_one_out import leave_one_out
from spare_demo.cli.options import print_table, print_wrapped
from spare_demo.comparison.request import UNPRUNED
from spare_demo.comparison.result import Result
from spare_demo.evaluation.grading import grade_all
from spare_demo.models import Answer, Model, View
from spare_demo.models.generate.decoder_inputs import NO_LANGUAGE_MODEL
from spare_demo.pruners import PRUNERS
from spare_demo.render.canvas import Canvas
from spare_demo.scenes.asked import asked_in
from spare_demo.scenes.sets import read_signature
from spare_demo.table import shortened

_LONGEST_ANSWER = 60  # characters, in the table


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


def print_headline(result: Result, path: str | None) -> None:
    """Prints what the comparison came to. path: of the picture, None where no file was named."""
    asked = None
    if path is not None:
        scene = read_signature(path, result.photo)
        asked = asked_in(scene, result.photo, result.question, result.grid.boxes.numpy())
    truth = None if asked is None else asked.answer
    grades = grade_all({label: answer.text for label, answer in result.answers.items()}, truth)
    if text := headline(result, truth, grades, asked):
        print(f"\n{textwrap.fill(text, 96)}")


def print_report(result: Result) -> None:
    """Prints question, tokens, times and answers, and the sentences about them."""
    # A method's name as a label would hide that its text-free form ran.
    ran = {label: record.title for label, record in result.methods.items() if label in PRUNERS}
    titles = {UNPRUNED: "All tokens", **result.titles, **ran}
    print(f"\n{result.question or '(no question)'}\n")
    rows = cost.cost_rows(result.answers)
    if not rows:
        times = {label: cost.seconds_text(s) for label, s in result.select_seconds.items()}
        lines = [
            (titles[label], str(kept.size), times.get(label, "–"))
            for label, kept in result.selections.items()
        ]
        print_table(("", "tokens", "select"), lines)
        print_wrapped(NO_LANGUAGE_MODEL)
        return
    print_table(
        ("", "tokens", "prefill", "operations", "decode", "cache", "answer"),
        [
            (
                titles[row.label],
                cost.tokens_text(row),
                cost.seconds_text(row.prefill_seconds),
                cost.operations_text(row.prefill_operations),
                cost.seconds_text(row.decode_seconds),
                cost.cache_text(row),
                shortened(result.answers[row.label].text, _LONGEST_ANSWER),
            )
            for row in rows
        ],
    )
    print()
    for row in rows:  # what the column has no room for
        if len(text := result.answers[row.label].text) > _LONGEST_ANSWER:
            print_wrapped(f"{titles[row.label]}: {text}")
            print()
    sentences = (
        informed_sentence(titles, result.selections),
        cost.newline_sentence(result.answers),
        cost.allocated_sentence(rows),
    )
    for sentence in (*result.notes, *filter(None, sentences)):
        print_wrapped(sentence)


def compare_runs(first: Result, again: Result) -> str:
    """Whether the model came to the same as the file says."""
    titles = {UNPRUNED: "All tokens", **again.titles}
    other = [
        f"{titles[label]} keeps other tokens"
        for label, selection in again.selections.items()
        if selection.order.tolist() != first.selections[label].order.tolist()
    ]
    other += [
        f"{titles[label]} keeps other tokens in some layers"
        for label in again.plans
        if _by_layer(again.answers[label]) != _by_layer(first.answers[label])
    ]
    other += [
        f"{titles[label]} answers otherwise"
        for label, answer in again.answers.items()
        if answer.token_ids != first.answers[label].token_ids
    ]
    if (again.model, again.revision) != (first.model, first.revision):
        other.append(f"the file is of {first.model} {first.revision}")
    if not other:
        return f"The same tokens{' and answers' if again.answers else ''} as in the file."
    return f"Not as in the file: {'; '.join(other)}."


def _by_layer(answer: Answer) -> list[tuple[int, list[int]]]:
    return [(layer.layer, layer.kept.tolist()) for layer in answer.layer_sets]
