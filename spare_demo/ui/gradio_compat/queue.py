"""Who waits and who runs in the queue of a page, and what nobody fetches from it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable
from itertools import chain
from typing import Any

import gradio as gr
from gradio.context import LocalContext
from gradio.events import Dependency
from gradio.queueing import Event, ProcessTime
from gradio.server_messages import CloseStreamMessage, EventMessage, ProcessCompletedMessage

LOOK_EVERY = 0.02
STREAM_END = f"data: {CloseStreamMessage().model_dump_json()}\n\n"
"""The last message of a stream of results, as Gradio's page reads it."""


def events_in_queue(demo: gr.Blocks) -> tuple[list[Event], list[Event]]:
    """What waits for its turn on a page, and what has it."""
    queue = demo._queue
    waiting = [e for line in queue.event_queue_per_concurrency_id.values() for e in line.queue]
    return waiting, [event for job in queue.active_jobs for event in job or ()]


def seconds_in_queue() -> float | None:
    """How long the request that is answered here has been waiting for its turn, up to now.

    None outside a handler, and for a request that did not come through the queue.
    """
    demo, request = LocalContext.blocks.get(None), LocalContext.request.get(None)
    if demo is not None and request is not None:
        _, running = events_in_queue(demo)
        for event in running:
            if event.request is request.request:
                return time.monotonic() - event.enqueue_time
    return None


def is_awaited(turn: str) -> bool:
    """Whether anyone waits for a turn of this name, on the page whose handler asks."""
    demo = LocalContext.blocks.get(None)
    line = demo and demo._queue.event_queue_per_concurrency_id.get(turn)
    return bool(line and line.queue)


def knows_run(demo: gr.Blocks, name: str) -> bool:
    """Whether a run that was begun by a call waits, runs, or has a result to be fetched.

    Gradio lets whoever comes for a result a second time wait without end.
    """
    queue = demo._queue
    unread = queue.pending_event_ids_session.values()
    return name in queue.event_ids_to_events or any(name in names for names in list(unread))


def has_results_to_come(demo: gr.Blocks, session: str) -> bool:
    """Whether a run of a session waits, runs, or has results that nobody has read yet.

    True of a session that the queue does not know, of which it has to say so.
    """
    queue = demo._queue
    messages = queue.pending_messages_per_session.get(session)
    if messages is None or not messages.empty():
        return True
    return bool(queue.pending_event_ids_session.get(session))


def sessions_of_runs(demo: gr.Blocks) -> set[str]:
    """The sessions of pages for which runs wait or are under way.

    Without those that were begun by a call, whose result may be fetched later.
    """
    waiting, running = events_in_queue(demo)
    joined = (e for e in (*waiting, *running) if e.request.url.path.endswith("/queue/join"))
    return {event.session_hash for event in joined}


async def end_runs(demo: gr.Blocks, session: str) -> None:
    """End what waits or runs for a session, and drop what nobody has read of it."""
    queue = demo._queue
    await queue.clean_events(session_hash=session)
    queue.pending_event_ids_session.pop(session, None)
    queue.pending_messages_per_session.pop(session, None)


async def end_run(demo: gr.Blocks, name: str | None) -> None:
    """End one run, if it waits or is under way: whoever reads its results comes to their end."""
    queue = demo._queue
    if event := queue.event_ids_to_events.get(name or ""):
        queue.send_message(event, ProcessCompletedMessage(output={}, success=True))
        await queue.clean_events(event_id=name)


def handler_that_ends(runs: Iterable[Dependency]) -> Callable[[gr.Request], Coroutine]:
    """A handler that ends these runs of its visitor, in place of an event that `cancels` them.

    For such an event Gradio's page names the run, by a name that it does not know before the queue
    has answered. And it ignores another run until the step in hand is over.
    """
    numbers = {run["id"] for run in runs}

    async def end(request: gr.Request) -> None:
        demo: Any = LocalContext.blocks.get()
        of_visitor = (
            event
            for event in chain(*events_in_queue(demo))
            if event.session_hash == request.session_hash and event.fn._id in numbers
        )
        names = tuple(event._id for event in of_visitor)
        for name in names:
            await end_run(demo, name)
        await asyncio.sleep(0)  # cancelled before it has begun, a task would keep its turn
        for task in asyncio.all_tasks():
            if task.get_name().endswith(names):
                task.cancel()  # what its step in hand makes is not put in the visitor's state

    return end


