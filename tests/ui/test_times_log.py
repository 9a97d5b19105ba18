"""The log of times: a line for each question, with its stages and nothing of what was asked."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gradio_client import Client, handle_file
from visits import controls

from spare_demo.cli.main import main
from spare_demo.ui import times_log
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.times_log import with_times
from spare_demo.ui.visit import Visit

QUESTION = "How many crosses are there?"
STAGES = {"encode", "relevance", "select"}
Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    """The lines that were logged since they were last asked for."""
    caplog.set_level(logging.INFO, times_log.__name__)

    def read() -> list[dict[str, Any]]:
        found = [json.loads(r.message) for r in caplog.records if r.name == times_log.__name__]
        caplog.clear()
        return found

    return read


@pytest.fixture
def ask(handlers: Handlers, lines: Lines) -> Callable[..., Visit]:
    """Asks as the page does where lines are written; the visit at the end."""
    timed = with_times(handlers.ask, "ask", handlers.model.name)

    def run(path: str, question: str, visit: Visit | None = None) -> Visit:
        steps = timed(**controls(path, question, visit=visit))
        return [values["visit"] for values in steps if "visit" in values][-1]

    return run


def test_a_question_is_one_line_with_its_stages(ask, lines: Lines, photo_file: str) -> None:
    visit = ask(photo_file, QUESTION)
    (line,) = lines()
    seconds = line.pop("seconds")
    assert line == {
        "event": "ask",
        "model": visit.result.model,
        "end": "finished",
        "methods": ["spare", "cdpruner"],
        "budget": 5,
        "visual_tokens": visit.exploration.n,
    }
    assert set(seconds) == STAGES | {"wait", "prefill", "decode", "total"}
    assert seconds["wait"] is None  # it came through no queue
    answers = visit.result.answers
    decode = {label: answer.decode_seconds for label, answer in answers.items()}
    assert seconds["decode"] == pytest.approx(decode, abs=1e-4)
    assert set(seconds["prefill"]) == {"unpruned", "A", "B"}
    assert seconds["encode"] == pytest.approx(visit.result.encode_seconds, abs=1e-4)
    assert seconds["total"] > seconds["encode"] + sum(seconds["prefill"].values())


def test_only_what_ran_has_a_time(handlers: Handlers, ask, lines: Lines, photo_file: str) -> None:
    visit = ask(photo_file, QUESTION)
    ask(photo_file, "Is it red?", visit)
    model = handlers.model.name
    change = with_times(handlers.change_methods, "change_methods", model)
    names = {"method_a": "random", "method_b": "cdpruner", "seed": 0, "budget": 5}
    *_, last = change(**names, visit=visit)
    settle = with_times(handlers.settle, "settle", model)
    list(settle(budget=5, visit=last["visit"]))
    list(settle(budget=4, visit=last["visit"]))
    times = [line["seconds"] for line in lines()[1:]]
    made = [{*seconds} - {"wait", "total", "prefill", "decode"} for seconds in times]
    assert made == [{"relevance", "select"}, {"select"}, set(), set()]
    answered = [[*seconds.get("prefill", {})] for seconds in times]
    assert answered == [["unpruned", "A", "B"], ["A"], [], ["A", "B"]]


def test_a_finished_example_ran_nothing(handlers: Handlers, ask, lines: Lines) -> None:
    handlers.prepare()
    example = handlers.offered[0]
    timed = with_times(handlers.ask, "ask", handlers.model.name)
    asked = controls(example.path, example.question) | {"aspect": handlers.model.aspect(None)}
    asked |= {"budget": handlers.opening.budget}
    list(timed(**asked))
    (line,) = lines()
    assert set(line["seconds"]) == {"wait", "total"} and line["visual_tokens"] > 0


def test_a_refused_and_a_left_turn_say_so(
    handlers: Handlers, ask, lines: Lines, photo_file: str
) -> None:
    with pytest.raises(ValueError):
        ask(photo_file, "why " * 200)
    (refused,) = lines()
    assert refused["end"] == "refused" and set(refused["seconds"]) == {"wait", "total"}
    steps: Iterator = with_times(handlers.ask, "ask", "a model")(**controls(photo_file, QUESTION))
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    (left,) = lines()
    assert left["end"] == "left" and set(left["seconds"]) >= STAGES
    assert "prefill" not in left["seconds"]


def test_the_operations_of_the_api_are_logged(served, lines: Lines, photo_file: str) -> None:
    client = Client(served.url, verbose=False)
    image = handle_file(photo_file)
    client.predict(image, QUESTION, api_name="/compare")
    client.predict(image, QUESTION, "[3, 17]", api_name="/answer")
    client.predict(image, QUESTION, api_name="/select")
    client.predict(image, QUESTION, False, api_name="/relevance")
    compare, answer, select, relevance = lines()
    assert [line["event"] for line in (compare, answer, select, relevance)] == [
        *("compare", "answer", "select", "relevance")
    ]
    assert set(compare["seconds"]) == STAGES | {"wait", "prefill", "decode", "total"}
    assert set(answer["seconds"]["prefill"]) == {"mine", "unpruned"}
    assert set(relevance["seconds"]) == {"wait", "encode", "relevance", "total"}
    assert all(line["seconds"]["wait"] >= 0 for line in (compare, answer, select, relevance))


def test_nothing_of_a_visitor_is_in_a_line(served, lines: Lines, photo_file: str) -> None:
    path = Path(photo_file).with_name("holiday-in-spring.png")
    Path(photo_file).rename(path)
    client = Client(served.url, verbose=False)
    result = client.predict(handle_file(str(path)), "Who is Aurelia?", api_name="/compare")
    with pytest.raises(Exception, match="There is no method"):
        client.predict(handle_file(str(path)), "Who is Aurelia?", "Aurelia", api_name="/select")
    text = json.dumps(lines())
    assert text.count('"event"') == 2
    private = ["Aurelia", "holiday", "127.0.0.1", "testclient", str(path.parent)]
    private += [answer["text"] for answer in result["answers"].values()]
    assert not [word for word in private if word and word in text]


@pytest.fixture
def quiet_log(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    """The log as it is before anything is started; so it is again after the test."""
    log = logging.getLogger(times_log.__name__)
    for name in ("handlers", "propagate"):
        monkeypatch.setattr(log, name, getattr(log, name))
    yield log
    log.setLevel(logging.NOTSET)


@pytest.mark.parametrize("flags", [[], ["--log-times"]])
def test_the_setting_writes_lines_to_standard_error(
    flags: list[str],
    quiet_log: logging.Logger,
    unused_port: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    def take_a_turn(*_: object) -> None:
        with times_log.logged_turn("ask", "a model"):
            pass

    monkeypatch.setattr("spare_demo.models.load_model", lambda *_, **__: None)
    monkeypatch.setattr("spare_demo.ui.serve", take_a_turn)
    assert main(["serve", "--port", str(unused_port), *flags]) == 0
    written = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["end"] for line in written] == ["finished"] * len(flags)


def test_where_nothing_is_written_a_handler_is_left_as_it_is(handlers: Handlers) -> None:
    assert with_times(handlers.ask, "ask", "a model") == handlers.ask
