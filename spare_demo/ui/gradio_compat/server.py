"""The server of a page: its end, its memory and its address."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import MutableMapping
from typing import Any

import gradio as gr
from fastapi.dependencies import models
from gradio import http_server
from gradio.route_utils import get_root_url
from gradio.tunneling import CURRENT_TUNNELS
from starlette.requests import Request


def stop_server(demo: gr.Blocks, seconds: float) -> None:
    """End the server of a launched page. Gradio itself waits for every open connection to end.

    seconds: how long answers being sent may take to end before they are cut off.
    """
    server = getattr(demo, "server", None)  # of a page that could not be launched there is none
    if server is not None:
        # Until the next server starts: it would log a traceback for each page that is cut off.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        server.config.timeout_graceful_shutdown = seconds
        demo.close(verbose=False)
    for tunnel in CURRENT_TUNNELS:
        tunnel.kill()


def keep_sender_addresses() -> None:
    """Let a request's address be that of whoever connects, whatever it says in its headers.

    Gradio's server takes X-Forwarded-For for it where this machine itself connects, as a proxy, a
    tunnel and the MCP server do, which hand on what a visitor wrote there. To be called before it
    starts.
    """
    os.environ.setdefault("FORWARDED_ALLOW_IPS", "")  # whoever set it means it


def watch_no_sources() -> None:
    """Let a page on a Space be served without Gradio's reloader, for which the program's own file
    would have to hold the page; without the package `spaces` its thread ends in a traceback."""
    http_server.get_space = lambda: None  # type: ignore[attr-defined]


def pass_by_proxies(*hosts: str) -> None:
    """Let what this program sends to its own page go past any proxy that the environment names.

    Gradio asks the page whether it is there, which a proxy elsewhere cannot say. hosts: the page's.
    """
    others = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")  # so whoever reads them
    os.environ["no_proxy"] = ",".join(filter(None, [others, *hosts]))


def free_closed_pages() -> None:
    """Free the memory of pages that were closed.

    FastAPI keeps every function that it ever served, to know its kind, and each holds its page.
    """
    for value in vars(models).values():
        if hasattr(value, "cache_clear"):
            value.cache_clear()
    gc.collect()


def page_address(scope: MutableMapping[str, Any]) -> str:
    """The address of the page as its visitors reach it, also through a proxy; no slash at its end.

    It is found as Gradio finds the root of everything else. scope: of a request to Gradio's app.
    """
    app = scope["app"]
    root_path = app.root_path or scope.get("root_path") or app.get_blocks().custom_mount_path
    return get_root_url(Request(scope), "/", root_path)
