"""How many requests of one address, and of all, may wait, run or be on their way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, IPv6Network

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spare_demo.ui.gate.doors import api_path, refuse
from spare_demo.ui.gradio_compat.queue import events_in_queue

FULL = "Too many requests are waiting for an answer just now. Ask again in a minute."
_ARRIVING = (
    "As much as one address may send at a time is on its way already. Wait until some of it has "
    "arrived, then send this again."
)


def share_fairly(app: ASGIApp, most: int, most_of_all: int, header: str) -> ASGIApp:
    """ASGI middleware: refuses an address that has its share in the queue, and all when full.

    most: requests of one address that may wait or run, and that may be on their way.
    most_of_all: how many may wait.
    header: of the proxy in front, which names the visitor's address; "" where there is none.
    """
    entering: Counter[str] = Counter()  # which are in no queue yet
    arriving: Counter[str] = Counter()  # whose bodies are not all here
    sentence = (
        f"As many requests as one address may have ({most}) are waiting or running already. "
        "Wait until one of them has finished, then ask again."
    )

    async def layer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            return await app(scope, receive, send)
        path, address = api_path(scope), address_of(scope, header)
        if arriving[address] >= most:
            return await refuse(scope, receive, send, 429, _ARRIVING)
        # Bodies that are read bit by bit, or are large, and events that are answered at once.
        if path.startswith(("/upload", "/mcp", "/run/", "/api/")):
            with _place(arriving, address):
                return await app(scope, receive, send)
        with _place(arriving, address):  # one that never ends takes nobody's place in the queue
            receive = await _wait_for_body(receive)
        if not path.startswith(("/queue/join", "/call/")):
            return await app(scope, receive, send)
        waiting, running = events_in_queue(scope["app"].get_blocks())
        others = (event.request.scope for event in (*waiting, *running))
        own = sum(address_of(other, header) == address for other in others)
        if own + entering[address] >= most:
            return await refuse(scope, receive, send, 429, sentence)
        if len(waiting) + entering.total() >= most_of_all:
            return await refuse(scope, receive, send, 429, FULL)
        with _place(entering, address):
            await app(scope, receive, send)

    return layer


@contextmanager
def _place(taken: Counter[str], address: str) -> Iterator[None]:
    """A place of an address among those that are taken."""
    taken[address] += 1
    try:
        yield
    finally:
        taken[address] -= 1
        if not taken[address]:
            del taken[address]


def address_of(scope: Scope, header: str) -> str:
    """The address that a request came from; of IPv6 the network, since one household has all of
    its addresses.

    header: where a proxy writes it. Of several in it the last one counts, which the proxy itself
    added: those before it are the visitor's own words.
    """
    named = Headers(scope=scope).getlist(header) if header else []
    client = scope.get("client")
    address = named[-1].split(",")[-1].strip() if named else (client[0] if client else "")
    try:
        whole = IPv6Address(address)
    except ValueError:
        return address
    return str(whole.ipv4_mapped or IPv6Network((int(whole), 64), strict=False))


async def _wait_for_body(receive: Receive) -> Receive:
    """Read all of a request's body; what then gives its messages once more."""
    messages = [await receive()]
    while messages[-1].get("more_body"):
        messages.append(await receive())

    async def give() -> Message:
        return messages.pop(0) if messages else await receive()

    return give
