"""Gradio's import, in two thirds of the time."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch


@contextmanager
def without_type_files() -> Iterator[None]:
    """No class of parts that is made meanwhile gets a file of types, for editors, from Gradio.

    At every import it parses the source and that file of each of its own classes, to see whether
    the file is still right: two of the six seconds. It passes over a class that comes from no file.
    """
    file_of = inspect.getfile

    def file_unless_of_part(what: Any) -> str:
        if type(what).__name__ == "ComponentMeta":
            raise OSError("Gradio passes over this class.")
        return file_of(what)

    with patch.object(inspect, "getfile", file_unless_of_part):
        yield
