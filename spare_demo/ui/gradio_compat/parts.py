"""Classes of Gradio's with other members, and handlers that see all of an event."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import gradio as gr

PartT = TypeVar("PartT")


def kind_of(base: type[PartT], **members: Any) -> type[PartT]:
    """A class of Gradio's with other members; its page takes it for the class itself.

    A class, because Gradio makes a visitor's parts anew from their class: what is changed on one
    part alone is gone after the first step that passes it over. By this way round Gradio's own
    making of classes, because that writes a file of types beside the source.
    """
    members["__module__"] = base.__module__
    return ABCMeta.__new__(type(base), base.__name__, (base,), members)


# They hand over what was typed: the handlers' refusals say what to do next.
NumberAsSent = kind_of(gr.Number, preprocess=lambda self, payload: payload)
SliderAsSent = kind_of(gr.Slider, preprocess=lambda self, payload: payload)


def with_event_data(handler: Callable[[Mapping[str, Any], Any], dict]) -> Callable[..., dict]:
    """The handler with what the page's script sent as its first input.

    Gradio offers the fields of an event as attributes (gradio-app/gradio#12967), and no way to ask
    which there are.
    """

    def run(visit: Any, event: gr.EventData) -> dict:
        return handler(event._data or {}, visit)

    return run
