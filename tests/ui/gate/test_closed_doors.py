"""Nothing is fetched, written or taken in beyond what the page needs."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import httpx
import pytest
from gradio.routes import file_upload_statuses
from gradio.utils import get_upload_folder

from spare_demo.ui.gate.doors import MOST_JSON_BYTES, MOST_PARTS
from spare_demo.ui.gradio_compat.files import (
    MOST_FILES_AT_ONCE,
    UploadProgress,
    remove_broken_uploads,
)


@pytest.mark.parametrize(
    "path",
    [
        *("deep_link?session_hash=a", "proxy=http://127.0.0.1/", "component_server", "vibe-code"),
        *("mcp/messages/?session_id=a%0Ab", "custom_component/a%0Ab/client/c/d", "stream/a/close"),
    ],
)
def test_doors_without_use_are_closed(public, path: str, capfd: pytest.CaptureFixture) -> None:
    for method in ("GET", "POST"):
        answer = httpx.request(method, public.api(path), timeout=60)
        assert answer.status_code == 404
        assert answer.json() == {"detail": "There is nothing at this address."}
    assert capfd.readouterr() == ("", "")


def test_no_video_is_taken_in(public) -> None:
    files = {"video": ("a.mp4", b"x" * 100, "video/mp4")}
    assert httpx.post(public.api("process_recording"), files=files, timeout=60).status_code == 404


@pytest.mark.parametrize(
    "path", ["file=http://{}/", "file=HTTP://{}/", "file=%68ttp://{}/", "file/http://{}/"]
)
@pytest.mark.parametrize("root", ["gradio_api/", ""])
def test_no_address_is_fetched(public, path: str, root: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        address = path.format(f"127.0.0.1:{server.getsockname()[1]}")
        answer = httpx.get(f"{public.url}/{root}{address}", timeout=60, follow_redirects=False)
        assert answer.status_code == 403 and "fetches nothing" in answer.json()["detail"]
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.fixture(scope="module")
def small(serve_public, tmp_path_factory: pytest.TempPathFactory):
    """A page that takes a megabyte in one request, its uploads apart from those of other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(tmp_path_factory.mktemp("uploads")))
        yield serve_public(max_request_bytes=1_000_000)


def uploaded() -> set[Path]:
    return {path for path in Path(get_upload_folder()).rglob("*") if path.is_file()}


def test_many_files_in_one_request_are_refused_unread(small) -> None:
    before = uploaded()
    answer = small.upload(*[bytes(250_000) for _ in range(60)])
    assert answer.status_code == 413
    assert answer.json()["detail"].endswith("larger than 1 MB. Send one picture at a time.")
    assert uploaded() == before


def test_an_upload_of_very_many_small_files_holds_few_descriptors(small) -> None:
    """Each would be held open until the last one is there, which may never come."""
    before = uploaded()
    answer = small.upload(*[b"%d" % number for number in range(MOST_FILES_AT_ONCE + 1)])
    assert answer.status_code == 400 and "Too many files" in answer.text
    assert uploaded() == before
    assert small.upload(*[b"%d" % number for number in range(MOST_FILES_AT_ONCE)]).is_success


def test_a_length_that_is_not_announced_is_counted(small) -> None:
    def chunks():
        head = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n'
        for _ in range(8):
            yield head + bytes(250_000) + b"\r\n"
        yield b"--b--\r\n"

    before = uploaded()
    kind = {"content-type": "multipart/form-data; boundary=b"}
    try:
        answer = httpx.post(small.api("upload"), content=chunks(), headers=kind, timeout=60)
        assert answer.status_code == 413 and "larger than 1 MB" in answer.json()["detail"]
    except httpx.TransportError:
        pass  # cut off while it was still sending
    for path in uploaded() - before:  # what the sweep is to find ten minutes later
        os.utime(path, (1, 1))
    remove_broken_uploads(600)
    assert uploaded() == before


@pytest.mark.parametrize("path", ["run/x", "queue/join", "call/select", "cancel", "reset"])
def test_a_request_of_very_many_parts_is_refused_unread(public, path: str) -> None:
    """The server would read it for half a minute, and answer nobody meanwhile."""
    lists = {"fn_index": 0, "session_hash": "a", "data": [[]] * (MOST_PARTS // 2)}
    answer = public.post(path, lists)
    assert answer.status_code == 413 and "Upload the picture as a file" in answer.json()["detail"]


def test_a_request_without_a_picture_is_small(public) -> None:
    assert MOST_JSON_BYTES < 1_000_000  # some things of it are kept for a minute
    body = {"fn_index": 0, "session_hash": "a" * MOST_JSON_BYTES, "data": []}
    for path in ("run/x", "queue/join", "call/select"):
        assert public.post(path, body).status_code == 413


def test_a_list_of_all_patches_is_no_such_request(public) -> None:
    numbers = json.dumps([*range(20_000)])
    assert "There is no picture" in public.call("answer", [None, "What?", numbers, ""]).text


@pytest.mark.parametrize("path", ["upload", "upload_progress"])
def test_a_long_name_of_an_upload_is_refused(public, path: str) -> None:
    address = public.api(f"{path}?upload_id={'u' * 60_000}")
    assert httpx.request("POST" if path == "upload" else "GET", address).status_code == 400


def test_names_of_uploads_are_forgotten(public) -> None:
    progress = UploadProgress()
    names = (file_upload_statuses._statuses, file_upload_statuses._signals)
    files = {"files": ("a.png", b"whole", "image/png")}
    assert httpx.post(public.api("upload?upload_id=mine"), files=files, timeout=60).json()
    httpx.get(public.api("upload_progress?upload_id=nobodys"), timeout=60)
    progress.forget()
    assert all("mine" in values for values in names) and "nobodys" in names[1]  # may be read yet
    progress.forget()
    assert not any({"mine", "nobodys"} & set(values) for values in names)


def test_uploads_that_broke_off_are_swept_and_whole_ones_stay(small) -> None:
    (whole,) = small.upload(b"whole").json()
    folder = Path(get_upload_folder())
    broken, fresh = folder / "tmpbroken01", folder / "tmpfresh01"
    for path in (broken, fresh):
        path.write_bytes(b"half")
    os.utime(broken, (1, 1))
    os.utime(whole, (1, 1))
    remove_broken_uploads(600)
    assert not broken.exists() and fresh.exists() and Path(whole).exists()
    fresh.unlink()
