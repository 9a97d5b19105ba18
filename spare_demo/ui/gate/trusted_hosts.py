"""Names under which a private page answers.

A page elsewhere can give its own name this machine's address, and then read what a browser here
may open. Its name still stands in the request.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from spare_demo.settings import OWN_ADDRESSES
from spare_demo.ui.gate.replies import refuse

_SENTENCE = (
    "This page answers on this machine only. Open it by 127.0.0.1, or start it with "
    "--trusted-hosts and the name that you use."
)


class TrustedHosts:
    """ASGI middleware: refuses requests for, and from pages of, any other host."""

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
                await refuse(scope, receive, send, 403, _SENTENCE)
                return
        await self.app(scope, receive, send)


def host_name(address: str) -> str | None:
    """The host in an address, in lower case and without its port; None where there is none."""
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
