"""What the tests of the page ask, as its controls make it, and visits changed by hand."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from collections.abc import Iterable
from html import unescape
from typing import Any

import numpy as np

from spare_demo.comparison.request import Request
from spare_demo.ui.guide import Guide, methods_by_slot
from spare_demo.ui.handler_wrappers import with_refusals
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.visit import Visit

QUESTION = "Which number is written on the small triangle?"


def page_request(
    path: str | None,
    question: str,
    method_a: str = "spare",
    method_b: str = "cdpruner",
    seed: int = 0,
    **options: Any,
) -> Request:
    """A request with methods by slot, of short answers."""
    methods = methods_by_slot(method_a, method_b, seed)
    chosen = {"budget": 5, "max_new_tokens": 3, "seed": seed} | options
    return Request(path, question, methods, **chosen)  # type: ignore[arg-type]


def headline_text(html: str) -> str:
    """The headline's words, out of its element."""
    (words,) = re.findall(r'<p class="headline"[^>]*>(.*?)</p>', html)
    return unescape(words)


def answered(guide: Guide, visit: Visit, budget: int = 5) -> Visit:
    """The visit after all its answers."""
    *_, last = guide.answer(visit, budget)
    return last


def merged(steps: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """All that an event changes, its later steps over its earlier ones."""
    return {name: value for step in steps for name, value in step.items()}


def unpacked(sent: dict[str, str] | np.ndarray) -> list:
    """An array's numbers, from a comparison's file or from a message."""
    if isinstance(sent, np.ndarray):
        return sent.tolist()
    return np.frombuffer(base64.b64decode(sent["data"]), f"<{sent['type']}").tolist()


def with_result(visit: Visit, **changes: Any) -> Visit:
    """The visit with some fields of its result changed."""
    return dataclasses.replace(visit, result=dataclasses.replace(visit.result, **changes))


def controls(path: str | None, question: str, **other: Any) -> dict[str, Any]:
    """What the page's controls say when Ask is pressed."""
    return {
        "image": path,
        "question": question,
        "method_a": "spare",
        "method_b": "cdpruner",
        "seed": 0,
        "aspect": "pad",
        "relevance_layer": -2,
        "relevance_text": "stretches",
        "guidance_text": "clip",
        "together": False,
        "positions": None,
        "budget": 5,
    } | other


def finished_answers(html: str) -> int:
    """How many of the answers in the page's HTML are finished: those with a time."""
    return len(re.findall(r"prefill(?:</span>)? [0-9]", html))


def page_reply(handlers: Handlers, name: str, visit: Visit, **asked: Any) -> dict[str, Any]:
    """What the page's script gets when it asks for this about a visit."""
    (change,) = with_refusals(getattr(handlers.replies, name), place="file")(asked, visit)
    return json.loads(change["reply"])