def look_less_often(demo: gr.Blocks) -> None:
    """Let the queue look for new events and for progress no more often than every `LOOK_EVERY`
    seconds.

    Gradio lets it look a thousand and a hundred times a second, for as long as the page stands.
    Nobody notices the difference but the processor, of which that takes a part from every pass. And
    it keeps when 10,000 events ran, and sums that up in pandas at each, 3 ms, for a dashboard that
    the page does not have: here it keeps the last, and sums up nothing.
    """
    queue = demo._queue
    queue.ANALYTICS_MAX_EVENTS, queue.ANAYLTICS_CACHE_FREQUENCY = 1, sys.maxsize
    queue.sleep_when_free = max(queue.sleep_when_free, LOOK_EVERY)
    progress = queue.progress_update_sleep_when_free  # on Windows both are longer
    queue.progress_update_sleep_when_free = max(progress, LOOK_EVERY)


def drop_messages_to_nobody(demo: gr.Blocks) -> None:
    """Let a message to a session that the queue does not know be dropped.

    Gradio's queue ends at such a message, for all visitors. It comes of a session without a name,
    and of one that waits while 2,000 others begin, since it knows no more of them.
    """
    queue = demo._queue
    send = queue.send_message

    def send_to_known(event: Event, message: EventMessage) -> None:
        if event.session_hash in queue.pending_messages_per_session:
            send(event, message)

    queue.send_message = send_to_known  # type: ignore[assignment, method-assign]


class _MeanTimes(defaultdict[Any, ProcessTime]):
    """What runs of each event took; of some it is not known."""

    def __init__(self, unknown: set[int]) -> None:
        super().__init__(ProcessTime)
        self._unknown = unknown

    def __missing__(self, event: Any) -> ProcessTime:
        """Of what `gr.render` made for one visitor nothing is kept."""
        return ProcessTime() if event.rendered_in else super().__missing__(event)

    def __contains__(self, event: Any) -> bool:
        return event._id not in self._unknown and super().__contains__(event)


def estimate_nothing_of(demo: gr.Blocks, runs: Iterable[Dependency]) -> None:
    """Let those who wait see no seconds while one of these runs, whose times differ too much.

    Gradio's estimate is the mean of the runs before: seconds, when this one takes a minute.
    """
    demo._queue.process_time_per_fn = _MeanTimes({run["id"] for run in runs})


class UnreadRuns:
    """Ends runs whose results nobody fetches, and drops the results."""

    def __init__(self, demo: gr.Blocks, connected: Collection[str] = ()) -> None:
        """connected: sessions with a connection open now, whose stream must find its messages."""
        self._demo, self._connected = demo, connected
        self._unread: dict[str, int] = {}
        self._at_rest: set[str] = set()

    async def end(self) -> None:
        """End the runs whose oldest message was unread at the last call, too.

        Gradio also keeps the name of a run whose visitor left in the middle of it. It is dropped
        once nothing of that session is going on, at this call and at the last.
        """
        queue = self._demo._queue
        events, messages = queue.pending_event_ids_session, queue.pending_messages_per_session
        # Peeked at: getting a message would take it from whoever comes to read.
        oldest = {
            session: id(theirs._queue[0])  # type: ignore[attr-defined]
            for session, theirs in list(messages.items())
            if not theirs.empty()
        }
        going = {event.session_hash for event in queue.event_ids_to_events.values()}
        at_rest = {*events, *messages} - oldest.keys() - going - {*self._connected}
        for session in at_rest & self._at_rest:
            events.pop(session, None)
            messages.pop(session, None)
        self._at_rest = at_rest
        for session, message in oldest.items():
            if self._unread.get(session) == message:
                await end_runs(self._demo, session)
        self._unread = oldest
        if app := queue.server_app:  # with the names of those that were cancelled, for good
            app.iterators_to_reset.intersection_update(queue.event_ids_to_events)
