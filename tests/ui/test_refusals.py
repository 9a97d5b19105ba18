"""What the page refuses, and what goes wrong on its disk, is one sentence and one line of log."""

from __future__ import annotations

import errno
import json
import logging
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from pages import Page, run_apart
from visits import QUESTION, controls

from spare_demo.models import LlavaModel
from spare_demo.settings import Settings
from spare_demo.ui import build
from spare_demo.ui.errors import (
    MOST_COUNTED,
    NO_FILES,
    SORRY,
    Counter,
    RepeatFilter,
    fault_sentence,
    sentence,
)
from spare_demo.ui.gradio_compat.files import files_in_cache
from spare_demo.ui.gradio_compat.parts import with_event_data
from spare_demo.ui.handler_wrappers import with_page, with_refusals
from spare_demo.ui.handlers import NO_QUESTION, Handlers
from spare_demo.ui.open_visits import CLOSED, OpenVisits, VisitKey
from spare_demo.ui.visit import Visit


def test_a_refused_call_prints_no_traceback(
    public: Page, photo_file: str, capfd: pytest.CaptureFixture, caplog: pytest.LogCaptureFixture
) -> None:
    picture = public.picture(photo_file)
    for data, words in (
        ([picture, QUESTION, "nonsense", 5, 0], "There is no method 'nonsense'"),
        ([picture, QUESTION, None, 5, 0], "A method is called by its name. Choose one of: spare"),
        ([picture, QUESTION, "spare", "NaN", 0], "A budget of nan visual tokens"),
        ([picture, QUESTION, "spare", {"k": 1}, 0], "This budget is not possible."),
        ([picture, QUESTION, "spare", 5, "x"], "The seed must be a whole number"),
        ([picture, "x\ud800", "spare", 5, 0], "a character that is not valid"),
        ([picture], "Too few inputs were sent. Send image, question, method, budget, seed."),
        ([{"path": "/etc/passwd"}, QUESTION, "spare", 5, 0], "Choose it again"),
        (["photo.png", QUESTION, "spare", 5, 0], "Send the picture as a file"),
        ([picture | {"path": "/photo\nx"}, QUESTION, "spare", 5, 0], "could not be read"),
        (
            [picture | {"url": {"photo": 1}}, QUESTION, "spare", 5, 0],
            "could not be read. Upload a picture",
        ),
        (
            [picture | {"path": "photo\0"}, QUESTION, "spare", 5, 0],
            "could not be read. Upload a picture",
        ),
        (
            [picture | {"path": "photo" * 1000}, QUESTION, "spare", 5, 0],
            "could not be read. Upload a picture",
        ),
    ):
        assert words in public.call("select", data).content.decode("unicode_escape")
    two = '{"a": [1], "b": [2]}'
    assert "2 lists of patches, and one is wanted" in public.call("answer", [picture, "", two]).text
    for record in caplog.records:
        assert QUESTION not in record.getMessage() and "photo" not in record.getMessage()
    assert "Traceback" not in "".join(capfd.readouterr())
    assert "event: complete" in public.call("select", [picture, QUESTION, "spare", 5, 0]).text


def test_what_is_not_offered_is_refused_without_pythons_words(public: Page) -> None:
    (change,) = (e for e in public.demo.fns.values() if getattr(e.fn, "__name__", "") == "menus")
    of_browser = next(e for e in public.demo.fns.values() if e.fn is None)
    for event in (change, of_browser):
        with pytest.raises(gr.Error, match="not offered here any more") as refused:
            run_apart(public.demo.process_api(event, ["guess", "spare", "uniform"]))
        assert not refused.value.print_exception


