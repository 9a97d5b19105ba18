"""The API's operations as tools of an MCP server, which is Gradio's own."""

from __future__ import annotations

from importlib.util import find_spec

import gradio as gr

from spare_demo.ui.gradio_compat.operations import send_json_over_mcp

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
    if not send_json_over_mcp(demo):
        raise ValueError(MISSING)
