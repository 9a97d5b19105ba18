"""What Gradio keeps of each visitor, and how it is dropped or spared."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import gradio as gr
from gradio.blocks import BlocksConfig
from gradio.context import LocalContext


def forget_state(demo: gr.Blocks, session: str) -> None:
    """Drop the state of a session, which Gradio keeps for an hour (gradio-app/gradio#7829)."""
    holder = demo.state_holder
    holder.session_data.pop(session, None)
    holder.time_last_used.pop(session, None)


class _OpenLast(OrderedDict[str, Any]):
    """States by session; when there are too many, one that nobody has open goes first."""

    def __init__(self, states: Mapping[str, Any], is_open: Callable[[str], bool]) -> None:
        super().__init__(states)
        self._is_open = is_open

    def popitem(self, last: bool = True) -> tuple[str, Any]:
        """Takes out what is not open, but for the newest, which is just being made."""
        closed = (session for session in list(self)[:-1] if not self._is_open(session))
        session = next(closed, None)
        return super().popitem(last) if session is None else (session, self.pop(session))


def spare_open_pages(demo: gr.Blocks, is_open: Callable[[str], bool]) -> None:
    """Let nobody push out the visitors of open pages by making up names of sessions.

    Gradio drops what was used longest ago.
    """
    holder = demo.state_holder
    holder.session_data = _OpenLast(holder.session_data, is_open)


def current_session() -> str | None:
    """The session whose event runs here; None outside a handler."""
    return getattr(LocalContext.request.get(None), "session_hash", None)


class _PartsByNumber(dict[int, Any]):
    """A session's parts; one that takes another's place takes its number as well.

    Gradio gives a changed part a new number, and keeps it under both: one entry more at each step
    of a handler. `gr.render` fails when an entry comes while it goes through them.
    """

    def __setitem__(self, number: int, part: Any) -> None:
        part._id = number
        super().__setitem__(number, part)


class _LeanConfig(BlocksConfig):
    """A page's parts, of which the copies for sessions keep no more than is read."""

    def __copy__(self) -> BlocksConfig:
        own = super().__copy__()
        own.blocks = _PartsByNumber(own.blocks)
        own.config_for_block = _config_of_rendered  # type: ignore[method-assign]
        return own


def _config_of_rendered(
    _id: int, rendered_ids: list[int], block: Any, renderable: Any = None
) -> dict[str, Any]:
    if renderable is None:  # for a deep link, and no part that `gr.render` makes
        return {}
    return BlocksConfig.config_for_block(_id, rendered_ids, block, renderable)


def keep_sessions_lean(demo: gr.Blocks) -> None:
    """Spare a page that has no deep links what Gradio keeps for them in each session.

    The settings of all parts: to work them out stops the server for a fortieth of a second at each
    new visitor, and for less at each step. Nor is a part kept again each time that it changes.
    """
    demo.default_config.__class__ = _LeanConfig
