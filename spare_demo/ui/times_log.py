"""A line of JSON for each turn at the model: how long its stages took, and nothing of what was
asked. Written where `show_times` was called.

`seconds` in a line are wall times: `wait` in the queue, `total` from the turn's begin to its end,
and of the stages that ran in this turn what `Result` and `Answer` say of them. What `total` has
beside the stages goes to reading the picture, drawing and sending. Answers that are made together
share the steps of their decoding: each of them carries all steps that it took part in.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from spare_demo.comparison.result import Result
from spare_demo.models import Answer, View
from spare_demo.models.generate.passes import DeviceElsewhere
from spare_demo.ui.gradio_compat.queue import seconds_in_queue
from spare_demo.ui.steps import Handler
from spare_demo.ui.visit import Visit

ALL_STAGES = ("encode", "relevance", "select")
"""What runs before the answers of a picture that nobody asked about before."""

_log = logging.getLogger(__name__)


def show_times() -> None:
    """Write the lines to standard error from now on."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    _log.handlers, _log.propagate = [handler], False
    _log.setLevel(logging.INFO)


@contextmanager
def logged_turn(event: str, model: str) -> Iterator[dict[str, Any]]:
    """Log the turn that the body of the `with` statement takes, once it ends.

    event: what was asked for. model: the name of who answers.

    Yields the line's fields, to be updated with those that `fields_of_…` give. `end` in the line
    is "finished", "refused" where an exception ended the turn, or "left" where nobody reads on.
    """
    line: dict[str, Any] = {"event": event, "model": model, "end": "finished", "seconds": {}}
    wait, start, ends_here = seconds_in_queue(), time.perf_counter(), True
    try:
        yield line
    except BaseException as error:
        # Else the turn begins again where the device is, and is logged there.
        ends_here = not isinstance(error, DeviceElsewhere)
        line["end"] = "left" if isinstance(error, GeneratorExit) else "refused"
        raise
    finally:
        if ends_here:
            total = time.perf_counter() - start
            seconds = {"wait": wait, **line.pop("seconds"), "total": total}
            _log.info(json.dumps({**line, "seconds": _rounded(seconds)}))


def with_times(handler: Handler, event: str, model: str) -> Handler:
    """The handler of an event of the page, its turns logged where `show_times` was called before.
    Inputs by name, `visit` among them."""
    if not _log.isEnabledFor(logging.INFO):
        return handler

    def run(**inputs: Any) -> Iterator[dict[str, Any]]:
        before: Visit | None = inputs.get("visit")
        with logged_turn(event, model) as line:
            first: Visit | None = None  # of this turn: its answers were there already
            for values in handler(**inputs):
                visit: Visit | None = values.get("visit")
                if visit is not None:
                    first = first or visit
                    looked = before is None or visit.exploration is not before.exploration
                    old, now = first.result.answers, visit.result.answers
                    made = {label: now[label] for label in now if old.get(label) is not now[label]}
                    line.update(fields_of_result(visit.result, visit.ran if looked else (), made))
                yield values

    return run


def fields_of_result(
    result: Result, ran: tuple[str, ...], answers: Mapping[str, Answer]
) -> dict[str, Any]:
    """What a line says of a result.

    ran: which of "encode", "relevance" and "select" ran in this turn. answers: those made in it.
    """
    stages: dict[str, Any] = {
        "encode": result.encode_seconds,
        "relevance": result.relevance_seconds,
        "select": dict(result.select_seconds),
    }
    return {
        "methods": [record.name for record in result.methods.values()],
        "budget": result.budget,
        "visual_tokens": result.visual_tokens,
        "seconds": {**{name: stages[name] for name in ran}, **seconds_of_answers(answers)},
    }


def fields_of_view(view: View) -> dict[str, Any]:
    """What a line says of a picture and a question that were both encoded in this turn."""
    seconds = {"encode": view.picture.encode_seconds, "relevance": view.relevance_seconds}
    return {"visual_tokens": view.tokens.n, "seconds": seconds}


def seconds_of_answers(answers: Mapping[str, Answer]) -> dict[str, dict[str, float]]:
    """Prefill and decoding of each answer, by label; empty without answers."""
    if not answers:
        return {}
    return {
        "prefill": {label: answer.prefill_seconds for label, answer in answers.items()},
        "decode": {label: answer.decode_seconds for label, answer in answers.items()},
    }


def _rounded(value: Any) -> Any:
    """Seconds to a tenth of a millisecond, by themselves or by name."""
    if isinstance(value, Mapping):
        return {name: _rounded(item) for name, item in value.items()}
    return value if value is None else round(value, 4)
