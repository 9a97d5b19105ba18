"""A question about one picture that two methods answer differently."""

from __future__ import annotations

from collections.abc import Sequence

from spare_demo.analysis.answer_shift import first_difference
from spare_demo.comparison.request import LabelledMethods, QuestionOptions
from spare_demo.comparison.selections import explore
from spare_demo.models import Model, Picture
from spare_demo.models.generate.decoder_inputs import PrunedView


def find_split(
    model: Model,
    picture: Picture,
    questions: Sequence[str],
    methods: LabelledMethods,
    budget: int,
    options: QuestionOptions,
) -> str | None:
    """The first question whose answers differ in a word; None where each has the same answers.

    methods: two, by label. budget: visual tokens kept by each, from 1 to all of the picture's.

    Raises ValueError, with a sentence to show, for a budget that a schedule cannot meet.
    """
    trials: list[PrunedView] = []
    for question in questions:
        view = model.ask(picture, question, options.relevance, options.together)
        exploration = explore(view, methods, budget)
        if refused := exploration.plans(budget)[1]:
            raise ValueError(" ".join(refused.values()))
        kept = exploration.kept(budget)
        trials += [(view, kept[label]) for label in methods]
    replies = model.answer_many(trials, options.max_new_tokens, options.positions)
    answers = [reply.text for reply in replies]
    pairs = zip(questions, answers[::2], answers[1::2], strict=True)
    return next((question for question, a, b in pairs if first_difference(a, b)), None)
