"""How a handler's steps reach the visitor."""

from __future__ import annotations

import copy
import errno
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any

import gradio as gr
from gradio.blocks import Block
from gradio.utils import deep_hash

from spare_demo.ui.errors import fault_sentence, log_refusal
from spare_demo.ui.gradio_compat.sessions import forget_state

_UNREAD = (
    "What was sent could not be read. Upload a picture as a file first, then send the name that "
    "the upload returns."
)


_NOT_OFFERED = "What was chosen is not offered here any more. Load the page again and choose again."


class Page(gr.Blocks):
    """A page whose visitors learn what goes wrong, and get of each step no more than it changes."""

    model_name = ""
    """The name of the model that answers here, for `/health`."""
    preview: Any = None
    """The `Preview` of `document_head.py`, where there is one."""
    kept_files: Collection[str] = ()
    """Of Gradio's cache, those that the page was made with."""
    jobs: Sequence[Callable[[], object]] = ()
    """Quick ones, each called every minute while the page is served."""

    async def preprocess_data(self, *given: Any, **named: Any) -> list[Any]:
        """Let what goes wrong before a handler reach the caller as a sentence.

        Gradio sends nothing of it and prints a traceback, also for each of its own refusals. Those
        show lists and types of Python's.
        """
        try:
            return await super().preprocess_data(*given, **named)
        except gr.Error as error:
            if not error.print_exception:  # this page's own sentence
                raise
            log_refusal(error)
            raise gr.Error(_NOT_OFFERED, print_exception=False) from None
        except (ValueError, TypeError, LookupError, OSError) as error:
            if isinstance(error, OSError) and error.errno != errno.ENAMETOOLONG:
                raise
            log_refusal(error)  # without its words, which hold what was sent
            raise gr.Error(_UNREAD, print_exception=False) from None

    async def process_api(self, block_fn: Any, inputs: Any, *more: Any, **named: Any) -> Any:
        """Let what goes wrong later reach the caller as a sentence, too.

        Inputs marked as `optional` have their value where a list of inputs ends before them.

        The state of whoever called a public operation is dropped: Gradio keeps a copy of the page
        for each caller, and programs do not say when they leave.
        """
        event = self.fns[block_fn] if isinstance(block_fn, int) else block_fn
        try:
            if event.fn is None:  # the browser's own; an earlier server's page has other numbers
                raise gr.Error(_NOT_OFFERED, print_exception=False)
            left_out: Sequence[Any] = event.inputs[len(inputs) :]
            if left_out and all(getattr(part, "optional", False) for part in left_out):
                inputs = [*inputs, *(part.value for part in left_out)]
            if len(inputs) < len(event.inputs):
                needed = [part for part in event.inputs if not getattr(part, "optional", False)]
                names = ", ".join(str(getattr(part, "label", "")) for part in needed)
                raise gr.Error(f"Too few inputs were sent. Send {names}.", print_exception=False)
            return await super().process_api(block_fn, inputs, *more, **named)
        except gr.Error as error:
            error.print_exception = False
            raise
        except Exception as error:
            raise gr.Error(fault_sentence(error), print_exception=False) from None
        finally:
            if event.api_visibility == "public" and (session := named.get("session_hash")):
                forget_state(self, session)

    async def postprocess_data(self, block_fn: Any, values: Any, state: Any) -> list[Any]:
        """Let each step of a handler work on the parts that it changes, and on no other.

        Of every output that a handler does not name Gradio makes the part anew, and its settings
        twice, only to send that nothing changed.
        """
        process, outputs = super().postprocess_data, block_fn.outputs
        if not isinstance(values, dict) or not all(isinstance(part, Block) for part in values):
            return await process(block_fn, values, state)
        changed = copy.copy(block_fn)
        changed.outputs = [part for part in outputs if part in values]
        if len(changed.outputs) != len(values) or not values:
            return await process(block_fn, values, state)  # which says what is wrong
        only = values[changed.outputs[0]] if len(values) == 1 else values
        sent = dict(zip(changed.outputs, await process(changed, only, state), strict=True))
        return [sent.get(part, None if part.stateful else gr.skip()) for part in outputs]

    def forget_visitor(self, request: gr.Request) -> None:
        """Drop the state of who closes the page."""
        if request.session_hash:
            forget_state(self, request.session_hash)

    @cached_property
    def _known_states(self) -> set[int]:
        """Those that start an event when they change."""
        targets = (target for fn in self.fns.values() for target in fn.targets)
        return {part for part, trigger in targets if part is not None and trigger == "change"}

    def get_state_ids_to_track(self, block_fn: Any, state: Any) -> tuple[list[int], list[Any]]:
        """Those of `_known_states`, by their hashes.

        Gradio looks for them at every event, among all events of the visitor. A panel that is being
        made in another thread adds to these, and the event then ends in an error.
        """
        parts = block_fn.outputs if state is not None else []
        tracked = [p._id for p in parts if p.stateful and p._id in self._known_states]
        return tracked, [deep_hash(state[part]) for part in tracked]
