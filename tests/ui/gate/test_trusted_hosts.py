"""A page elsewhere that names itself like this machine reads nothing of a private page."""

from __future__ import annotations

import httpx
import pytest

from spare_demo.ui.gate.doors import host_name


@pytest.fixture(scope="module")
def private(serve_public):
    """A page that was started without --public, and answers to one more name."""
    return serve_public(public=False, trusted_hosts=("Lab-3.example",))


@pytest.mark.parametrize("path", ["/", "/config", "/gradio_api/info", "/preview.png", "/health"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:7860"},
        {"Host": "[::1"},
        {"Host": "evil.example:7907@127.0.0.1"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
def test_a_foreign_name_or_page_is_refused(private, path: str, headers: dict) -> None:
    answer = httpx.get(private.url + path, headers=headers, timeout=60)
    assert answer.status_code == 403
    assert "--trusted-hosts" in answer.json()["detail"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "localhost:7860"},
        {"Host": "LOCALHOST"},
        {"Host": "[::1]:7860"},
        {"Host": "lab-3.example:80", "Origin": "http://lab-3.example"},
    ],
)
def test_its_own_names_are_answered(private, headers: dict) -> None:
    assert httpx.get(private.url, headers=headers, timeout=60).status_code == 200


def test_a_public_page_answers_to_any_name(public) -> None:
    headers = {"Host": "pictures.example", "Origin": "https://elsewhere.example"}
    assert httpx.get(public.url, headers=headers, timeout=60).status_code == 200


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("//A.example:80", "a.example"),
        ("//[::1]:7860", "::1"),
        ("null", None),
        ("//[", None),
        ("//a.example@[::1]", None),
    ],
)
def test_the_name_in_an_address(address: str, name: str | None) -> None:
    assert host_name(address) == name
