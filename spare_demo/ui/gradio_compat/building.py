"""Gradio's part in building a page, in two thirds of the time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from gradio.routes import App


@contextmanager
def without_unserved_apps() -> Iterator[None]:
    """Pages that are built meanwhile get no app of Gradio's.

    Gradio makes one when a page begins, one when it is laid out, one when it gets its queue, and
    one when it is launched. Only the last is ever served, and each takes a quarter of a second.
    """
    with patch.object(App, "create_app", lambda *_, **__: None):
        yield
