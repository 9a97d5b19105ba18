"""How many requests of one address, and of all, may wait in the queue."""

from __future__ import annotations

from collections import Counter

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from spare_demo.ui.gate.doors import path_of, refuse
from spare_demo.ui.gradio_compat.queue import requests_in_queue

FULL = "Too many are waiting for an answer just now. Ask again in a minute."


class FairShare:
    """ASGI middleware: refuses an address that has its share in the queue, and all when full."""

    def __init__(self, app: ASGIApp, most: int, most_of_all: int, header: str) -> None:
        """most: requests of one address that may wait or run. most_of_all: how many may wait.
        header: of the proxy in front, which names the visitor's address; "" where there is none."""
        self.app, self._most, self._most_of_all, self._header = app, most, most_of_all, header
        self._entering: Counter[str] = Counter()
        self._sentence = (
            f"As many requests as one address may have ({most}) are waiting or running already. "
            "Let one of them finish, then ask again."
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on whatever does not enter the queue, and what may."""
        if not _enters_queue(scope):
            await self.app(scope, receive, send)
            return
        demo, address = scope["app"].get_blocks(), address_of(scope, self._header)
        waiting, running = requests_in_queue(demo)
        own = sum(address_of(other, self._header) == address for other in (*waiting, *running))
        if own + self._entering[address] >= self._most:
            await refuse(scope, receive, send, 429, self._sentence)
            return
        if len(waiting) + self._entering.total() >= self._most_of_all:
            await refuse(scope, receive, send, 429, FULL)
            return
        self._entering[address] += 1  # it is in no queue while its body is read
        try:
            await self.app(scope, receive, send)
        finally:
            self._entering[address] -= 1
            self._entering += Counter()  # drops those without any


def address_of(scope: Scope, header: str) -> str:
    """The address that a request came from.

    header: where a proxy writes it. Of several in it the last one counts, which the proxy itself
    added: those before it are the visitor's own words.
    """
    named = Headers(scope=scope).getlist(header) if header else []
    client = scope.get("client")
    return named[-1].split(",")[-1].strip() if named else (client[0] if client else "")


def _enters_queue(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "POST":
        return False
    path = path_of(scope).removeprefix("/gradio_api")
    return path.startswith(("/queue/join", "/call/"))
