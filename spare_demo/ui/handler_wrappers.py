"""What stands around each handler of the page: visits for their keys, files for what it makes, and
sentences for what goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from spare_demo.ui import panels
from spare_demo.ui.errors import sentence
from spare_demo.ui.steps import Handler, PageChanges
from spare_demo.ui.viewer import write_comparison, write_file
from spare_demo.ui.wire import to_numbered_json


def with_refusals(handler: Handler, place: str = "message", asked: str = "") -> Handler:
    """What goes wrong becomes a sentence in a place on the page; the rest stays as it is.

    place: "file" for the one beside the button of a file, which waits for a reply (js/cite.js).
    asked: the kind of reply that js/core.js waits for: it is told that there will be none.
    """

    def run(*inputs: Any, **controls: Any) -> Iterator[PageChanges]:
        try:
            yield from handler(*inputs, **controls)
        except Exception as error:
            words = sentence(error)
            if place == "file":
                yield {"reply": to_numbered_json("refused", sentence=words)}
            else:
                yield {place: panels.message_html(words)}
            if asked:
                yield {"reply": to_numbered_json("unanswered", asked=asked)}

    return run


def with_page(
    handler: Handler,
    find: Callable[[Any], Any],
    place: str = "message",
    asked: str = "",
) -> Handler:
    """The handler with the visits in the place of their keys, and what it writes in files.

    find: a method of `OpenVisits`. place and asked: see `with_refusals`, which has what goes wrong
    here, too.
    """

    def run(*inputs: Any, **controls: Any) -> Iterator[PageChanges]:
        found = {name: find(value) for name, value in controls.items()}
        for values in handler(*map(find, inputs), **found):
            if "stage" in values:
                values = values | {"stage": write_comparison(values["stage"])}
            if "file" in values:
                values = {"reply": write_file(values["file"])}
            yield values

    return with_refusals(run, place, asked)
