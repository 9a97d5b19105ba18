"""From a request to its result: encode once, choose by every method, answer with each."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterator
from itertools import chain

from spare_demo import measures
from spare_demo.comparison.method_record import record_of
from spare_demo.comparison.request import UNPRUNED, MethodsArgument, Request, RequestOptions
from spare_demo.comparison.result import Result, Schedule
from spare_demo.comparison.selections import Exploration, explore
from spare_demo.images.geometry import Aspect
from spare_demo.images.load import Source
from spare_demo.models import Answer, Model, View
from spare_demo.pruners.plan import Pruning
from spare_demo.relevance import RelevanceOptions
from spare_demo.tokens import Positions

_TOGETHER = 8
"""The most answers that are made together: the caches of all methods at once may be too large."""


def encode(model: Model, request: Request) -> View:
    """A request's picture and question as the model gets them.

    Raises PictureError where the picture cannot be used.
    """
    aspect = model.aspect(request.aspect)
    return model.encode(
        request.image, request.question, aspect, request.relevance, request.together
    )


def run(model: Model, request: Request, view: View | None = None) -> Iterator[Result]:
    """Answer a request with all visual tokens, and with what each method keeps.

    view: what `encode` made of the picture and the question, if they were encoded before.

    Yields:
        the result so far: first what each method keeps, then after every word and every answer.
        The last one is finished.

    Raises:
        ValueError: a model that is not loaded, a budget that the picture or a schedule cannot
            meet, or positions that the model does not have; the message may be shown.
        PictureError: the picture cannot be used.
    """
    if not isinstance(model, Model):
        raise ValueError(
            f"The model must be loaded, and this is {type(model).__name__}. Pass what "
            "spare_demo.load_model returns."
        )
    if not isinstance(request, Request):
        raise ValueError(
            f"What is asked must be a Request, not {type(request).__name__}. Pass "
            "Request(image=…, question=…), or call compare."
        )
    positions = model.position_option(request.positions)
    view = view or encode(model, request)
    budget = request.budget_of(view.tokens.n)
    settings = request.options(
        budget=budget,
        aspect=model.aspect(request.aspect),
        positions=positions,
    )
    exploration = explore(view, request.labelled, budget)
    start = start_result(exploration, settings, model.name, model.revision)
    if start.refused:
        raise ValueError(" ".join(start.refused.values()))
    for result in answer_steps(model, exploration, start):
        if not result.finished:
            yield result
    yield add_measures(result, exploration)


def answer_steps(model: Model, exploration: Exploration, result: Result) -> Iterator[Result]:
    """Ask for the answers that a result lacks and that can be had at its budget, word by word.

    Yields the result with the answers so far: first with those that it had, then after each step.
    """
    if not result.language_model:
        yield result
        return
    kept: dict[str, Pruning | None] = {
        UNPRUNED: None,
        **exploration.plans(result.budget)[0],
        **result.selections,
    }
    labels = [label for label in (UNPRUNED, *result.methods) if label in kept]
    answers = dict(result.answers)
    partial_text = {label: "" for label in labels if label not in answers}
    missing, settings = list(partial_text), result.settings
    groups = [missing[i : i + _TOGETHER] for i in range(0, len(missing), _TOGETHER)]
    # Its arguments are checked before the first step.
    steps = [
        model.stream_together(
            exploration.view,
            {label: kept[label] for label in group},
            settings.max_new_tokens,
            settings.positions,
        )
        for group in groups
    ]
    yield dataclasses.replace(result, partial_text=dict(partial_text))
    for step in chain.from_iterable(steps):
        for label, piece in step.items():
            if isinstance(piece, Answer):
                answers[label] = piece
                del partial_text[label]
            else:
                partial_text[label] += piece
        in_order = {label: answers[label] for label in labels if label in answers}
        yield dataclasses.replace(result, answers=in_order, partial_text=dict(partial_text))


def finish(model: Model, request: Request, view: View | None = None) -> Result:
    """The finished result of a request; arguments and what it raises as of `run`."""
    (result,) = deque(run(model, request, view), maxlen=1)
    return result


def compare(
    model: Model,
    image: Source,
    question: str | None,
    pruners: MethodsArgument = ("spare", "cdpruner"),
    budget: float | str = 64,
    max_new_tokens: int = 64,
    seed: int = 0,
    aspect: Aspect | None = None,
    relevance: RelevanceOptions = RelevanceOptions(),
    together: bool = False,
    positions: Positions | None = None,
) -> Result:
    """Ask one question of one picture.

    Args:
        model: from `load_model`.
        image: a path, bytes, a binary file object, or a Pillow image.
        question: None or blank for none; see `Request`.
        pruners: names of `PRUNERS`, or {label: Method | Selection | LayerPlan}.
        budget: visual tokens kept of the picture, or a share of them such as "12.5%".

    The other arguments are the fields of `Request` of the same names. Raises as `Request` and `run`
    do.
    """
    request = Request(
        image,
        "" if question is None else question,
        pruners,
        budget=budget,
        max_new_tokens=max_new_tokens,
        seed=seed,
        aspect=aspect,
        relevance=relevance,
        together=together,
        positions=positions,
    )
    return finish(model, request)


def start_result(
    exploration: Exploration, settings: RequestOptions, model: str, revision: str
) -> Result:
    """The result of a request before any answer: what each method keeps at the budget.

    settings: the budget a number of the picture's tokens. model, revision: of the model that ran.
    """
    view, budget = exploration.view, int(settings.budget)
    selections = exploration.selections(budget)
    plans, refused = exploration.plans(budget)
    labels = (*selections, *plans)
    seconds = {label: exploration.seconds_to_select(label, budget) for label in labels}
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
    selections = result.selections
    result = dataclasses.replace(
        result,
        leftover={label: exploration.leftover(kept) for label, kept in selections.items()},
        reconstruction=exploration.curves,
        errors=exploration.errors(result.budget),
    )
    return add_first_kl(result)


def add_first_kl(result: Result) -> Result:
    """The result with the KL of the answers that are there, once the unpruned one is."""
    whole = result.answers.get(UNPRUNED)
    if whole is None:
        return result
    pruned = {label: answer for label, answer in result.answers.items() if label != UNPRUNED}
    kl = {label: first_token_kl(whole, answer) for label, answer in pruned.items()}
    return dataclasses.replace(result, first_kl=kl)


def first_token_kl(whole: Answer, pruned: Answer) -> float:
    """KL(unpruned || pruned) of the first token, in nats."""
    return float(measures.kl_divergence(whole.first_logits, pruned.first_logits))
