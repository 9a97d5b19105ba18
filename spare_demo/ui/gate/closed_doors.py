"""Doors of Gradio's that this page has no use for."""

from __future__ import annotations

from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send

from spare_demo.ui.gate.replies import path_of, refuse

# The first writes a file at each call that nothing deletes, the second takes any video in, and the
# third fetches addresses.
_CLOSED = ("/deep_link", "/process_recording", "/proxy=")
_NOTHING = "There is nothing at this address."
_FETCHED = "This page fetches nothing from other addresses. Upload the picture itself."


class ClosedDoors:
    """ASGI middleware: refuses what writes or fetches on behalf of whoever asks."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on whatever is none of these."""
        if scope["type"] == "http":
            path = path_of(scope).removeprefix("/gradio_api")
            name = unquote(path).lower()
            if path.startswith(_CLOSED):
                return await refuse(scope, receive, send, 404, _NOTHING)
            if name.startswith(("/file=http:", "/file=https:", "/file/http:", "/file/https:")):
                return await refuse(scope, receive, send, 403, _FETCHED)
        await self.app(scope, receive, send)
