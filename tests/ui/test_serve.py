"""What serving does to the process beside the page."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import httpx
import pytest
from pages import serving

from spare_demo.cli.main import main
from spare_demo.cli.serve import check_address
from spare_demo.settings import Settings
from spare_demo.threads import on_own_thread
from spare_demo.ui import build, serve
from spare_demo.ui.model_switch import ModelSwitch
from spare_demo.ui.serve import lasting_objects_set_aside


class Loop:
    """Something that only the collector can free."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def libraries_set_aside_again() -> Iterator[None]:
    """As tests/conftest.py does: the end of a page looks through all that exists."""
    yield
    gc.collect()
    gc.freeze()


def test_what_exists_before_the_page_is_collected_only_after_it() -> None:
    gc.unfreeze()
    gc.collect()
    immortal = gc.get_freeze_count()  # objects that Python 3.12 sets aside for ever
    before = Loop()
    old = weakref.ref(before)
    with pytest.raises(KeyboardInterrupt), lasting_objects_set_aside():
        del before
        new = weakref.ref(Loop())
        gc.collect()
        assert old() is not None and new() is None
        raise KeyboardInterrupt  # as every page ends
    gc.collect()
    assert old() is None and gc.get_freeze_count() == immortal


def test_a_start_that_fails_leaves_the_collector_at_work() -> None:
    assert main(["serve", "--host", "999.1.1.1"]) == 1
    assert gc.isenabled()


def test_the_end_waits_for_what_follows_the_start(tiny_model: Any) -> None:
    serving = threading.Event()
    settings = Settings(device="cpu", max_new_tokens=2)
    before = set(threading.enumerate())
    on_own_thread(lambda: build(tiny_model, settings, serving))  # as `serve` builds it
    followers = [t for t in set(threading.enumerate()) - before if "_once_serving" in t.name]
    serving.set()
    assert [follower.daemon for follower in followers] == [False]
    followers[0].join()


@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_a_page_is_served_on_an_ipv6_address(tiny_model: Any, unused_port: int, host: str) -> None:
    settings = Settings(device="cpu", host=host, port=unused_port)
    try:
        check_address(host, 0)
    except ValueError:
        pytest.skip("this machine has no IPv6")
    with serving(tiny_model, settings):
        assert httpx.get(f"{settings.url}/health").json()["status"] == "ok"


@pytest.mark.usefixtures("own_cache")
def test_the_page_of_an_earlier_model_takes_no_memory_though_somebody_sends_to_it(
    tiny_model: Any, unused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[weakref.ref[Any]] = []

    def build_two(*inputs: Any) -> Any:
        if pages:
            raise ValueError("gone" if pages[0]() is None else "still there")
        demo = build(*inputs)
        pages.append(weakref.ref(demo))
        return demo

    def wait_for_next(switch: ModelSwitch) -> tuple[Any, Settings]:
        visitor.putrequest("POST", "/gradio_api/upload")
        for name, value in {
            "Content-Type": "multipart/form-data; boundary=part",
            "Content-Length": "100",
            "Expect": "100-continue",
        }.items():
            visitor.putheader(name, value)
        visitor.endheaders()
        assert visitor.sock.recv(100).startswith(b"HTTP/1.1 100 ")  # what it sends is waited for
        return switch.model, switch.settings

    visitor = HTTPConnection("127.0.0.1", unused_port, timeout=60)
    monkeypatch.setitem(serve.__globals__, "build", build_two)
    monkeypatch.setattr(ModelSwitch, "wait_for_next", wait_for_next)
    with closing(visitor), pytest.raises(ValueError, match="gone"):
        serve(tiny_model, Settings(device="cpu", port=unused_port, max_new_tokens=2))


def test_a_space_is_served_without_gradios_reloader(
    tiny_model, unused_port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("SYSTEM", "spaces")
    monkeypatch.setenv("SPACE_ID", "someone/spare")
    with serving(tiny_model, Settings(device="cpu", port=unused_port, max_new_tokens=2)) as page:
        assert page.demo.server.reloader is None
    assert "RELOAD" not in capsys.readouterr().out
