"""Every touch of Gradio's inside, each with its reason. Nothing else on the page needs one.

When Gradio is updated, this file is what to read and to try. An issue of Gradio's is named where
one was found.
"""

from __future__ import annotations

import copy
import functools
import json
import threading
import time
from abc import ABCMeta
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import gradio as gr
from gradio.blocks import Block, BlocksConfig
from gradio.context import LocalContext
from gradio.data_classes import ImageData
from gradio.processing_utils import save_bytes_to_cache, save_file_to_cache
from gradio.route_utils import get_root_url
from gradio.tunneling import CURRENT_TUNNELS
from gradio.utils import get_function_description, get_upload_folder, is_in_or_equal
from starlette.requests import Request
from starlette.types import Scope

PartT = TypeVar("PartT")


def kind_of(base: type[PartT], **members: Any) -> type[PartT]:
    """A class of Gradio's with other members; its page takes it for the class itself.

    A class, because Gradio makes a visitor's parts anew from their class: what is changed on one
    part alone is gone after the first step that passes it over. By this way round Gradio's own
    making of classes, because that writes a file of types beside the source.
    """
    members["__module__"] = base.__module__
    return ABCMeta.__new__(type(base), base.__name__, (base,), members)


class _SentPicture(ImageData):
    """A picture as a program sends it. Those who send a name alone learn how it is done."""

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> _SentPicture:
        try:
            return super().model_validate(obj, **options)
        except ValueError:  # its words hold what was sent
            raise gr.Error(
                "Send the picture as a file: in Python image=handle_file('photo.png'), with "
                "handle_file from gradio_client.",
                print_exception=False,
            ) from None


async def _keep_uploads(image: gr.Image, url_or_file_path: str | Path | None) -> str | None:
    """Gradio would download an address of any length and kind for whoever names it."""
    path = str(url_or_file_path)
    if path.startswith(("http://", "https://")):
        url_or_file_path = _uploaded(path)
        if url_or_file_path is None:
            raise gr.Error(
                "Send the picture itself: this page fetches nothing from addresses.",
                print_exception=False,
            )
    return await gr.Image.async_move_resource_to_block_cache(image, url_or_file_path)


def _uploaded(address: str) -> str | None:
    """The file that this address names, if it was uploaded here: programs name uploads so."""
    path = unquote(urlsplit(address).path.partition("/gradio_api/file=")[2])
    return path if _is_upload(path) else None


def _uploaded_path(image: gr.Image, payload: ImageData | None) -> str | None:
    """The file a visitor uploaded. Gradio checks only payloads that carry its own mark.

    Any other file of this machine is refused, in the same words whether it exists or not, and so
    is whatever is no regular file: a device or a pipe would be read without end.
    """
    path = payload.path if payload else None
    if path and not _is_upload(path):
        raise gr.Error("The picture could not be opened. Upload it again.", print_exception=False)
    return path


def _is_upload(path: str) -> bool:
    try:
        return is_in_or_equal(path, get_upload_folder()) and Path(path).is_file()
    except (OSError, ValueError):  # a name too long, or with a null character
        return False


_Photo = kind_of(
    gr.Image,
    data_model=_SentPicture,
    preprocess=_uploaded_path,
    async_move_resource_to_block_cache=_keep_uploads,
)


def photo_input(**options: Any) -> gr.Image:
    """Gradio's picture input, handing over the file as it was uploaded.

    Its own preparation (gradio-app/gradio#8412) opens the picture before anyone could look at its
    size, and refuses kinds that `images.load.open_picture` can read.
    """
    return _Photo(type="filepath", **options)


def cached_picture(path: str) -> str:
    """The path of a picture's copy in Gradio's cache, from which a page that opens on it reads."""
    return save_file_to_cache(path, get_upload_folder())


def picture_name(path: str) -> str:
    """What tells a picture on the page from any other: its address there ends in NAME/FILE.

    Gradio names the folder of an uploaded or cached file by the hash of its bytes.
    """
    return Path(path).parent.name


# They hand over what was typed: the handlers' refusals say what to do next.
NumberAsSent = kind_of(gr.Number, preprocess=lambda self, payload: payload)
SliderAsSent = kind_of(gr.Slider, preprocess=lambda self, payload: payload)


def forget_state(demo: gr.Blocks, session: str) -> None:
    """Drop the state of a session, which Gradio keeps for an hour (gradio-app/gradio#7829)."""
    holder = demo.state_holder
    holder.session_data.pop(session, None)
    holder.time_last_used.pop(session, None)


def forget_session(demo: gr.Blocks) -> Callable[[gr.Request], None]:
    """A handler of `unload` that drops a visitor's state."""

    def forget(request: gr.Request) -> None:
        if request.session_hash:
            forget_state(demo, request.session_hash)

    return forget


