"""Classes of Gradio's with other members, and handlers that see all of an event.

The picture input takes the files that a visitor uploaded, and nothing else.
"""

from __future__ import annotations

import functools
from abc import ABCMeta
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import gradio as gr
from gradio.data_classes import ImageData
from gradio.utils import get_upload_folder, is_in_or_equal
from pydantic import Field

from spare_demo.ui.errors import sentence

PartT = TypeVar("PartT")


def kind_of(base: type[PartT], **members: Any) -> type[PartT]:
    """A class of Gradio's with other members; its page takes it for the class itself.

    Gradio makes a visitor's parts anew from their class: what is changed on one part alone is gone
    after the first step that passes it over. `__new__` of Gradio's metaclass is passed by: it would
    write a file of types beside the source.
    """
    members["__module__"] = base.__module__
    return ABCMeta.__new__(type(base), base.__name__, (base,), members)


# They hand over what was typed: the handlers' refusals say what to do next.
NumberAsSent = kind_of(gr.Number, preprocess=lambda self, payload: payload)
SliderAsSent = kind_of(gr.Slider, preprocess=lambda self, payload: payload)
# Of choices that change, the page may send one that is gone: Gradio would refuse the whole event.
DropdownAsSent = kind_of(gr.Dropdown, preprocess=lambda self, payload: payload)
RadioAsSent = kind_of(gr.Radio, preprocess=lambda self, payload: payload)


def _text_as_sent(box: gr.Textbox, payload: Any) -> str | None:
    """Gradio would make a text of a list or an object, for the model to answer."""
    if payload is not None and not isinstance(payload, str):
        raise gr.Error(f"{box.label} must be text. Send it in quotes.", print_exception=False)
    return payload


def _tick_as_sent(box: gr.Checkbox, payload: Any) -> bool:
    """To Gradio the text "false" is a tick."""
    if payload not in (None, False, True):
        raise gr.Error(f"{box.label} must be true or false.", print_exception=False)
    return bool(payload)


TextAsSent = kind_of(gr.Textbox, preprocess=_text_as_sent)
TickAsSent = kind_of(gr.Checkbox, preprocess=_tick_as_sent)


_NO_FILE = (
    "Send the picture as a file: in Python image=handle_file('photo.png'), with handle_file from "
    'gradio_client; otherwise upload it to /gradio_api/upload and send {"path": …} with the name '
    "that the upload returns."
)


class _SentPicture(ImageData):
    """A picture as a program sends it. Those who send something else learn how it is done."""

    path: str | None = Field(default=None, description="The name that /gradio_api/upload gave")
    url: str | None = Field(default=None, description="Not read: nothing is fetched")

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> _SentPicture:
        try:
            picture = super().model_validate(obj, **options)
        except ValueError:  # its words hold what was sent
            picture = cls()
        if not picture.path:
            raise gr.Error(_NO_FILE, print_exception=False)
        return picture


async def _keep_uploads(image: gr.Image, url_or_file_path: str | Path | None) -> str | None:
    """Gradio would download an address of any length and kind for whoever names it."""
    path = str(url_or_file_path)
    if path.startswith(("http://", "https://")):
        url_or_file_path = _uploaded(path)
        if url_or_file_path is None:
            raise gr.Error(
                "Send the picture itself (over MCP as data:image/png;base64,…): this page "
                "fetches nothing from addresses.",
                print_exception=False,
            )
    return await gr.Image.async_move_resource_to_block_cache(image, url_or_file_path)


def _uploaded(address: str) -> str | None:
    """The file that this address names, if it was uploaded here: programs name uploads so."""
    path = unquote(urlsplit(address).path.partition("/gradio_api/file=")[2])
    return path if _is_upload(path) else None


def _uploaded_path(image: gr.Image, payload: ImageData | None) -> str | None:
    """The file a visitor uploaded. Gradio checks only payloads that carry its own mark.

    Any other file of this machine is refused, in the same words whether it exists or not, and so
    is whatever is no regular file: a device or a pipe would be read without end.
    """
    path = payload.path if payload else None
    if path and not _is_upload(path):
        raise gr.Error("The picture could not be opened. Choose it again.", print_exception=False)
    return path


def _is_upload(path: str) -> bool:
    try:
        return is_in_or_equal(path, get_upload_folder()) and Path(path).is_file()
    except (OSError, ValueError):  # a name too long, or with a null character
        return False


_Photo = kind_of(
    gr.Image,
    data_model=_SentPicture,
    preprocess=_uploaded_path,
    async_move_resource_to_block_cache=_keep_uploads,
)


def photo_input(**options: Any) -> gr.Image:
    """Gradio's picture input, handing over the file as it was uploaded.

    Its own preparation (gradio-app/gradio#8412) opens the picture before anyone could look at its
    size, and refuses kinds that `images.load.open_picture` can read.
    """
    return _Photo(type="filepath", **options)


def with_event_data(handler: Callable[[Mapping[str, Any], Any], dict]) -> Callable[..., dict]:
    """The handler with what the page's script sent as its first input.

    Gradio offers the fields of an event as attributes (gradio-app/gradio#12967), and no way to ask
    which there are.
    """

    def run(visit: Any, event: gr.EventData) -> dict:
        return handler(event_data(event), visit)

    return run


def event_data(event: gr.EventData) -> Mapping[str, Any]:
    """What the page sent with an event; nothing where it is no object."""
    return event._data if isinstance(event._data, dict) else {}


def with_toast(handler: Callable[..., Any]) -> Callable[..., Any]:
    """The handler; what goes wrong becomes a sentence in the corner of the page."""

    @functools.wraps(handler)
    def run(*inputs: Any) -> Any:
        try:
            return handler(*inputs)
        except Exception as error:
            raise gr.Error(sentence(error), print_exception=False) from None

    return run
