"""Which requests come in: by where they go, from where, how large they are, and how many wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from urllib.parse import unquote, urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spare_demo.settings import OWN_ADDRESSES
from spare_demo.ui.gradio_compat.queue import requests_in_queue


def path_of(scope: Scope) -> str:
    """The path of a request, without that of the proxy it came through."""
    return str(scope["path"]).removeprefix(scope.get("root_path", "")) or "/"


async def refuse(scope: Scope, receive: Receive, send: Send, status: int, sentence: str) -> None:
    """Answer with a status and one sentence, where programs and the page look for it."""
    await JSONResponse({"detail": sentence}, status)(scope, receive, send)


# Gradio's own, of which this page has no use. The first writes a file at each call that nothing
# deletes, the second takes any video in, and the third fetches addresses.
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


_NOT_HERE = (
    "This page answers on this machine only. Open it by 127.0.0.1, or start it with "
    "--trusted-hosts and the name that you use."
)


class TrustedHosts:
    """ASGI middleware: refuses requests for, and from pages of, any other host.

    A page elsewhere can give its own name this machine's address, and then read what a browser here
    may open. Its name still stands in the request.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        """hosts: names or addresses beside those of the loopback interface."""
        self.app, self._hosts = app, {*OWN_ADDRESSES, *(host.lower() for host in hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what comes by a known name."""
        if scope["type"] in ("http", "websocket"):
            headers = Headers(scope=scope)
            origin = headers.get("origin")
            names = [f"//{headers.get('host', '')}", *([origin] if origin else [])]
            if not self._hosts.issuperset(map(host_name, names)):
                await refuse(scope, receive, send, 403, _NOT_HERE)
                return
        await self.app(scope, receive, send)


def host_name(address: str) -> str | None:
    """The host in an address, in lower case and without its port; None where there is none."""
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


class RequestSize:
    """ASGI middleware: refuses a larger request, at once where its length is announced."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        """most: bytes of a request's body."""
        self.app, self._most = app, most
        self._sentence = (
            f"The request is larger than {most / 1_000_000:g} MB. Send one picture at a time."
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is small enough, and cut off what turns out not to be."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdecimal() and int(announced) > self._most:
            await refuse(scope, receive, send, 413, self._sentence)
            return
        received, cut_off, answered = 0, False, False

        async def counted() -> Message:
            nonlocal received, cut_off
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._most:
                cut_off = True
                return {"type": "http.disconnect"}  # as if the sender had broken off
            return message

        async def answer(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            await self.app(scope, counted, answer)
        except Exception:
            if not cut_off or answered:
                raise
        if cut_off and not answered:
            await refuse(scope, receive, send, 413, self._sentence)


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
