"""What events of the page share: their options, and runs in steps, which Stop can end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

from gradio.events import Dependency

from spare_demo.ui.gradio_compat.queue import handler_that_ends

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
"""Options of an event that shows no progress and is none of the API."""

ANSWERING: dict[str, Any] = {"concurrency_id": "model", "concurrency_limit": 1}
"""Options of an event that runs the model: one turn at it, the rest queue and see their place."""

Button = Literal["ask", "run"]
"""What begins runs: Ask and its like, or Run in the Lab; as `js/runs.js` names it."""


def begin_on(
    event: Callable[..., Dependency],
    handler: Callable[..., Iterator[Any]],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    button: Button,
    **options: Any,
) -> Dependency:
    """Let an event begin a run of the handler; until it ends, Stop stands in the button's place.

    The page sees to that by itself. The server's word would come a journey later, and Gradio's
    page may show the last step of one run after that of the next.

    event: wired after whatever else the same event does: Gradio's page comes to what is wired
        later only when the run is over.
    """
    begins = f"(...inputs) => {{ SPARE.runs.{button}.begin(); return inputs; }}"
    ends = f"SPARE.runs.{button}.end();"
    options = QUIET | {"show_progress": "minimal"} | options
    run = event(handler, inputs, outputs, js=begins, **options)
    run.then(None, None, None, js=f"() => {{ {ends} }}", **QUIET)
    # After a run that failed, maybe because another model's page comes, Gradio calls only this one.
    run.failure(None, None, None, js=f"() => {{ {ends} SPARE.awaitModel?.(60); }}", **QUIET)
    return run


def stop_on(
    event: Callable[..., Dependency],
    runs: Sequence[Dependency],
    handler: Callable[..., Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    button: Button,
) -> Dependency:
    """Let an event end these runs of its visitor, and the handler show what they had found.

    In two steps, so that nothing of a run comes after what the handler shows.
    """
    stop = f"() => {{ SPARE.runs.{button}.stop(); return []; }}"
    stopped = f"() => {{ SPARE.runs.{button}.stopped(); }}"
    ended = event(handler_that_ends(runs), None, None, js=stop, queue=False, **QUIET)
    shown = ended.then(handler, inputs, outputs, queue=False, **QUIET)
    shown.then(None, None, None, js=stopped, **QUIET)
    return shown


def in_steps(steps: Iterable[dict[str, Any]], again: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The steps of a run; the end brings what ``again`` got last.

    Gradio sends a step as its difference from the one before, and its page applies that to an
    object which may still wait to be shown. So of two steps in one moment the first can lose what
    it gave a picture or a menu; text is never lost. Where ``again`` got nothing an empty step comes
    last: without it Gradio would send the step before twice, and after a run without steps it
    would empty all parts.
    """
    last: dict[str, Any] = {}
    for changes in steps:
        for name in set(again) & set(changes):
            change = changes[name]
            # Gradio takes the value out of the dictionary that `gr.update` made.
            last[name] = dict(change) if isinstance(change, dict) else change
        yield changes
    yield last
