"""What events of the page share: their options, and runs in steps of which none is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
"""Options of an event that shows no progress and is none of the API."""

# In the page itself: the server's word would be a journey more before the handler is asked.
BUSY = """() => [{__type__: 'update', visible: false}, {__type__: 'update', visible: true}]"""
"""What the button that begins a run, and the one that stops it, are while it waits or runs."""

IDLE = """() => {
    SPARE.awaitModel?.(60);
    return [{__type__: 'update', visible: true}, {__type__: 'update', visible: false}];
}"""
"""What they are after a run that broke off, maybe because another model's page comes."""


def in_steps(
    steps: Iterable[dict[str, Any]],
    busy: dict[str, Any],
    idle: dict[str, Any],
    again: tuple[str, ...],
) -> Iterator[dict[str, Any]]:
    """``steps`` between ``busy`` and ``idle``, which brings ``again`` what these parts got last.

    Gradio sends a step as its difference from the one before, and its page works that into the
    very object which may still wait to be shown: of two steps in one moment, what the first one
    gave a picture or a menu is gone. Text is safe from it. The last step is sent whole once more
    when the run ends.
    """
    yield busy
    last: dict[str, Any] = {}
    for changes in steps:
        for name in set(again) & set(changes):
            change = changes[name]
            # Gradio takes the value out of the dictionary that `gr.update` made.
            last[name] = dict(change) if isinstance(change, dict) else change
        yield changes
    yield last | idle
