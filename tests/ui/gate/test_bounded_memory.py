"""Programs that never come back leave a bounded number of things; no memory is measured."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import httpx
import pytest
from gradio.queueing import AsyncQueue
from pages import run_apart
from visits import QUESTION, page_request

from spare_demo.models.loading import heap
from spare_demo.ui import open_visits
from spare_demo.ui.gate import sweeper
from spare_demo.ui.gate.sweeper import sweep
from spare_demo.ui.gradio_compat import files as files_of_gradio
from spare_demo.ui.gradio_compat.files import remove_broken_uploads, remove_old_files
from spare_demo.ui.gradio_compat.processing import Page
from spare_demo.ui.gradio_compat.queue import UnreadRuns
from spare_demo.ui.open_visits import OpenVisits
from spare_demo.ui.page import MOST_SESSIONS


def test_calls_of_programs_leave_no_session_behind(public, photo_file) -> None:
    sessions = public.demo.state_holder.session_data
    image = public.picture(photo_file)
    before = len(sessions)
    for _ in range(5):
        for method, end in (("spare", "complete"), ("no such", "error"), (["spare"], "error")):
            said = public.call("select", [image, QUESTION, method, 5, 0]).text
            assert f"event: {end}" in said
        for inputs in ([image], ["photo.png", QUESTION, "spare", 5, 0]):
            assert "event: error" in public.call("select", inputs).text
    assert len(sessions) <= before
    assert public.demo.state_holder.time_last_used.keys() <= sessions.keys()


def test_sessions_of_whoever_names_one_are_bounded(public) -> None:
    """A mark of the slider is called beside the queue, and opens a session each time."""
    beside = next(n for n, event in public.demo.fns.items() if event.fn and not event.queue)
    inputs = [None] * len(public.demo.fns[beside].inputs)
    with httpx.stream("GET", public.api("heartbeat/visitor")):
        for name in ("visitor", *(f"stranger-{number}" for number in range(MOST_SESSIONS + 20))):
            body = {"fn_index": beside, "data": inputs, "session_hash": name}
            public.post("run/predict", body)
        sessions = public.demo.state_holder.session_data
        assert len(sessions) <= MOST_SESSIONS
        assert "visitor" in sessions  # whose page is open


def test_results_nobody_reads_are_dropped_and_those_being_read_are_not(public, photo_file) -> None:
    queue, unread = public.demo._queue, UnreadRuns(public.demo)
    image = public.picture(photo_file)
    data = {"data": [image, QUESTION, "spare", 5, 0]}
    events = {public.post("call/select", data).json()["event_id"] for _ in range(3)}
    assert events <= queue.pending_messages_per_session.keys()
    run_apart(sweep(public.demo, unread))
    assert events <= queue.pending_messages_per_session.keys()  # there is time to come for them
    kept = events.pop()
    assert "event: complete" in httpx.get(public.api(f"call/select/{kept}"), timeout=60).text
    run_apart(sweep(public.demo, unread))
    assert not events & queue.pending_messages_per_session.keys()
    assert not events & queue.pending_event_ids_session.keys()


def test_nothing_is_kept_of_runs_that_have_ended(public, photo_file) -> None:
    """Of a visitor who leaves in mid-answer neither, however the connection ends."""
    queue, image = public.demo._queue, public.picture(photo_file)
    for _ in range(3):
        said = public.call("select", [image, QUESTION, "spare", 5, 0]).text
        assert "event: complete" in said
    assert len(queue.event_analytics) <= 1
    queue.pending_event_ids_session["left"] = {"an event that ended after its visitor left"}
    queue.pending_messages_per_session["left"] = AsyncQueue()
    queue.pending_event_ids_session["waits"] = {"an event"}
    queue.event_ids_to_events["an event"] = SimpleNamespace(session_hash="waits")
    to_reset = public.demo.app.iterators_to_reset
    to_reset |= {"an event", "an event that was cancelled"}
    unread = UnreadRuns(public.demo)
    try:
        run_apart(sweep(public.demo, unread))
        assert "left" in queue.pending_event_ids_session  # the last word may be on its way
        run_apart(sweep(public.demo, unread))
        assert "left" not in queue.pending_event_ids_session
        assert "left" not in queue.pending_messages_per_session
        assert queue.pending_event_ids_session["waits"] == {"an event"}
        assert to_reset == {"an event"}
    finally:
        del queue.event_ids_to_events["an event"]
    for _ in range(2):
        run_apart(sweep(public.demo, unread))
    assert "waits" not in queue.pending_event_ids_session


def test_settings_of_a_visitor_leave_nothing_in_the_queue(public) -> None:
    """Gradio keeps a line and a mean time for each function, and every panel has its own."""
    queue = public.demo._queue
    panel = next(n for n, event in public.demo.fns.items() if event.renderable)

    def run(session: str, event: int, data: list) -> dict:
        body = {"fn_index": event, "session_hash": session, "data": data}
        public.post("queue/join", body).raise_for_status()
        stream = httpx.get(public.api("queue/data"), params={"session_hash": session}, timeout=60)
        sent = (json.loads(line[5:]) for line in stream.text.splitlines() if line)
        return next(each["output"] for each in sent if each["msg"] == "process_completed")

    sizes = []
    for visitor in ("settings-1", "settings-2", "settings-3"):
        with httpx.stream("GET", public.api(f"heartbeat/{visitor}")):  # the page is open
            made = run(visitor, panel, ["spare"])["render_config"]
            values = {part["id"]: part["props"].get("value") for part in made["components"]}
            apply = made["dependencies"][0]
            run(visitor, apply["id"], [values.get(part) for part in apply["inputs"]])
        sizes.append((len(queue.event_queue_per_concurrency_id), len(queue.process_time_per_fn)))
    assert sizes[0] == sizes[1] == sizes[2]


def test_a_sweep_spares_the_messages_of_who_has_a_stream_open(public) -> None:
    messages = public.demo._queue.pending_messages_per_session
    messages["reads"], messages["left"] = AsyncQueue(), AsyncQueue()
    unread = UnreadRuns(public.demo, {"reads"})
    for _ in range(2):
        run_apart(unread.end())
    assert "reads" in messages and "left" not in messages
    del messages["reads"]


@pytest.fixture
def no_other_sweep(monkeypatch) -> None:
    """The pages that this process serves are not swept meanwhile."""

    async def no_sweep(*_: object) -> None:
        pass

    monkeypatch.setattr(sweeper, "sweep", no_sweep)


@pytest.mark.usefixtures("no_other_sweep")
def test_a_sweep_calls_the_jobs_of_its_page_then_returns_memory(public, monkeypatch) -> None:
    swept: list[str] = []
    monkeypatch.setattr(public.demo, "jobs", (lambda: swept.append("this"),))
    monkeypatch.setattr(sweeper, "return_free_memory", lambda: swept.append("memory"))
    run_apart(sweep(public.demo, UnreadRuns(public.demo)))
    assert swept == ["this", "memory"]


@pytest.fixture
def files_folder(no_other_sweep, tmp_path, monkeypatch) -> Path:
    """Gradio's folder of files."""
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    return tmp_path


