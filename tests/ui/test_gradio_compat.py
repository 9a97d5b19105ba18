"""Gradio makes a visitor's parts anew from their class; they have to stay what they are."""

from __future__ import annotations

import inspect
import os
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import proxy_bypass_environment

import gradio as gr
import pytest
from gradio import component_meta
from gradio.state_holder import SessionState
from pages import run_apart
from PIL import Image

import spare_demo.ui
from spare_demo.ui.gradio_compat.building import without_unserved_apps
from spare_demo.ui.gradio_compat.importing import without_type_files
from spare_demo.ui.gradio_compat.parts import NumberAsSent, SliderAsSent, photo_input
from spare_demo.ui.gradio_compat.processing import Page
from spare_demo.ui.gradio_compat.queue import (
    LOOK_EVERY,
    estimate_nothing_of,
    look_less_often,
)
from spare_demo.ui.gradio_compat.server import pass_by_proxies
from spare_demo.ui.gradio_compat.sessions import keep_sessions_lean


def test_gradio_is_imported_without_looking_at_its_files_of_types(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []

    def look(code: str, name: str) -> tuple[None, None]:
        looked.append(name)
        return None, None

    monkeypatch.setattr(component_meta, "extract_class_source_code", look)
    with without_type_files():
        component_meta.create_or_modify_pyi(gr.Number, "Number", [])
        assert Path(inspect.getfile(SessionState)).name == "state_holder.py"
    assert looked == []
    with pytest.raises(ValueError):
        component_meta.create_or_modify_pyi(gr.Number, "Number", [])
    assert looked == ["Number"]


def test_only_the_app_that_is_served_is_made() -> None:
    with without_unserved_apps():
        with gr.Blocks(analytics_enabled=False) as built:
            gr.Number()
        built.queue(max_size=3)
    assert built.app is None
    with gr.Blocks(analytics_enabled=False) as other:
        gr.Number()
    assert other.app is not None


@pytest.mark.parametrize(
    ("part", "sent"), [(NumberAsSent(3), -1.5), (SliderAsSent(1, 9, 3), 400), (NumberAsSent(), "a")]
)
def test_numbers_come_as_they_were_typed(part: gr.Number | gr.Slider, sent: object) -> None:
    anew = part.__class__(**part.constructor_args)
    assert part.preprocess(sent) == anew.preprocess(sent) == sent


@pytest.fixture
def uploads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that Gradio puts uploads in."""
    folder = tmp_path / "uploads"
    folder.mkdir()
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(folder))
    return folder


def test_a_picture_comes_as_its_file_and_unread(uploads: Path) -> None:
    path = uploads / "no-picture.png"
    path.write_bytes(b"not a picture at all")
    part = photo_input()
    anew = part.__class__(**part.constructor_args)
    for image in (part, anew):
        assert image.preprocess(image.data_model(path=str(path))) == str(path)
        with pytest.raises(gr.Error, match="handle_file"):
            image.data_model.model_validate("photo.png")


def test_no_other_file_of_the_server_is_read(uploads: Path, tmp_path: Path) -> None:
    private = tmp_path / "private.png"
    Image.new("RGB", (4, 4)).save(private)
    (uploads / "link.png").symlink_to(private)
    os.mkfifo(uploads / "pipe.png")
    others = [
        private,
        tmp_path / "not-there.png",
        uploads / ".." / "private.png",
        uploads / "link.png",
        uploads / "pipe.png",
        uploads,
        Path("/dev/zero"),
        "no\0name.png",
    ]
    part = photo_input()
    for path in others:
        with pytest.raises(gr.Error, match=r"^'?The picture could not be opened. Choose it again"):
            part.preprocess(part.data_model(path=str(path)))


@pytest.mark.parametrize("address", ["http://example.com/a.png", "https://a.b/gradio_api/file=/x"])
def test_no_address_is_fetched(address: str) -> None:
    part = photo_input()
    for image in (part, part.__class__(**part.constructor_args)):
        with pytest.raises(gr.Error, match="fetches nothing"):
            run_apart(image.async_move_resource_to_block_cache(address))


def test_the_page_knows_them_and_nothing_is_written_beside_the_source() -> None:
    names = [part.get_block_name() for part in (photo_input(), NumberAsSent(), SliderAsSent())]
    assert names == ["image", "number", "slider"]
    assert not list(Path(spare_demo.ui.__file__).parent.rglob("*.pyi"))


def steps() -> list[dict[str, Any]]:
    """Changes of some parts, made anew: Gradio takes what it needs out of an update."""
    return [
        {"words": "yes"},
        {"visit": 7},
        {"words": "no", "visit": 8},
        {"button": gr.update(visible=False)},
        {"button": gr.update(interactive=True), "words": "yes", "menu": gr.update(value="b")},
    ]


def test_a_step_sends_what_gradio_would_and_makes_nothing_else_anew() -> None:
    with Page() as demo:
        parts = {
            "words": gr.HTML(),
            "visit": gr.State(),
            "button": gr.Button(),
            "menu": gr.Dropdown(["a", "b"]),
        }
        parts["button"].click(lambda: None, None, [*parts.values()])
    (event,) = (one for one in demo.fns.values() if len(one.outputs) == len(parts))

    async def send(
        step: dict[str, object], session: SessionState, process: Any = None
    ) -> list[Any]:
        changes = {parts[name]: value for name, value in step.items()}
        sent = await (process or demo.postprocess_data)(event, changes, session)
        # Of HTML it says beside that no setting of its template changed.
        return [{**one, "props": None} if isinstance(one, dict) else one for one in sent]

    async def send_all(session: SessionState, process: Any = None) -> list[list[Any]]:
        return [await send(step, session, process) for step in steps()]

    theirs, ours, once = (SessionState(demo) for _ in range(3))
    expected = run_apart(send_all(theirs, partial(gr.Blocks.postprocess_data, demo)))
    assert run_apart(send_all(ours)) == expected
    run_apart(send({"words": "", "visit": 1}, once))
    assert ours[parts["visit"]._id] == theirs[parts["visit"]._id] == 8
    assert all(once[parts[name]._id] is parts[name] for name in ("button", "menu"))


def test_a_panel_that_is_made_meanwhile_ends_no_event_in_an_error() -> None:
    with Page() as demo:
        words, other, kept = gr.HTML(), gr.State([4]), gr.State(3)
        words.change(lambda: None, None, [words, other, kept])
        kept.change(lambda: None, None, words)
    event, session = demo.fns[0], SessionState(demo)
    theirs = partial(gr.Blocks.get_state_ids_to_track, demo)
    expected = theirs(event, session)
    assert expected[0] == [kept._id]
    assert demo.get_state_ids_to_track(event, None) == theirs(event, None)
    assert demo.get_state_ids_to_track(event, session) == expected
    session[kept._id] = 5
    assert demo.get_state_ids_to_track(event, session) == theirs(event, session) != expected

    class Growing(dict):  # as another thread lets it grow
        def values(self) -> Any:
            for value in super().values():
                yield value
                self[len(self)] = value

    session.blocks_config.fns = Growing(session.blocks_config.fns)
    with pytest.raises(RuntimeError, match="changed size"):
        theirs(event, session)
    assert demo.get_state_ids_to_track(event, session)[0] == [kept._id]


def test_a_session_works_without_the_settings_that_only_deep_links_read() -> None:
    with gr.Blocks() as demo:
        words, kept = gr.HTML("first"), gr.State(3)

        @gr.render(inputs=words)
        def more(text: str) -> None:
            gr.Textbox(text, label="rendered")

        words.change(lambda: None, None, [words, kept])
    theirs, whole = SessionState(demo), demo.get_config_file()
    assert any(theirs.components)
    keep_sessions_lean(demo)
    ours = SessionState(demo)
    assert not any(ours.components) and demo.get_config_file() == whole
    assert ours[kept._id] == theirs[kept._id] == 3 and ours[words._id] is words
    ours[words._id] = another = gr.HTML("second", render=False)
    assert ours[words._id] is another and demo.blocks[words._id] is words
    rendered = demo.renderables[0]
    config = ours.blocks_config.config_for_block(9, [9], gr.Textbox(render=False), rendered)
    assert config["renderable"] == rendered._id  # which the browser reads


def test_a_part_that_changes_is_no_part_more_for_its_visitor() -> None:
    with Page() as demo:
        words, number = gr.HTML("first"), gr.Number(1)
        change = words.change(lambda: None, None, [words, number])
    keep_sessions_lean(demo)
    session = SessionState(demo)
    event, parts = demo.fns[change["id"]], set(session.blocks_config.blocks)
    for count in range(3):
        values = [gr.update(value=f"<b>{count}</b>", visible=True), gr.update(minimum=count)]
        for sent in (values, [str(count), count]):  # Gradio has an entry more after the second
            run_apart(demo.postprocess_data(event, sent, session))
            assert set(session.blocks_config.blocks) == parts
    assert session[number._id].minimum == 2 and number.minimum is None


def test_an_idle_queue_is_looked_at_less_often_than_gradio_does() -> None:
    with gr.Blocks() as demo:
        gr.Textbox()
    names = ("sleep_when_free", "progress_update_sleep_when_free")
    assert all(getattr(demo._queue, name) < LOOK_EVERY for name in names)  # of Gradio's own
    look_less_often(demo)
    assert all(getattr(demo._queue, name) == LOOK_EVERY for name in names)
    demo._queue.events_recorded = 1
    assert demo._queue.compute_analytics_summary([{"time": 0.0}]) == {"functions": {}}


def test_who_waits_behind_a_run_of_any_length_sees_no_seconds() -> None:
    with gr.Blocks() as demo:
        runs = [gr.Button().click(lambda: None, concurrency_id="model") for _ in range(2)]
    quick, study = (demo.fns[run["id"]] for run in runs)
    demo.queue()
    estimate_nothing_of(demo, runs[1:])
    queue, sent = demo._queue, []
    queue.send_message = lambda event, message: sent.append(message.rank_eta)
    queue.create_event_queue_for_fn(quick)
    line = queue.event_queue_per_concurrency_id["model"]
    line.queue = [SimpleNamespace(fn=quick, streaming=False)]
    line.current_concurrency = 1
    for event in (quick, study):
        queue.process_time_per_fn[event].add(2.0)
        line.start_times_per_fn = {event: {time.time()}}
        queue.broadcast_estimations("model")
    assert sent[0] > 2 and sent[1] is None


@pytest.mark.parametrize("name", ["no_proxy", "NO_PROXY"])
def test_the_pages_own_address_joins_those_that_no_proxy_is_for(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {name: "example.org", "HTTP_PROXY": "http://10.0.0.1:3128"}
    monkeypatch.setattr("os.environ", environment)
    pass_by_proxies("127.0.0.1", "")
    for host in ("127.0.0.1", "127.0.0.1:7860", "example.org"):
        assert proxy_bypass_environment(host)
    assert not proxy_bypass_environment("huggingface.co")
