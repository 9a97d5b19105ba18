"""How much one request may bring, all its files together."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spare_demo.ui.gate.replies import refuse


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
