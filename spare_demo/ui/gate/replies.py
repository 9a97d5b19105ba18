"""How the layers read a request and refuse one."""

from __future__ import annotations

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send


def path_of(scope: Scope) -> str:
    """The path of a request, without that of the proxy it came through."""
    return str(scope["path"]).removeprefix(scope.get("root_path", "")) or "/"


async def refuse(scope: Scope, receive: Receive, send: Send, status: int, sentence: str) -> None:
    """Answer with a status and one sentence, where programs and the page look for it."""
    await JSONResponse({"detail": sentence}, status)(scope, receive, send)
