"""What is uploaded lies where uploads lie, whatever its name, and no browser runs it."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from gradio.utils import get_upload_folder

SCRIPT = b"<script>alert(1)</script>"


def send(public, name: str, data: bytes, kind: str = "image/png") -> httpx.Response:
    files = {"files": (name, data, kind)}
    return httpx.post(public.api("upload"), files=files, timeout=60)


@pytest.mark.parametrize(
    "name",
    [
        "../../../etc/passwd",
        "/etc/passwd",
        "..\\..\\boot.ini",
        "..",
        ".",
        "a" * 3_000,
        "<b>'\"&.png",
    ],
)
def test_a_name_with_a_path_stays_in_the_upload_folder(public, name: str) -> None:
    answer = send(public, name, b"x" * 10)
    if answer.status_code == 200:
        folder = Path(get_upload_folder()).resolve()
        (path,) = answer.json()
        assert Path(path).resolve().is_relative_to(folder) and Path(path).is_file()
    else:
        assert 400 <= answer.status_code < 500


@pytest.mark.parametrize(
    "name", ["a.html", "a.svg", "a.xhtml", "a.xml", "a.js", "a.pdf", "a", "a.png", "a.jpg", "a.gif"]
)
def test_a_file_that_is_also_a_page_is_not_served_as_one(public, name: str) -> None:
    (path,) = send(public, name, b"GIF89a/*" + SCRIPT, "text/html").json()
    served = httpx.get(public.api(f"file={path}"), timeout=60)
    kind = served.headers["content-type"]
    attached = served.headers["content-disposition"].startswith("attachment")
    assert attached or kind.startswith(("image/png", "image/jpeg", "image/gif"))


@pytest.mark.parametrize("path", ["/etc/passwd", "app.py", "../app.py", "%2e%2e/app.py", "//etc"])
def test_other_files_of_the_disk_are_not_served(public, path: str) -> None:
    assert httpx.get(public.api(f"file={path}"), timeout=60).status_code in (403, 404)
