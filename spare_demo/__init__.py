"""SPARE demo: look inside visual token pruning.

The public names are imported when they are first asked for, so that the methods
(`PRUNERS`) can be used without loading transformers, open_clip or Gradio.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spare_demo.comparison.pipeline import compare as compare
    from spare_demo.comparison.pipeline import run as run
    from spare_demo.comparison.request import Request as Request
    from spare_demo.comparison.result import Result as Result
    from spare_demo.integrations.prune import prune as prune
    from spare_demo.models import load_model as load_model
    from spare_demo.pruners import PRUNERS as PRUNERS
    from spare_demo.results.export import write_files as write_files
    from spare_demo.results.io import read_result as read_result
    from spare_demo.tokens import Selection as Selection
    from spare_demo.tokens import VisualTokens as VisualTokens
    from spare_demo.ui.saved_page import saved_page as saved_page

__version__ = "0.1.0"

_HOME = {
    "PRUNERS": "spare_demo.pruners",
    "VisualTokens": "spare_demo.tokens",
    "Selection": "spare_demo.tokens",
    "load_model": "spare_demo.models",
    "Request": "spare_demo.comparison.request",
    "Result": "spare_demo.comparison.result",
    "compare": "spare_demo.comparison.pipeline",
    "run": "spare_demo.comparison.pipeline",
    "prune": "spare_demo.integrations.prune",
    "read_result": "spare_demo.results.io",
    "saved_page": "spare_demo.ui.saved_page",
    "write_files": "spare_demo.results.export",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    """Import a public name from its home module on first use (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'spare_demo' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