def test_a_refusal_is_logged_once_and_then_counted(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(words: str) -> str:
        try:
            raise ValueError(words)
        except ValueError as error:
            return sentence(error)

    with caplog.at_level(logging.WARNING):
        assert [refuse(f"{word}?") for word in ("One", "Two")] == ["One?", "Two?"]
    (record,) = caplog.records
    assert "Refused at test_refusals.py:" in record.getMessage()
    assert "One" not in record.getMessage() and record.exc_info is None
    counter = Counter(0.0)
    assert [counter.times("a"), counter.times("a")] == [1, 1]
    counter = Counter(1e9)
    assert [counter.times("a"), counter.times("b"), counter.times("a")] == [1, 1, 0]
    for number in range(MOST_COUNTED):
        counter.times(number)
    assert [counter.times("b"), counter.times(MOST_COUNTED - 1)] == [1, 0]  # not all are known


def test_what_the_server_logs_again_and_again_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    logger, quiet = logging.getLogger("asyncio"), RepeatFilter(Counter(1e9))
    logger.addFilter(quiet)
    try:
        for _ in range(1_000):
            logger.error("socket.accept() out of system resource")
        logger.error("another")
    finally:
        logger.removeFilter(quiet)
    assert [record.getMessage() for record in caplog.records] == [
        "socket.accept() out of system resource",
        "another",
    ]
    often = RepeatFilter(Counter(0.0))
    record = logging.makeLogRecord({"name": "asyncio", "msg": "%s out", "args": ("all",)})
    often._counter._seen[("asyncio", "all out")] = (0.0, 41)
    assert often.filter(record)
    assert record.getMessage() == "all out (42 since the last such line)"


@pytest.mark.parametrize("kind", [ConnectionResetError, ConnectionAbortedError, OSError])
def test_a_client_that_left_is_no_fault_on_windows(kind: type[OSError]) -> None:
    """There its loop logs a traceback for each connection that a browser closed."""
    words = "Exception in callback _ProactorBasePipeTransport._call_connection_lost(None)"
    error = kind(10054, "An existing connection was forcibly closed by the remote host")
    facts = {"name": "asyncio", "msg": words, "exc_info": (kind, error, None)}
    logged = RepeatFilter(Counter(0.0)).filter(logging.makeLogRecord(facts))
    assert logged == (kind is OSError)


def test_words_of_a_library_are_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    assert fault_sentence(ValueError("not enough values to unpack")) == SORRY
    (record,) = caplog.records
    assert record.getMessage().endswith("ValueError: 'not enough values to unpack'\n")


def test_what_a_visitor_sent_is_logged_short_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    try:
        try:
            raise KeyError("inside")
        except KeyError as cause:
            raise OSError("Cannot open a\nERROR:root:Forged" + "x" * 10_000) from cause
    except OSError as error:
        assert fault_sentence(error) == SORRY
    (record,) = caplog.records
    lines = record.getMessage().splitlines()
    assert not any(line.startswith("ERROR") or len(line) > 400 for line in lines)
    assert any("test_refusals.py" in line for line in lines)
    assert [line[:8] for line in lines if not line.startswith(" ")][1:] == ["KeyError", "OSError:"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EMFILE])
