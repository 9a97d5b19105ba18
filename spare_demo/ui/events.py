"""What events of the page share: their options, and runs in steps of which none is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import gradio as gr
from gradio.events import Dependency

from spare_demo.ui.gradio_compat.queue import leaves_another

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
"""Options of an event that shows no progress and is none of the API."""

# In the page itself: the server's word would be a journey more before the handler is asked.
BUSY = """() => [{__type__: 'update', visible: false}, {__type__: 'update', visible: true}]"""
"""What the button that begins a run, and the one that stops it, are while it waits or runs."""

STOP = "() => { SPARE.stops = true; return []; }"
STOPPED = "() => { SPARE.stops = false; }"
"""Of a press on Stop, whose own answer brings the first button back, and of that answer's end."""

IDLE = """() => {
    SPARE.awaitModel?.(60);
    const idle = !SPARE.stops;  // a run begun before Stop's answer would lose its Stop to that
    return [{__type__: 'update', visible: idle}, {__type__: 'update', visible: !idle}];
}"""
"""What they are after a run that broke off, maybe because another model's page comes."""


def buttons(begin: str, running: bool) -> dict[str, Any]:
    """The button of this name, which begins a run, and "stop": only the one of use is visible."""
    return {begin: gr.update(visible=not running), "stop": gr.update(visible=running)}


def buttons_at_end(begin: str, runs: Iterable[Dependency]) -> dict[str, Any]:
    """The first button again, or nothing while another of these runs is to come for the visitor.

    Not Stop: the page may work this step in after the last one of that other run.
    """
    return {} if leaves_another(runs) else buttons(begin, running=False)


def in_steps(
    steps: Iterable[dict[str, Any]], begin: str, again: tuple[str, ...], runs: Sequence[Dependency]
) -> Iterator[dict[str, Any]]:
    """The steps of a run that the button ``begin`` began; the end brings what ``again`` got last.

    runs: the page's; the button is not back while another of them is to come for the visitor.

    Gradio sends a step as its difference from the one before, and its page works that into the
    very object which may still wait to be shown: of two steps in one moment, what the first one
    gave a picture or a menu is gone. Text is safe from it. The last step is sent whole once more
    when the run ends.
    """
    yield buttons(begin, running=True)
    last: dict[str, Any] = {}
    for changes in steps:
        for name in set(again) & set(changes):
            change = changes[name]
            # Gradio takes the value out of the dictionary that `gr.update` made.
            last[name] = dict(change) if isinstance(change, dict) else change
        yield changes
    if end := last | buttons_at_end(begin, runs):  # Gradio takes no step without a part
        yield end
