"""How a handler's steps reach the visitor."""

from __future__ import annotations

import copy
import errno
from collections.abc import Sequence
from typing import Any

import gradio as gr
from gradio.blocks import Block
from gradio.utils import deep_hash

from spare_demo.ui.errors import fault_sentence, log_refusal
from spare_demo.ui.gradio_compat.sessions import forget_state

_UNREAD = (
    "What was sent could not be read. A picture is uploaded as a file, and sent by the name that "
    "this gives."
)


def say_what_went_wrong(demo: gr.Blocks) -> None:
    """Let what goes wrong before and after a handler reach the caller as a sentence, too.

    Gradio sends nothing of it and prints a traceback, also for each of its own refusals. Inputs
    marked as `optional` have their value where a list of inputs ends before them.

    Of who called a public operation no state is left: Gradio keeps a copy of the page for each
    caller, and programs do not say when they leave.
    """
    process, preprocess = demo.process_api, demo.preprocess_data

    async def preprocess_or_refuse(*given: Any, **named: Any) -> list[Any]:
        try:
            return await preprocess(*given, **named)
        except gr.Error:
            raise
        except (ValueError, TypeError, LookupError, OSError) as error:
            if isinstance(error, OSError) and error.errno != errno.ENAMETOOLONG:
                raise
            log_refusal(error)  # without its words, which hold what was sent
            raise gr.Error(_UNREAD, print_exception=False) from None

    async def process_or_refuse(block_fn: Any, inputs: Any, *more: Any, **named: Any) -> Any:
        event = demo.fns[block_fn] if isinstance(block_fn, int) else block_fn
        try:
            left_out: Sequence[Any] = event.inputs[len(inputs) :]
            if left_out and all(getattr(part, "optional", False) for part in left_out):
                inputs = [*inputs, *(part.value for part in left_out)]
            if len(inputs) < len(event.inputs):
                names = ", ".join(str(getattr(part, "label", None)) for part in event.inputs)
                raise gr.Error(
                    f"{len(inputs)} inputs were sent, and {len(event.inputs)} are needed: {names}.",
                    print_exception=False,
                )
            return await process(block_fn, inputs, *more, **named)
        except gr.Error as error:
            error.print_exception = False
            raise
        except Exception as error:
            raise gr.Error(fault_sentence(error), print_exception=False) from None
        finally:
            if event.api_visibility == "public" and (session := named.get("session_hash")):
                forget_state(demo, session)

    demo.preprocess_data = preprocess_or_refuse  # type: ignore[method-assign]
    demo.process_api = process_or_refuse  # type: ignore[method-assign]


def send_changes_only(demo: gr.Blocks) -> None:
    """Let each step of a handler work on the parts that it changes, and on no other.

    Of every output that a handler does not name Gradio makes the part anew, and its settings twice,
    only to send that nothing changed.
    """
    process = demo.postprocess_data

    async def process_changes(block_fn: Any, values: Any, state: Any) -> list[Any]:
        outputs = block_fn.outputs
        if not isinstance(values, dict) or not all(isinstance(part, Block) for part in values):
            return await process(block_fn, values, state)
        changed = copy.copy(block_fn)
        changed.outputs = [part for part in outputs if part in values]
        if len(changed.outputs) != len(values) or not values:
            return await process(block_fn, values, state)  # which says what is wrong
        only = values[changed.outputs[0]] if len(values) == 1 else values
        sent = dict(zip(changed.outputs, await process(changed, only, state), strict=True))
        return [sent.get(part, None if part.stateful else gr.skip()) for part in outputs]

    demo.postprocess_data = process_changes  # type: ignore[assignment]


def track_known_states(demo: gr.Blocks) -> None:
    """Fix which states start an event when they change: those that do when the page is built.

    Gradio looks for them at every event, among all events of the visitor. A panel that is being
    made in another thread adds to these, and the event then ends in an error.
    """
    targets = (target for fn in demo.fns.values() for target in fn.targets)
    known = {part for part, trigger in targets if trigger == "change"}

    def states_to_track(block_fn: Any, state: Any) -> tuple[list[int], list[Any]]:
        parts = block_fn.outputs if state is not None else []
        tracked = [part._id for part in parts if part.stateful and part._id in known]
        return tracked, [deep_hash(state[part]) for part in tracked]

    demo.get_state_ids_to_track = states_to_track  # type: ignore[method-assign]