def test_a_full_disk_ends_one_question(
    handlers: Handlers, photo_file: str, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    ask = with_page(handlers.ask, OpenVisits(1).find)

    def fail(*_: object) -> None:
        raise OSError(number, "No room")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", fail)
        (only,) = ask(**controls(photo_file, QUESTION))
    assert set(only) == {"message"} and NO_FILES in only["message"]
    served = [
        values["stage"] for values in ask(**controls(photo_file, QUESTION)) if "stage" in values
    ]
    assert Path(served[0]).stat().st_size > 1000


def test_a_file_to_hand_over_lies_on_the_disk_or_is_refused_in_words(
    finished: Visit, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the reply it would stay in memory for as long as somebody takes to read that."""
    cite = with_page(handlers.replies.cite, OpenVisits(1).find, place="file")

    def cited() -> dict[str, Any]:
        (step,) = cite({"panels": ["kept"]}, finished)
        assert set(step) == {"reply"} and len(step["reply"]) < 1000
        return json.loads(step["reply"])

    sent = cited()
    assert (sent["kind"], sent["name"]) == ("file", "spare-comparison.zip")
    assert zipfile.is_zipfile(sent["path"]) and sent["path"] in files_in_cache()
    Path(sent["path"]).unlink()

    def fail(path: Path, data: bytes) -> None:
        with open(path, "wb") as file:
            file.write(data[:10])
        raise OSError(errno.ENOSPC, "No room")

    monkeypatch.setattr(Path, "write_bytes", fail)
    refused = cited()
    assert (refused["kind"], refused["sentence"]) == ("refused", NO_FILES)
    folders = {os.path.dirname(file) for file in files_in_cache()}
    assert os.path.dirname(sent["path"]) in folders, "where a sweep clears a piece away"


def test_a_removed_folder_is_made_again(handlers: Handlers, photo_file: str) -> None:
    handlers.scenes.rmdir()
    assert Path(handlers.new_scene()[0]).is_file()


def test_one_file_is_made_at_a_time(tiny_model: LlavaModel) -> None:
    demo = build(tiny_model, Settings(budget=5, max_new_tokens=2))
    limits = {
        event.targets[0][1]: (event.concurrency_id, event.concurrency_limit)
        for event in demo.fns.values()
        if event.targets
    }
    assert limits["cite"] == limits["save_page"] == ("file", 1)


@pytest.mark.parametrize("name", ["cite", "save_page"])
def test_the_button_of_a_file_is_told_that_its_comparison_was_closed(
    tiny_model: LlavaModel, name: str
) -> None:
    """It says “Making it …” until it is told, and cannot be pressed."""
    demo = build(tiny_model, Settings(budget=5, max_new_tokens=2))
    (event,) = (e for e in demo.fns.values() if name in (kind for _, kind in e.targets))
    (reply,) = event.fn(VisitKey(), SimpleNamespace(_data={"panels": ["kept"]})).values()
    sent = json.loads(reply)
    assert sent["kind"] == "refused" and "was closed" in sent["sentence"]


def test_the_page_that_waits_for_a_reply_is_told_that_none_will_come() -> None:
    def fail() -> Iterator[dict[str, Any]]:
        raise ValueError("No maps today.")
        yield {}

    message, reply = with_refusals(fail, asked="words")()
    assert "No maps today." in message["message"]
    assert json.loads(reply["reply"]).items() >= {"kind": "unanswered", "asked": "words"}.items()
    (message,) = with_refusals(fail)()
    assert "No maps today." in message["message"]


def _refused_in_the_corner(page: Page, name: str, *inputs: Any) -> str:
    """In which words an event that no page of ours sends is refused, without a traceback."""
    event = next(event for event in page.demo.fns.values() if event.name == name)
    with pytest.raises(gr.Error) as refused:
        event.fn(*inputs)
    assert not refused.value.print_exception
    return refused.value.message


@pytest.mark.parametrize("index", [None, "0", 10**18, -1, [0]])
def test_what_is_not_there_to_be_clicked_is_refused(public: Page, index: Any) -> None:
    said = _refused_in_the_corner(public, "load_example", index, None)
    assert said == "This one is not on the page any more. Click one that is shown."
    for data in ({"index": index}, index):
        lab = (None, [], None, None, None, SimpleNamespace(_data=data))
        assert _refused_in_the_corner(public, "opened", *lab) == said


def test_a_method_that_is_none_is_refused_wherever_menus_are_read(public: Page) -> None:
    words = "A method is called by its name."
    assert words in _refused_in_the_corner(public, "line_html", None)
    assert words in _refused_in_the_corner(public, "menus", "clip", None, "spare")
    with gr.Blocks() as panel:
        public.demo.renderables[0].fn(None)
    (message,) = panel.blocks.values()
    assert words in message.value


@pytest.mark.parametrize("data", [None, "kept", 5, ["kept"]])
def test_an_event_with_other_than_fields_is_one_without_any(data: Any) -> None:
    sent = with_event_data(lambda asked, visit: {"asked": dict(asked)})
    assert sent(None, SimpleNamespace(_data=data)) == {"asked": {}}


def test_other_values_than_the_page_sends_are_refused_in_a_sentence(
    handlers: Handlers, finished: Visit, photo_file: str
) -> None:
    (asked,) = with_refusals(handlers.ask)(**controls(photo_file, None))
    assert NO_QUESTION in asked["message"]
    (own,) = with_refusals(handlers.ask_own, place="own")(5, finished)
    assert "a list of whole numbers" in own["own"]
    (cited,) = with_refusals(handlers.replies.cite)({"panels": 5}, finished)
    assert "Choose at least one picture" in cited["message"]


def test_a_question_that_is_no_text_is_not_asked(public: Page, handlers: Handlers) -> None:
    (box,) = (part for part in public.demo.blocks.values() if part.elem_id == "question")
    with pytest.raises(gr.Error, match="Question must be text"):
        box.preprocess(["x"])
    (opened,) = handlers.reopen({"query": {"q": ["x"]}}, None)  # type: ignore[arg-type]
    assert set(opened) == {"notice"}


def test_a_link_that_cannot_be_opened_is_refused_beside_the_link(public: Page) -> None:
    (event,) = (e for e in public.demo.fns.values() if "reopen" in (kind for _, kind in e.targets))
    ((part, words),) = event.fn(VisitKey(), SimpleNamespace(_data={})).items()
    assert CLOSED in words and part in event.outputs
