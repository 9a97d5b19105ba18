"""Work on a thread of its own, and that a server's main thread does none of it."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from typing import NoReturn

import pytest
from ports import free_port

from spare_demo.cli.main import main
from spare_demo.models import LlavaModel
from spare_demo.settings import Settings
from spare_demo.threads import memoize, on_own_thread, wait_interruptibly
from spare_demo.ui import serve


def test_the_thread_ends_with_its_work() -> None:
    thread = on_own_thread(threading.current_thread)
    assert thread is not threading.current_thread()
    thread.join(20)
    assert not thread.is_alive()


def test_what_the_work_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        on_own_thread(lambda: 1 / 0)


def test_an_interrupt_waits_for_nothing() -> None:
    released = threading.Event()

    def work() -> None:
        _thread.interrupt_main()
        released.wait(60)

    try:
        with pytest.raises(KeyboardInterrupt):
            on_own_thread(work)
    finally:
        released.set()


def test_a_signal_that_another_thread_gets_ends_the_waiting() -> None:
    never, previous = threading.Event(), signal.getsignal(signal.SIGTERM)

    def signalled() -> None:
        time.sleep(0.2)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    late = threading.Timer(30, never.set)
    late.start()
    try:
        threading.Thread(target=signalled).start()
        with pytest.raises(KeyboardInterrupt):
            wait_interruptibly(never)
    finally:
        late.cancel()
        signal.signal(signal.SIGTERM, previous)


def say_where(*_: object, **__: object) -> NoReturn:
    raise ValueError("main" if threading.current_thread() is threading.main_thread() else "own")


def test_the_main_thread_of_a_server_loads_no_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr("spare_demo.models.load_model", say_where)
    assert main(["serve", "--model", "built-in", "--port", str(free_port())]) == 1
    assert capsys.readouterr().err == "own\n"


def test_the_main_thread_of_a_server_makes_no_page(
    monkeypatch: pytest.MonkeyPatch, tiny_model: LlavaModel
) -> None:
    monkeypatch.setattr(sys.modules["spare_demo.ui.serve"], "build", say_where)
    with pytest.raises(ValueError, match="own"):
        serve(tiny_model, Settings(public=True))


def test_remembered_tells_arguments_apart() -> None:
    calls: list[tuple[int, bool]] = []

    def double(x: int, twice: bool = False) -> int:
        calls.append((x, twice))
        return 2 * x * (1 + twice)

    recall = memoize(double)
    assert [recall(1), recall(2), recall(1), recall(1, twice=True)] == [2, 4, 2, 4]
    assert calls == [(1, False), (2, False), (1, True)]
