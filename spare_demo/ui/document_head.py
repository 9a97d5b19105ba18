"""The head of the document: what search engines, link previews and tabs show of the page.

Gradio's own head names Gradio, in a template of its package, and holds no title until scripts run.
So the document is rewritten on its way out, and two pictures lie beside it, drawn here.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from PIL import ImageOps
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from spare_demo.analysis.growth import Step
from spare_demo.render.base import png_bytes
from spare_demo.render.colours import BLUE, VERMILION, Colour
from spare_demo.render.display import Box, Display
from spare_demo.results.film import step_frame
from spare_demo.results.references import SOFTWARE_TITLE
from spare_demo.ui.gate.doors import path_of
from spare_demo.ui.gradio_compat.server import page_address
from spare_demo.ui.visit import Visit

TITLE = SOFTWARE_TITLE
DESCRIPTION = (
    "See which visual tokens of your picture a pruning method keeps, why, and what the model "
    "still answers: SPARE beside CDPruner, or any two of many methods."
)
PREVIEW_SIZE = (1200, 630)
"""In pixels; the shape in which link previews show a picture."""

_FRAMES = (Path(__file__).parent / "js/frames.js").read_text("utf-8")
# The page is in English. Gradio would put its own words in the browser's language, and tell screen
# readers to read the whole page aloud in it.
_IN_ENGLISH = "Object.defineProperty(navigator, 'language', {value: 'en'});"
_OF_GRADIO = re.compile(r'<meta\s+(?:property|name)="(?:og|twitter):[^>]*>\s*')


class Preview(NamedTuple):
    """The picture of a link preview as PNG, and what it shows."""

    png: bytes
    sentence: str


def draw_preview(visit: Visit) -> Preview:
    """What both methods keep and answer; the bare picture where neither has one set.

    visit: the comparison that a page opens on.
    """
    result = visit.result
    if result.selections:
        answers = {slot: result.answers[slot].text for slot in result.answers}
        step = Step(result.budget, result.selections, answers)
        frame = step_frame(visit.exploration, visit.canvas, visit.titles, step)
        image, sentence = frame.image, frame.sentence
    else:
        image, sentence = visit.canvas.image, f"The picture of: {result.question}"
    return Preview(png_bytes(ImageOps.pad(image, PREVIEW_SIZE, color="white")), sentence)


class DocumentHead:
    """ASGI middleware: the document with a head of its own, its icon and its preview picture.

    The document goes out compressed: it holds the whole page, 600 kB of text, without which nothing
    is shown, and Gradio compresses only what has the ending of a text in its path.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._document = GZipMiddleware(BaseHTTPMiddleware(app, _rewrite))
        drawn = icon()
        self._icons = {
            "/icon.svg": (drawn.svg.encode(), "image/svg+xml"),
            "/favicon.ico": (png_bytes(drawn.image), "image/png"),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on whatever is none of these."""
        if scope["type"] != "http" or scope["method"] != "GET":
            return await self.app(scope, receive, send)
        path = path_of(scope)
        preview = scope["app"].get_blocks().preview
        if path in self._icons:
            # A new answer each time: what compresses it changes its headers.
            content, media_type = self._icons[path]
            await Response(content, media_type=media_type)(scope, receive, send)
        elif path == "/preview.png" and preview is not None:
            await Response(preview.png, media_type="image/png")(scope, receive, send)
        elif path == "/":
            await self._document(scope, receive, send)
        else:
            await self.app(scope, receive, send)


async def _rewrite(request: Request, call_next: RequestResponseEndpoint) -> Response:
    """Wait for the whole of the document and pass it on with another head."""
    answer: Any = await call_next(request)
    body = b"".join([piece async for piece in answer.body_iterator])
    if answer.headers.get("content-type", "").startswith("text/html"):
        preview = request.app.get_blocks().preview
        body = with_head(body.decode(), page_address(request.scope), preview).encode()
        answer.headers["content-length"] = str(len(body))
    return Response(body, answer.status_code, answer.headers)


def with_head(html: str, address: str, preview: Preview | None) -> str:
    """The document with the page's own title, description, icon and link preview.

    address: of the page, without a slash at its end, as visitors reach it.
    """
    facts = {"title": TITLE, "description": DESCRIPTION}
    if preview is not None:
        facts |= {"image": f"{address}/preview.png", "image:alt": preview.sentence}
    tags = [
        '<meta charset="utf-8">',  # browsers look for it in the first 1024 bytes
        f"<title>{escape(TITLE)}</title>",
        _meta("name", "description", DESCRIPTION),
        f'<link rel="icon" type="image/svg+xml" href="{escape(address)}/icon.svg">',
        _meta("property", "og:type", "website"),
        _meta("property", "og:url", f"{address}/"),
        *(_meta("property", f"og:{name}", value) for name, value in facts.items()),
        _meta("name", "twitter:card", "summary_large_image"),
        *(_meta("name", f"twitter:{name}", value) for name, value in facts.items()),
        f"<script>{_IN_ENGLISH}\n{_FRAMES}</script>",  # before any script of Gradio's
    ]
    return _OF_GRADIO.sub("", html).replace("<head>", "<head>" + "\n".join(tags), 1)


def _meta(kind: str, name: str, content: str) -> str:
    return f'<meta {kind}="{name}" content="{escape(content)}">'


_GROUND: Colour = (35, 40, 48)
_DROPPED: Colour = (92, 98, 108)
_PATCHES = ((BLUE, _DROPPED, _DROPPED), (_DROPPED, VERMILION, BLUE), (VERMILION, _DROPPED, BLUE))
_SIDE, _GAP = 8, 2


def icon() -> Display:
    """A square of 32 units, twice as many pixels wide."""
    step = _SIDE + _GAP
    boxes = [
        Box(_GAP + column * step, _GAP + row * step, _SIDE, _SIDE, colour)
        for row, colours in enumerate(_PATCHES)
        for column, colour in enumerate(colours)
    ]
    side = _GAP + len(_PATCHES) * step
    return Display(side, side, boxes, "SPARE demo", _GROUND)
