"""Requests that Gradio's routes fail on: each gets a sentence, and the log a line."""

from __future__ import annotations

import re

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spare_demo.ui.errors import fault_sentence, log_refusal
from spare_demo.ui.gate.doors import api_path, refuse
from spare_demo.ui.gradio_compat.operations import call_sentence, operation_inputs
from spare_demo.ui.gradio_compat.queue import knows_run

_CALL = re.compile("/call(/v2)?/(?P<operation>[^/]+)(/(?P<run>[^/]+))?/?")
_NO_EVENT = "There is no operation with this number. Load the page again, or call one by its name."
_SENTENCES = {  # by the first word of the path
    "upload": "Part of the request is not a file. Send each picture as a file named files.",
    "file": "This part of the file cannot be sent. Ask for one range at a time, or for all of it.",
    **dict.fromkeys(("queue", "run", "api"), _NO_EVENT),
}
_UNREAD = "This address does not take such a request. Load the page again, or call an operation."
_NO_RUN = (
    "There is no result under this name. It was already fetched, or not fetched in time. Call the "
    "operation again."
)


def word_refusals(app: ASGIApp) -> ASGIApp:
    """ASGI middleware: turns what a route raises into an answer, and ends a stream in order.

    Gradio answers a call of wrong inputs with status 500, as if the fault were its own, and breaks
    the connection of whoever reads a run that is not there; of each it prints a traceback.
    """

    async def layer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        demo, path = scope["app"].get_blocks(), api_path(scope)
        named = _CALL.fullmatch(path)
        run = named["run"] if named and scope["method"] == "GET" else None
        if run is not None and not knows_run(demo, run):
            return await refuse(scope, receive, send, 404, _NO_RUN)
        started = False

        async def answer(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await app(scope, receive, answer)
        except Exception as error:
            if started:
                if isinstance(error.__cause__, HTTPException):
                    log_refusal(error)
                else:
                    fault_sentence(error)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            sentence = _SENTENCES.get(re.split("[/=]", path.lstrip("/"))[0])
            if named:
                sentence = call_sentence(operation_inputs(demo), named["operation"])
            if sentence is None or isinstance(error, OSError | MemoryError):
                return await refuse(scope, receive, send, 500, fault_sentence(error))
            log_refusal(error)
            await refuse(scope, receive, send, 400, sentence)

    return layer


async def refuse_unread(request: Request, error: Exception) -> Response:
    """The answer to a request of another shape than a route's.

    FastAPI's own holds all that was sent, which it cannot write where that is NaN or half a
    surrogate pair, and looks through for most of a second where it is long.
    """
    log_refusal(error)
    return JSONResponse({"detail": _UNREAD}, 422)
