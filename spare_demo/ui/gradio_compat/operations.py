"""What the API page and MCP say of the operations."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from importlib.util import find_spec
from typing import Any

import gradio as gr
import httpx
from anyio import CancelScope
from gradio.utils import get_function_description

from spare_demo.settings import check_characters
from spare_demo.ui.errors import fault_sentence
from spare_demo.ui.gradio_compat.queue import end_run

_NO_MCP = (
    "The MCP server needs a package that is missing, or installed in a version that Gradio does "
    'not know. Install it: pip install "gradio[mcp]"'
)
_NO_DATA = (
    "The picture could not be read. Send it as data:image/png;base64,… (or jpeg): this server "
    "opens no files and fetches nothing from addresses."
)


def operation_inputs(demo: gr.Blocks) -> dict[str, list[str]]:
    """The labels of each operation's inputs, by the operation's name in the API."""
    return {
        str(event.api_name): [str(getattr(part, "label", "")) for part in event.inputs]
        for event in demo.fns.values()
        if event.api_name and event.api_visibility == "public"
    }


def call_sentence(inputs: Mapping[str, list[str]], name: str) -> str:
    """What was wrong with a call: the operation's name, or else its inputs.

    inputs: of each operation, as `operation_inputs` gives them.
    """
    if name not in inputs:
        return f"There is no operation of this name. Choose one of: {', '.join(sorted(inputs))}."
    return (
        f"The inputs of {name} are {', '.join(inputs[name])}. Send at least the picture, and no "
        "other inputs."
    )


def make_optional(component: Any) -> Any:
    """The component as an input that calls of an operation may leave out at their end.

    So that programs which were written before there was such an input go on working.
    """
    component.optional = True
    return component


def describe(component: Any, example: Any = None, **schema: Any) -> None:
    """Change what the API page and `view_api` say of a component, for which it has no parameter.

    schema: words of JSON Schema, laid over the component's own. example: what may be sent.
    """
    whole = component.api_info() | schema
    if "anyOf" in schema:
        del whole["type"]  # else both would have to hold
    component.api_info = lambda: whole
    if example is not None:
        component.example_inputs = lambda: example


def describe_endpoint(handler: Callable, inputs: list[Any], result: Any) -> None:
    """Put the words of a handler's docstring beside its inputs and its result.

    Gradio reads the docstring for MCP only. It puts a comma between the lines of "Returns".
    """
    _, words, returns = get_function_description(handler)
    for component in inputs:
        describe(component, additional_description=words[component.label])
    describe(result, description=", ".join(returns))


def check_mcp() -> None:
    """Raises ValueError, with a sentence to show, where the package for MCP is missing."""
    if find_spec("mcp") is None:
        raise ValueError(_NO_MCP)


def adapt_mcp_server(demo: gr.Blocks) -> None:
    """Let MCP tools answer in JSON, say what is wrong in a sentence, delete sent pictures, and end
    what is run for a client that leaves.

    Gradio itself sends what Python prints of a result, as huggingface/mcp-course#100 found, keeps
    each picture that came as data for good, and asks for addresses, which this page does not fetch.
    The package for MCP takes no photo of more than 3 MB; here `gate/doors.py` bounds requests.

    demo: launched with `mcp_server`. Raises ValueError where Gradio went on without it.
    """
    server = demo.mcp_server_obj
    if not demo.mcp_server or server is None:
        raise ValueError(_NO_MCP)
    server.manager.asgi_app.max_body_size = sys.maxsize
    postprocess, convert = server.postprocess_output_data, server.convert_strings_to_filedata
    simplify, prepare = server.simplify_filedata_schema, server._prepare_tool_call_args
    operations = operation_inputs(demo)
    inputs = {tool: operations[at.strip("/")] for tool, at in server.tool_to_endpoint.items()}

    async def no_schema(name: str) -> None:
        """The operations refuse in better words, which hold less of what was sent."""

    def prepare_or_refuse(name: str, given: dict[str, Any]) -> Any:
        given = {key: value for key, value in given.items() if value is not None}  # left out
        if name not in inputs or not {"image"} <= given.keys() <= set(inputs[name]):
            raise ValueError(call_sentence(inputs, name))
        return prepare(name, given)

    def simplify_without_address(schema: dict[str, Any]) -> tuple[dict[str, Any], list]:
        simplified, positions = simplify(schema)
        for (name,) in positions:
            for wrong in ("title", "format"):
                del simplified["properties"][name][wrong]
        return simplified, positions

    def convert_data(given: dict[str, Any], positions: list) -> dict[str, Any]:
        for name, value in given.items():
            if isinstance(value, str):
                check_characters(name, value)
        for (name,) in positions:
            sent = given.get(name)
            if not isinstance(sent, str) or not sent.startswith(("data:", "http://", "https://")):
                raise ValueError(_NO_DATA)  # Gradio's own words hold all that was sent
        try:
            converted = convert(given, positions)
        except Exception as error:
            no_data = isinstance(error, ValueError)  # of base64
            raise ValueError(_NO_DATA if no_data else fault_sentence(error)) from None
        for name, value in converted.items():
            if isinstance(value, dict) and str(given[name]).startswith("data:"):
                # Of a whole description Gradio's client would make an upload of its own, which
                # all visitors would send from one address: this machine's.
                converted[name] = {"path": value["path"]}
        return converted

    def as_json(data: Any, root_url: str) -> list:
        return postprocess([json.dumps(value, ensure_ascii=False) for value in data], root_url)

    async def result_of(job: Any) -> list:  # Gradio waits for it in a thread, to the end
        return [await asyncio.wrap_future(job.future)]

    with_progress = server._execute_tool_with_progress
    server._execute_tool_without_progress = _while_asked(demo, result_of)  # type: ignore[method-assign]
    server._execute_tool_with_progress = _while_asked(demo, with_progress)  # type: ignore[method-assign]
    server.mcp_server._get_cached_tool_definition = no_schema  # type: ignore[method-assign, assignment]
    server._prepare_tool_call_args = prepare_or_refuse  # type: ignore[method-assign, assignment]
    server.simplify_filedata_schema = simplify_without_address  # type: ignore[method-assign]
    server.convert_strings_to_filedata = convert_data  # type: ignore[method-assign, assignment]
    server.postprocess_output_data = as_json  # type: ignore[method-assign]


def _while_asked(
    demo: gr.Blocks, run: Callable[..., Awaitable[Any]]
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """The same, ended where its client leaves; the sentence of a status (`gate/`) is raised instead
    of its number."""

    async def result(job: Any, *more: Any) -> Any:
        try:
            return await run(job, *more)
        except httpx.HTTPStatusError as error:
            raise ValueError(error.response.json()["detail"]) from None
        except asyncio.CancelledError:
            with CancelScope(shield=True):
                await end_run(demo, job.communicator.event_id if job.communicator else None)
            raise

    return result
