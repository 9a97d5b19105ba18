"""Parts of a page: classes of Gradio's with other members, and the files they show."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import gradio as gr
from gradio.processing_utils import save_bytes_to_cache

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


def write_to_cache(part: gr.HTML, data: bytes, name: str) -> str:
    """The path of a new file in Gradio's cache, which the page may read for some hours.

    part: of the page itself; files of a visitor's copy of a part are never cleared.
    """
    path = save_bytes_to_cache(data, name, part.GRADIO_CACHE)
    part.temp_files.add(path)
    return path


def keep_in_cache(part: gr.HTML, path: str) -> None:
    """Keep a file of `write_to_cache` for as long as the page is served."""
    part.keep_in_cache.add(path)
