"""The measurement: every question of a picture, by every method, at every budget.

A picture is encoded once, and all its answers are made together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence
from reprlib import repr as brief
from typing import NamedTuple

import torch
from PIL import Image

from spare_demo import measures
from spare_demo.comparison.request import UNPRUNED
from spare_demo.evaluation import relevance_places as where
from spare_demo.evaluation.budgets import Budget
from spare_demo.evaluation.experiment import Experiment
from spare_demo.evaluation.grading import is_right
from spare_demo.evaluation.picks import Pick, PicturePicks, reseed
from spare_demo.evaluation.records import BLANK, Key, Place, Row, Skipped
from spare_demo.evaluation.sheets import Sheet, SheetQuestion
from spare_demo.images.load import PictureError
from spare_demo.models import Model, Picture, View
from spare_demo.models.base import LongQuestion
from spare_demo.models.generate.batch import ShortAnswer
from spare_demo.models.generate.prompt import LETTER_INSTRUCTION
from spare_demo.pruners.plan import Pruning
from spare_demo.relevance import RelevanceOptions


class PictureResults(NamedTuple):
    """The results of one picture; none where it cannot be opened."""

    sheet: Sheet
    rows: list[Row]
    places: list[Place]
    skipped: list[Skipped]


def run(
    model: Model,
    sheets: Sequence[Sheet],
    experiment: Experiment,
    done: Collection[Key] = (),
    skip: Callable[[str], None] | None = None,
) -> Iterator[PictureResults]:
    """Measure picture by picture, leaving out those already done.

    skip: called with a sentence for a picture that cannot be opened, and for a question that is too
        long; None: it ends the run.

    Raises PictureError: naming the picture. ValueError: a budget above the number of visual tokens
    that any picture can have, or a method that needs a question's text where the model has none.
    """
    experiment.check_budgets(model)
    for sheet in sheets:
        if (sheet.set, sheet.picture) in done:
            continue
        try:
            *_, results = measure(model, sheet, experiment, skip)
            assert results is not None
        except PictureError as error:
            sentence = f"The picture {sheet.where or sheet.picture} cannot be used. {error}"
            if skip is None:
                raise PictureError(sentence) from None
            skip(sentence)
            results = PictureResults(sheet, [], [], [])
        yield results


class _Trial(NamedTuple):
    """One answer to be made, with what is known of it before."""

    number: int
    method: str
    budget: Budget
    view: View
    selection: Pruning | None
    error: float


def measure(
    model: Model, sheet: Sheet, experiment: Experiment, skip: Callable[[str], None] | None = None
) -> Iterator[PictureResults | None]:
    """Measure one picture: None after each part of the work, where it may be ended, then its
    results.

    skip, and errors: as of `run`, which calls `Experiment.check_budgets` before.
    """
    photo = sheet.open()
    picture = model.look(photo, experiment.aspect)
    blank = model.look(_blank(model, photo.size), experiment.aspect) if experiment.blank else None
    methods = reseed(experiment.methods, sheet.set, sheet.picture)
    relevance_of = {label: experiment.variant_of(label).relevance for label in methods}
    picks = PicturePicks(picture, methods, experiment)
    trials: list[_Trial] = []
    places: list[Place] = []
    skipped: list[Skipped] = []
    for number, asked in enumerate(sheet.questions):
        options = dict.fromkeys([experiment.relevance, *relevance_of.values()])
        try:
            views = {each: _ask(model, picture, asked, experiment, each) for each in options}
        except LongQuestion as reason:
            question = f"question {brief(asked.text)}: {reason}"
            if skip is None:
                raise PictureError(f"Its {question}") from None
            skip(f"The picture {sheet.where or sheet.picture}, {question}")
            skipped.append(Skipped(sheet.set, sheet.picture, number, str(reason)))
            continue
        view = views[experiment.relevance][0]
        trials.append(_Trial(number, UNPRUNED, view.tokens.n, view, None, 0.0))
        kept: dict[str, list[Pick]] = {}
        for relevance, (_, own) in views.items():
            alike = [label for label in methods if relevance_of[label] == relevance]
            kept |= picks.of(alike, own)
        for label in methods:
            for budget, selection, error in kept[label]:
                trials.append(_Trial(number, label, budget, view, selection, error))
        if blank is not None:
            nothing = _ask(model, blank, asked, experiment, experiment.relevance)[0]
            n = nothing.tokens.n
            trials.append(_Trial(number, BLANK, n, nothing, None, float("nan")))
        if sheet.scene is not None:
            where_of = where.places(model, picture, sheet.scene, asked, experiment.relevance.text)
            places += [Place(sheet.set, sheet.picture, number, *values) for values in where_of]
        yield None
    if not trials:
        yield PictureResults(sheet, [], [], skipped)
        return
    answers: dict[int, ShortAnswer] = {}
    for i, answer in _answers(model, trials, experiment):
        answers[i] = answer
        yield None
    replies = [answers[i] for i in range(len(trials))]
    unpruned = {t.number: s for t, s in zip(trials, replies, strict=True) if t.method == UNPRUNED}
    full = torch.stack([unpruned[t.number].first_logits for t in trials])
    kl = measures.kl_divergence(full, torch.stack([s.first_logits for s in replies])).tolist()
    rows = []
    for trial, answer, divergence in zip(trials, replies, kl, strict=True):
        asked = sheet.questions[trial.number]
        rows.append(
            Row(
                set=sheet.set,
                picture=sheet.picture,
                number=trial.number,
                question=asked.question,
                truth=" | ".join(asked.answers),
                prediction=answer.text,
                right=is_right(answer.text, asked),
                category=asked.category,
                method=trial.method,
                budget=trial.budget,
                kl=divergence,
                error=trial.error,
            )
        )
    yield PictureResults(sheet, rows, places, skipped)


def _answers(
    model: Model, trials: Sequence[_Trial], experiment: Experiment
) -> Iterator[tuple[int, ShortAnswer]]:
    """The number and the answer of each trial; those with the same positions are made together."""
    positions = [experiment.variant_of(trial.method).positions for trial in trials]
    for each in dict.fromkeys(positions):
        places = [i for i, own in enumerate(positions) if own == each]
        requests = [(trials[i].view, trials[i].selection) for i in places]
        for at, answer in model.answer_each(requests, experiment.max_new_tokens, each):
            yield places[at], answer


def _ask(
    model: Model,
    picture: Picture,
    asked: SheetQuestion,
    experiment: Experiment,
    relevance: RelevanceOptions,
) -> tuple[View, View]:
    """The view for the language model, and the one for the methods.

    The methods' text has no instructions; `VisualTokens.clip_prompt` alone has them.
    """
    view = model.ask(picture, asked.question, relevance, experiment.together)
    lines = [asked.question]
    if asked.choices:
        lines.append(LETTER_INSTRUCTION)
    if experiment.instruction:
        lines.append(experiment.instruction)
    if len(lines) == 1:
        return view, view
    full = model.ask(picture, "\n".join(lines), relevance, experiment.together)
    tokens = dataclasses.replace(view.tokens, clip_prompt=full.tokens.clip_sentence)
    return full, dataclasses.replace(view, tokens=tokens)


def _blank(model: Model, size: tuple[int, int]) -> Image.Image:
    """A picture of nothing: uniform, in the mean colour of CLIP's pictures."""
    red, green, blue = (round(255 * share) for share in model.processor.image_processor.image_mean)
    return Image.new("RGB", size, (red, green, blue))
