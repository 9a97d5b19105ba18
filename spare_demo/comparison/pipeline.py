"""From a request to its result: encode once, choose by every method, answer with each."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from spare_demo.comparison.request import UNPRUNED, Request
from spare_demo.comparison.result import Result
from spare_demo.comparison.selections import explore
from spare_demo.images.geometry import Aspect
from spare_demo.images.load import Source
from spare_demo.models import Answer, Model
from spare_demo.pruners import LayerPlan, Pruner
from spare_demo.relevance import RelevanceOptions
from spare_demo.tokens import Selection


def run(model: Model, request: Request) -> Iterator[Result]:
    """Answer a request with all visual tokens, and with what each method keeps.

    Yields:
        the result so far: first what each method keeps, then after every word and every answer.
        The last one is finished.

    Raises:
        ValueError: a budget that the picture or a schedule cannot meet; the message may be shown.
        PictureError: the picture cannot be used.
    """
    aspect = model.aspect(request.aspect)
    view = model.encode(
        request.image, request.question, aspect, request.relevance, request.together
    )
    budget = request.budget_of(view.tokens.n)
    exploration = explore(view, request.labelled)
    result = Result(
        request=dataclasses.replace(request, image=view.photo, aspect=aspect),
        exploration=exploration,
        selections=exploration.selections(budget),
        plans=exploration.plans(budget),
        answers={},
        model=model.name,
        revision=model.revision,
    )
    kept = {UNPRUNED: None, **result.plans, **result.selections}
    labels = (UNPRUNED, *exploration.methods)
    answers: dict[str, Answer] = {}
    partial_text = dict.fromkeys(labels, "")
    yield dataclasses.replace(result, partial_text=dict(partial_text))
    for step in model.stream_together(
        view, {label: kept[label] for label in labels}, request.max_new_tokens
    ):
        for label, piece in step.items():
            if isinstance(piece, Answer):
                answers[label] = piece
                del partial_text[label]
            else:
                partial_text[label] += piece
        in_order = {label: answers[label] for label in labels if label in answers}
        yield dataclasses.replace(result, answers=in_order, partial_text=dict(partial_text))


def finish(model: Model, request: Request) -> Result:
    """The finished result of a request; raises as `run`."""
    (result,) = deque(run(model, request), maxlen=1)
    return result


def compare(
    model: Model,
    image: Source,
    question: str,
    pruners: Sequence[str] | Mapping[str, Pruner | Selection | LayerPlan] = ("spare", "cdpruner"),
    budget: float | str = 64,
    max_new_tokens: int = 64,
    seed: int = 0,
    aspect: Aspect | None = None,
    relevance: RelevanceOptions = RelevanceOptions(),
    together: bool = False,
) -> Result:
    """Ask one question of one picture; the arguments are the fields of `Request`.

    Raises as `Request` and `run` do.
    """
    request = Request(
        image, question, pruners, budget, max_new_tokens, seed, aspect, relevance, together
    )
    return finish(model, request)