def forget_caller(demo: gr.Blocks, operation: Callable[..., Any]) -> Callable[..., Any]:
    """The operation, after which nothing of its caller's session is left.

    Gradio keeps a copy of the page for each caller, and programs do not say when they leave. An
    operation that needs no memory of the last call only.
    """
    forget = forget_session(demo)

    @functools.wraps(operation)
    def run(*inputs: Any) -> Any:
        try:
            return operation(*inputs)
        finally:
            if (request := LocalContext.request.get(None)) is not None:
                forget(request)

    return run


def requests_in_queue(demo: gr.Blocks) -> tuple[list[Scope], list[Scope]]:
    """The requests that wait for their turn on a page, and those that have it."""
    queue = demo._queue
    waiting = [e for line in queue.event_queue_per_concurrency_id.values() for e in line.queue]
    running = [event for job in queue.active_jobs for event in job or ()]
    return [e.request.scope for e in waiting], [e.request.scope for e in running]


def seconds_in_queue() -> float | None:
    """How long the request that is answered here has been waiting for its turn, up to now.

    None outside a handler, and for a request that did not come through the queue.
    """
    demo, request = LocalContext.blocks.get(None), LocalContext.request.get(None)
    if demo is not None and request is not None:
        for event in (event for job in demo._queue.active_jobs for event in job or ()):
            if event.request is request.request:
                return time.monotonic() - event.enqueue_time
    return None


def knows_run(demo: gr.Blocks, name: str) -> bool:
    """Whether a run that was begun by a call waits, runs, or has a result to be fetched.

    Gradio lets whoever comes for a result a second time wait without end.
    """
    queue = demo._queue
    unread = queue.pending_event_ids_session.values()
    return name in queue.event_ids_to_events or any(name in names for names in list(unread))


def operation_inputs(demo: gr.Blocks) -> dict[str, list[str]]:
    """The labels of each operation's inputs, by the operation's name in the API."""
    return {
        str(event.api_name): [str(getattr(part, "label", "")) for part in event.inputs]
        for event in demo.fns.values()
        if event.api_name and event.api_visibility == "public"
    }


def queue_limit(demo: gr.Blocks) -> int | None:
    """How many may wait on a page; None for any number."""
    return demo._queue.max_size


def sessions_of_runs(demo: gr.Blocks) -> set[str]:
    """The sessions of pages for which runs wait or are under way.

    Without those that were begun by a call, whose result may be fetched later.
    """
    queue = demo._queue
    waiting = (e for line in queue.event_queue_per_concurrency_id.values() for e in line.queue)
    running = (event for job in queue.active_jobs for event in job or ())
    events = [*waiting, *running]
    return {e.session_hash for e in events if e.request.url.path.endswith("/queue/join")}


async def end_runs(demo: gr.Blocks, session: str) -> None:
    """End what waits or runs for a session, and drop what nobody has read of it."""
    queue = demo._queue
    await queue.clean_events(session_hash=session)
    queue.pending_event_ids_session.pop(session, None)
    queue.pending_messages_per_session.pop(session, None)


class UnreadRuns:
    """Ends runs whose results nobody fetches, and drops the results."""

    def __init__(self, demo: gr.Blocks) -> None:
        self._demo = demo
        self._unread: dict[str, int] = {}

    async def end(self) -> None:
        """End those whose oldest message is the one that was unread at the last call."""
        oldest = {}
        for session, messages in list(self._demo._queue.pending_messages_per_session.items()):
            if not messages.empty():
                # Peeked at: getting it would take it from whoever comes to read.
                oldest[session] = id(messages._queue[0])  # type: ignore[attr-defined]
        for session, message in oldest.items():
            if self._unread.get(session) == message:
                await end_runs(self._demo, session)
        self._unread = oldest


def remove_broken_uploads(older_than: float) -> None:
    """Delete uploads whose sender broke off; whole ones lie in folders of their own.

    older_than: seconds since its last byte, after which a file counts as broken off.
    """
    for path in Path(get_upload_folder()).glob("tmp*"):
        try:
            if path.is_file() and time.time() - path.stat().st_mtime > older_than:
                path.unlink()
        except FileNotFoundError:  # it was finished meanwhile
            continue


def say_what_went_wrong(demo: gr.Blocks, sentence: Callable[[Exception], str]) -> None:
    """Let what goes wrong before and after a handler reach the caller as a sentence, too.

    Gradio sends nothing of it and prints a traceback, also for each of its own refusals.

    sentence: what may be told about an error that Gradio has no words for; it logs the error.
    """
    process = demo.process_api

    async def process_or_refuse(block_fn: Any, inputs: Any, *more: Any, **named: Any) -> Any:
        event = demo.fns[block_fn] if isinstance(block_fn, int) else block_fn
        if len(inputs) < len(event.inputs):
            names = ", ".join(str(getattr(part, "label", None)) for part in event.inputs)
            raise gr.Error(
                f"{len(inputs)} inputs were sent, and {len(event.inputs)} are needed: {names}.",
                print_exception=False,
            )
        try:
            return await process(block_fn, inputs, *more, **named)
        except gr.Error as error:
            error.print_exception = False
            raise
        except Exception as error:
            raise gr.Error(sentence(error), print_exception=False) from None

    demo.process_api = process_or_refuse  # type: ignore[method-assign]


