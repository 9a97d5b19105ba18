"""The API's operations as tools of an MCP server, which is Gradio's own."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

import gradio as gr

MISSING = (
    "The MCP server needs a package that is not here, or here in a version that Gradio does not "
    "know. Install it: pip install 'gradio[mcp]'"
)


def check() -> None:
    """Raises ValueError, with a sentence to show, where the package is missing."""
    if find_spec("mcp") is None:
        raise ValueError(MISSING)


def speak_json(demo: gr.Blocks) -> None:
    """Results as JSON; Gradio itself sends what Python prints of them.

    demo: launched with `mcp_server`. Raises ValueError where Gradio went on without it.
    """
    server = demo.mcp_server_obj
    if not demo.mcp_server or server is None:
        raise ValueError(MISSING)
    told = server.postprocess_output_data

    def as_json(data: Any, root_url: str) -> list:
        return told([json.dumps(value, ensure_ascii=False) for value in data], root_url)

    server.postprocess_output_data = as_json  # type: ignore[method-assign]
