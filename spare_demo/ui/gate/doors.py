"""Which requests come in: by where they go, from where, and how large they are."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import unquote, urlsplit

from starlette.datastructures import Headers, QueryParams
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spare_demo.settings import OWN_ADDRESSES


def path_of(scope: Scope) -> str:
    """The path of a request, without that of the proxy it came through."""
    return str(scope["path"]).removeprefix(scope.get("root_path", "")) or "/"


def api_path(scope: Scope) -> str:
    """The same without the prefix that Gradio's own routes have, or can do without."""
    return path_of(scope).removeprefix("/gradio_api")


def stream_session(scope: Scope) -> str:
    """The session whose stream of results a request opens, "" for any other request."""
    if scope["type"] != "http" or scope["method"] != "GET" or api_path(scope) != "/queue/data":
        return ""
    return QueryParams(scope["query_string"]).get("session_hash", "")


async def refuse(scope: Scope, receive: Receive, send: Send, status: int, sentence: str) -> None:
    """Answer with a status and one sentence, where programs and the page look for it."""
    await JSONResponse({"detail": sentence}, status)(scope, receive, send)


# Gradio's own, of which this page has no use. The first writes a file at each call that nothing
# deletes, the second takes any video in, the third fetches addresses, and the next two write what a
# stranger sends into the log, line breaks and all. The others are closed because nobody needs them.
_CLOSED = (
    *("/deep_link", "/process_recording", "/proxy=", "/custom_component/", "/mcp/messages"),
    *("/mcp/sse", "/dev/reload", "/component_server", "/stream/", "/vibe-", "/undo-vibe-"),
)
_NOTHING = "There is nothing at this address."
_FETCHED = "This page fetches nothing from other addresses. Upload the picture itself."


MOST_UPLOAD_QUERY = 200
"""Bytes. The page names its uploads in a dozen letters, and Gradio keeps every name for a while."""
_LONG_NAME = "The name of the upload is too long."


def close_doors(app: ASGIApp) -> ASGIApp:
    """ASGI middleware: refuses what writes or fetches on behalf of whoever asks."""

    async def layer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = api_path(scope)
            name = unquote(path).lower()
            if path.startswith(_CLOSED):
                return await refuse(scope, receive, send, 404, _NOTHING)
            if name.startswith(("/file=http:", "/file=https:", "/file/http:", "/file/https:")):
                return await refuse(scope, receive, send, 403, _FETCHED)
            if path.startswith("/upload") and len(scope["query_string"]) > MOST_UPLOAD_QUERY:
                return await refuse(scope, receive, send, 400, _LONG_NAME)
        await app(scope, receive, send)

    return layer


_NOT_HERE = (
    "This page answers only under the names of its own machine. Open it at 127.0.0.1, or start it "
    "with --trusted-hosts and the name that you use."
)


def trust_hosts(app: ASGIApp, hosts: Collection[str]) -> ASGIApp:
    """ASGI middleware: refuses requests for, and from pages of, any other host.

    A page elsewhere can give its own name this machine's address, and then read what a browser here
    may open. Its name still stands in the request.

    hosts: names or addresses beside those of the loopback interface.
    """
    trusted = {*OWN_ADDRESSES, *(host.lower() for host in hosts)}

    async def layer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            headers = Headers(scope=scope)
            origin = headers.get("origin")
            names = [f"//{headers.get('host', '')}", *([origin] if origin else [])]
            if not trusted.issuperset(map(host_name, names)):
                return await refuse(scope, receive, send, 403, _NOT_HERE)
        await app(scope, receive, send)

    return layer


def host_name(address: str) -> str | None:
    """The host in an address, in lower case and without its port; None where there is none.

    Also of one with a user's name, which no browser sends: whoever reads the header may take that
    for the host.
    """
    try:
        return None if "@" in address else urlsplit(address).hostname
    except ValueError:
        return None


MOST_JSON_BYTES = 200_000
"""Of a request that brings no picture; those of the page have some thousands. The name of a session
that nobody comes back to is kept for a minute or two, however long it is."""

MOST_PARTS = 100_000
"""Lists, objects and commas of a request in JSON. While it reads them the server does nothing else,
for a second or two with each million."""

_TOO_MUCH = (
    "The request holds more than this page ever sends. Upload the picture as a file, and send the "
    "name that the upload returns."
)


def limit_size(app: ASGIApp, most_bytes: int) -> ASGIApp:
    """ASGI middleware: refuses a larger request, at once where its length is announced, and cuts
    off what turns out to be larger. most_bytes: of a request's body."""
    too_large = (
        f"The request is larger than {most_bytes / 1_000_000:g} MB. Send one picture at a time."
    )

    async def layer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        most, most_parts, sentence = most_bytes, MOST_PARTS, _TOO_MUCH
        path = api_path(scope)
        if path.rstrip("/") == "/upload":
            most_parts, sentence = most, too_large
        elif not path.startswith("/mcp"):  # whose requests bring pictures, too
            most = min(most, MOST_JSON_BYTES)
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdecimal() and int(announced) > most:
            return await refuse(scope, receive, send, 413, sentence)
        received, parts, cut_off, answered = 0, 0, False, False

        async def counted() -> Message:
            nonlocal received, parts, cut_off
            message = await receive()
            body = message.get("body", b"")
            received += len(body)
            parts += sum(map(body.count, (b"[", b"{", b",")))
            if received > most or parts > most_parts:
                cut_off = True
                return {"type": "http.disconnect"}  # as if the sender had broken off
            return message

        async def answer(message: Message) -> None:
            nonlocal answered
            if cut_off and not answered:
                return  # it speaks of a request that broke off
            answered = True
            await send(message)

        try:
            await app(scope, counted, answer)
        except Exception:
            if not cut_off or answered:
                raise
        if cut_off and not answered:
            await refuse(scope, receive, send, 413, sentence)

    return layer
