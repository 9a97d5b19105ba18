"""Values as bytes that may leave their process: data alone, and tensors by value on the CPU.

What cannot live in another process does not get there: a function that was made inside another one
becomes a `FarFunction`, a visit a `VisitData`, a photo is read from its file again, and a model is
refused.
"""

from __future__ import annotations

import dataclasses
import io
import math
import pickle
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from spare_demo.comparison.selections import Exploration
from spare_demo.models import Model
from spare_demo.models.generate.passes import DeviceElsewhere
from spare_demo.render.canvas import Canvas
from spare_demo.ui.visit import Visit

_PHOTO = "photo"


@dataclass(frozen=True)
class VisitData:
    """A visit as data: which file, what was asked, and what came of it.

    Attributes:
        fields: of the visit, without canvas and exploration; the image of its request is the path
            of the file, and its result has no photo and no view.
    """

    fields: dict[str, Any]

    @classmethod
    def of(cls, visit: Visit) -> VisitData:
        """A visit without its pictures and features."""
        request = dataclasses.replace(visit.request, image=visit.path)
        result = dataclasses.replace(visit.result, photo=None, view=None)  # type: ignore[arg-type]
        fields = vars(visit) | {"request": request, "result": result}
        return cls({n: v for n, v in fields.items() if n not in ("canvas", "exploration")})

    def restore(self, canvas: Canvas, exploration: Exploration) -> Visit:
        """The visit, with what the model made of its picture."""
        view = exploration.view
        request = dataclasses.replace(self.fields["request"], image=view.photo)
        result = dataclasses.replace(self.fields["result"], photo=view.photo, view=view)
        made = {"canvas": canvas, "exploration": exploration, "request": request, "result": result}
        return Visit(**(self.fields | made))


class FarFunction:
    """Stands for a function that stayed behind, such as one that reads the vision tower."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Raises DeviceElsewhere: whatever wanted it is to run where the function is."""
        raise DeviceElsewhere


def pack(value: Any, photo: Image.Image | None = None) -> bytes:
    """The value as bytes for `unpack`; `photo` is left out of it.

    Raises:
        TypeError: it holds a model, a module or a picture of no known file.
        Exception: what pickle raises of values that are no data, such as locks and open files.
    """
    file = io.BytesIO()
    _Packer(file, photo).dump(value)
    return file.getvalue()


def unpack(data: bytes, photo: Image.Image | None = None) -> Any:
    """What `pack` was given; photo: the one that was left out."""
    return _Unpacker(io.BytesIO(data), photo).load()


class _Packer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, photo: Image.Image | None) -> None:
        super().__init__(file, protocol=5)
        self._photo = photo

    def persistent_id(self, value: Any) -> str | None:
        return _PHOTO if value is self._photo and value is not None else None

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return _tensor, (_bytes_of(value), value.dtype, tuple(value.shape))
        if isinstance(value, FunctionType) and "<" in value.__qualname__:  # <locals>, <lambda>
            return FarFunction, ()
        if isinstance(value, Visit):
            return VisitData, (VisitData.of(value).fields,)
        if isinstance(value, Model | nn.Module | Image.Image):
            raise TypeError(f"A {type(value).__name__} cannot leave its process.")
        return NotImplemented


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, photo: Image.Image | None) -> None:
        super().__init__(file)
        self._photo = photo

    def persistent_load(self, name: str) -> Image.Image | None:
        return self._photo


def _bytes_of(tensor: Tensor) -> bytes:
    """Its own numbers and no others of its storage; numpy has no bfloat16, so as bytes."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()


def _tensor(data: bytes, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    if not math.prod(shape):
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)