def files_of_each_age(folder: Path, name: str, count: int) -> list[Path]:
    """Files of a hundred bytes; the last one is the oldest."""
    files = [folder / name.format(age) for age in range(count)]
    for age, file in enumerate(files):
        file.write_bytes(bytes(100))
        os.utime(file, (1000 - age, 1000 - age))
    return files


def test_the_oldest_files_go_where_there_are_too_many(files_folder) -> None:
    files = files_of_each_age(files_folder, "{}.bin", 6)
    shown, gone, old, *new = files[5], files[4], files[3], *files[:3]
    gone.unlink()
    kept = [str(shown)]
    remove_old_files(gr.Blocks(), kept, time.time(), 399)
    assert [file.exists() for file in (shown, old, *new)] == [True, False, True, True, True]
    remove_old_files(gr.Blocks(), kept, time.time(), 0)
    assert [file for file in files if file.exists()] == [shown]


def test_the_oldest_files_go_where_there_are_too_many_without_content(
    files_folder, monkeypatch
) -> None:
    monkeypatch.setattr(files_of_gradio, "MOST_FILES", 2)
    files = files_of_each_age(files_folder, "{}.bin", 4)
    remove_old_files(gr.Blocks(), [str(files[3])], time.time(), 10**9)
    assert [file.exists() for file in files] == [True, True, False, True]


def test_a_file_that_windows_keeps_while_it_is_open_holds_up_no_other(
    files_folder, monkeypatch
) -> None:
    files = files_of_each_age(files_folder, "tmp{}", 3)
    unlink = Path.unlink

    def refusing(path: Path, missing_ok: bool = False) -> None:
        if path == files[1]:
            raise PermissionError(13, "It is being used by another process", str(path))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refusing)
    remove_old_files(gr.Blocks(), (), time.time(), 199)
    assert [file.exists() for file in files] == [True, True, False]
    remove_broken_uploads(0)
    assert [file.exists() for file in files] == [False, True, False]