def send_changes_only(demo: gr.Blocks) -> None:
    """Let each step of a handler work on the parts that it changes, and on no other.

    Of every output that a handler does not name Gradio makes the part anew, and its settings twice,
    only to send that nothing changed.
    """
    process = demo.postprocess_data

    async def process_changes(block_fn: Any, values: Any, state: Any) -> list[Any]:
        outputs = block_fn.outputs
        if not isinstance(values, dict) or not all(isinstance(part, Block) for part in values):
            return await process(block_fn, values, state)
        changed = copy.copy(block_fn)
        changed.outputs = [part for part in outputs if part in values]
        if len(changed.outputs) != len(values) or not values:
            return await process(block_fn, values, state)  # which says what is wrong
        only = values[changed.outputs[0]] if len(values) == 1 else values
        sent = dict(zip(changed.outputs, await process(changed, only, state), strict=True))
        return [sent.get(part, None if part.stateful else gr.skip()) for part in outputs]

    demo.postprocess_data = process_changes  # type: ignore[assignment]


class _ConfigWithoutCopies(BlocksConfig):
    """A page's parts, of which the copies for sessions do not repeat the settings of each part."""

    def __copy__(self) -> BlocksConfig:
        own = super().__copy__()
        own.config_for_block = _config_of_rendered  # type: ignore[method-assign]
        return own


def _config_of_rendered(
    _id: int, rendered_ids: list[int], block: Any, renderable: Any = None
) -> dict[str, Any]:
    if renderable is None:  # for a deep link, and no part that `gr.render` makes
        return {}
    return BlocksConfig.config_for_block(_id, rendered_ids, block, renderable)


def keep_no_deep_links(demo: gr.Blocks) -> None:
    """Spare a page that has no deep links what Gradio keeps for them in each session.

    The settings of all parts: to work them out stops the server for a fortieth of a second at each
    new visitor, and for less at each step.
    """
    demo.default_config.__class__ = _ConfigWithoutCopies


def stop_server(demo: gr.Blocks, seconds: float) -> None:
    """End the server of a launched page. Gradio itself waits for every open connection to end.

    seconds: how long answers being sent may take to end before they are cut off.
    """
    server = getattr(demo, "server", None)  # of a page that could not be launched there is none
    if server is not None:
        cut = threading.Timer(seconds, setattr, (server, "force_exit", True))
        cut.daemon = True
        cut.start()
        demo.close(verbose=False)
        cut.cancel()
    for tunnel in CURRENT_TUNNELS:
        tunnel.kill()


def with_event_data(handler: Callable[[Mapping[str, Any], Any], dict]) -> Callable[..., dict]:
    """The handler with what the page's script sent as its first input.

    Gradio offers the fields of an event as attributes (gradio-app/gradio#12967), and no way to ask
    which there are.
    """

    def run(visit: Any, event: gr.EventData) -> dict:
        return handler(event._data or {}, visit)

    return run


def write_to_cache(part: gr.HTML, data: bytes, name: str) -> str:
    """The path of a new file in Gradio's cache, which the page may read for some hours.

    part: of the page itself; files of a visitor's copy of a part are never cleared.
    """
    path = save_bytes_to_cache(data, name, part.GRADIO_CACHE)
    part.temp_files.add(path)
    return path


def keep_in_cache(part: gr.HTML, path: str) -> None:
    """Keep a file of `write_to_cache` for as long as the page is served."""
    part.keep_in_cache.add(path)


def page_address(scope: MutableMapping[str, Any]) -> str:
    """The address of the page as its visitors reach it, also through a proxy; no slash at its end.

    Of a request that Gradio's app got. As Gradio finds the root of everything else on the page.
    """
    app = scope["app"]
    root_path = app.root_path or scope.get("root_path") or app.get_blocks().custom_mount_path
    return get_root_url(Request(scope), "/", root_path)


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


def send_json_over_mcp(demo: gr.Blocks) -> bool:
    """Let MCP tools answer in JSON.

    Gradio itself sends what Python prints of a result, as huggingface/mcp-course#100 found.

    demo: launched with `mcp_server`. Returns whether it has an MCP server.
    """
    server = demo.mcp_server_obj
    if not demo.mcp_server or server is None:
        return False
    postprocess = server.postprocess_output_data

    def as_json(data: Any, root_url: str) -> list:
        return postprocess([json.dumps(value, ensure_ascii=False) for value in data], root_url)

    server.postprocess_output_data = as_json  # type: ignore[method-assign]
    return True