def test_old_files_go_with_their_folders_whoever_wrote_them(files_folder, monkeypatch) -> None:
    """Gradio knows nothing of what a visitor's copy of a part wrote, as of a drawn scene."""
    with Page() as demo:
        gr.HTML()
    now = time.time()
    shown, old, beside, new, alone = (
        files_folder / name for name in ("1/shown", "2/old", "3/old", "3/new", "alone")
    )
    for file, age in ((shown, 9_000), (old, 9_000), (beside, 9_000), (new, 0), (alone, 9_000)):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"x")
        os.utime(file, (now - age, now - age))
    monkeypatch.setattr(demo, "kept_files", {str(shown)})
    run_apart(sweep(demo, UnreadRuns(demo)))
    assert {file for file in files_folder.rglob("*") if file.is_file()} == {shown, new}
    assert {folder.name for folder in files_folder.iterdir()} == {"1", "3"}


def test_no_list_of_files_grows_with_visitors(files_folder) -> None:
    """Gradio has one for each part, also of those that `gr.render` makes for each visitor."""
    with Page() as demo:
        stage = gr.HTML()
    for names in (stage.temp_files, demo.upload_file_set):
        names.add(str(files_folder / "a"))
    with demo:
        gr.HTML()  # as in a panel
    run_apart(sweep(demo, UnreadRuns(demo)))
    assert not (stage.temp_files or demo.upload_file_set or demo.temp_file_sets)


@pytest.mark.parametrize(("most", "free"), [(299, 10**9), (10**9, 90)])
def test_uploads_that_broke_off_count_and_leave_half_of_the_room_of_a_small_disk(
    files_folder, monkeypatch, most: int, free: int
) -> None:
    """They stay for ten minutes, whole ones for two hours: a stranger could keep the disk full."""
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=free))
    files = files_of_each_age(files_folder, "tmp{}", 4)
    remove_old_files(gr.Blocks(), (), time.time(), most)
    assert [file.exists() for file in files] == [True, True, False, False]


@pytest.mark.parametrize("library", [SimpleNamespace(), None])
def test_a_machine_without_glibc_keeps_its_memory(monkeypatch, library) -> None:
    def open_library(name: None) -> SimpleNamespace:
        if library is None:
            raise OSError("no such library")
        return library

    heap.return_free_memory()  # of this machine, which may have it
    monkeypatch.setattr(heap.ctypes, "CDLL", open_library)
    heap.return_free_memory()
    heap.share_heaps()


def test_a_visit_ends_after_idle_minutes(guide, photo_file, monkeypatch) -> None:
    clock = SimpleNamespace(now=1000.0)  # it stands until it is moved
    monkeypatch.setattr(open_visits, "time", SimpleNamespace(monotonic=lambda: clock.now))
    visits = OpenVisits(8, idle_seconds=600)
    visit = guide.look(page_request(photo_file, QUESTION))
    idle, used = visits.put(visit), visits.put(visit)
    clock.now += 400
    assert visits.get(used) is visit
    clock.now += 201
    visits.close_idle()
    assert visits.find(idle) is None and visits.get(used) is visit
    with pytest.raises(ValueError, match=r"not used for some minutes\. Press Ask"):
        visits.get(idle)


def test_large_photos_are_closed_before_many_small_ones(guide, photo_file, monkeypatch) -> None:
    first = guide.look(page_request(photo_file, QUESTION))
    second = guide.look(page_request(photo_file, "Is it red?"))
    monkeypatch.setattr(open_visits, "OPEN_PIXELS", first.photo.width * first.photo.height)
    visits = OpenVisits(8)
    keys = [visits.put(first), visits.put(dataclasses.replace(first))]
    assert len(visits) == 2  # two visits of one photo hold it once
    assert second.photo is not first.photo
    last = visits.put(second)
    assert [visits.find(key) for key in keys] == [None, None] and visits.get(last) is second


def test_a_new_visit_stays_where_another_page_is_closed_meanwhile(monkeypatch) -> None:
    monkeypatch.setattr(open_visits, "OPEN_PIXELS", 1)
    visits, other = OpenVisits(8), []

    class Photo:
        height = 2

        @property
        def width(self) -> int:
            other.clear()  # its key goes with the state of that page
            return 2

    visit = SimpleNamespace(photo=Photo())
    other.append(visits.put(visit))
    assert visits.find(visits.put(visit)) is visit
