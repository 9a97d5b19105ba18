"""The document's head, the icon and the preview picture, as browsers and link previews get them."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from html.parser import HTMLParser

import gradio as gr
import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient
from visits import page_request

from spare_demo.models import LlavaModel
from spare_demo.render.colours import BLUE, VERMILION
from spare_demo.settings import Settings
from spare_demo.ui import build, launch_options
from spare_demo.ui.document_head import DESCRIPTION, TITLE, draw_preview
from spare_demo.ui.gradio_compat.processing import Page


class Head(HTMLParser):
    """What the head of a document says, before any script has run."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.title, self.meta, self.links = "", [], []
        self._in_title = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self._in_title = tag == "title"
        if tag == "meta" and (name := values.get("property") or values.get("name")):
            self.meta.append((name, values.get("content")))
        if tag == "link":
            self.links.append(values)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
            self._in_title = False


@pytest.fixture(scope="module", params=["", "/demo"])
def root_path(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def client(tiny_model: LlavaModel, root_path: str) -> Iterator[TestClient]:
    trusted = ("pictures.example",)
    settings = Settings(device="cpu", budget=5, max_new_tokens=2, trusted_hosts=trusted)
    app_kwargs = launch_options(settings)["app_kwargs"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_ROOT_PATH", root_path)  # as docs/GUIDE.md says
        demo = build(tiny_model, settings)
        app, _, _ = demo.launch(prevent_thread_lock=True, quiet=True, app_kwargs=app_kwargs)
    yield TestClient(app, base_url="http://pictures.example")
    demo.close(verbose=False)


def test_the_head_names_this_page_and_nothing_of_gradio(client, root_path: str) -> None:
    response = client.get("/")
    assert response.status_code == 200
    head = Head(response.text)
    assert head.title == TITLE
    named = [(name, value) for name, value in head.meta if name.startswith(("og:", "twitter:"))]
    assert len(dict(named)) == len(named)  # none twice
    meta = dict(head.meta)
    assert meta["description"] == meta["og:description"] == meta["twitter:description"]
    assert meta["og:description"] == DESCRIPTION
    assert meta["og:title"] == meta["twitter:title"] == TITLE
    address = f"http://pictures.example{root_path}"
    assert meta["og:url"] == f"{address}/"
    assert meta["og:image"] == meta["twitter:image"] == f"{address}/preview.png"
    assert "5 of 16 tokens" in meta["og:image:alt"]
    assert not any("gradio" in str(value).lower() for _, value in named)
    icons = [link["href"] for link in head.links if link.get("rel") == "icon"]
    assert icons == [f"{address}/icon.svg"]


def test_behind_a_proxy_the_addresses_are_those_of_the_proxy(client, root_path: str) -> None:
    forwarded = {"x-forwarded-host": "demo.example", "x-forwarded-proto": "https"}
    meta = dict(Head(client.get("/", headers=forwarded).text).meta)
    assert meta["og:image"] == f"https://demo.example{root_path}/preview.png"


def test_a_host_cannot_write_into_the_document(client) -> None:
    response = client.get("/", headers={"x-forwarded-host": 'x"><script>alert(1)</script>'})
    assert '"><script>alert(1)' not in response.text


def test_icon_and_preview_are_pictures_of_the_page_itself(client) -> None:
    preview = client.get("/preview.png")
    assert preview.headers["content-type"] == "image/png"
    with Image.open(io.BytesIO(preview.content)) as image:
        assert image.size == (1200, 630)
    icon = client.get("/icon.svg")
    assert icon.headers["content-type"] == "image/svg+xml" and len(icon.content) < 2000
    assert ET.fromstring(icon.text).tag.endswith("svg")
    with Image.open(io.BytesIO(client.get("/favicon.ico").content)) as image:
        pixels = np.asarray(image.convert("RGB"))
    assert (pixels == BLUE).all(axis=-1).any() and (pixels == VERMILION).all(axis=-1).any()


@pytest.mark.parametrize("path", ["/", "/icon.svg", "/favicon.ico", "/preview.png"])
def test_each_is_whole_however_it_is_sent(client, path: str) -> None:
    answers = [client.get(path, headers={"accept-encoding": e}) for e in ("br", "gzip", "identity")]
    plain = answers[-1]
    assert int(plain.headers["content-length"]) == len(plain.content)
    assert {answer.status_code for answer in answers} == {200}
    if path != "/":  # the document is made anew each time
        assert {answer.content for answer in answers[1:]} == {plain.content}


def test_the_document_is_sent_in_a_fraction_of_its_bytes(client) -> None:
    response = client.get("/", headers={"accept-encoding": "gzip"})
    assert Head(response.text).title == TITLE
    assert response.text.rstrip().endswith("</html>")
    assert 4 * int(response.headers["content-length"]) < len(response.content)


@pytest.mark.parametrize("path", ["/preview.png/..", "/other.png", "/icon.svg/x"])
def test_nothing_else_is_served_beside_them(client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 404 or response.headers["content-type"].startswith("text/html")


def test_the_preview_has_the_answers_where_they_are_there(guide, photo_file) -> None:
    visit = guide.look(page_request(photo_file, "What is it?"))
    assert "answer" not in draw_preview(visit).sentence
    for now in guide.answer(visit, 5):
        visit = now
    sentence = draw_preview(visit).sentence
    assert "A SPARE: 5 of 16 tokens; answer: " in sentence
    inside = guide.change_methods(visit, page_request(photo_file, "?", "fastv", "dart").labelled, 0)
    assert draw_preview(inside).sentence == "The picture of: What is it?"


def test_another_page_has_no_preview() -> None:
    with Page() as demo:
        gr.HTML("nothing")
    app, _, _ = demo.launch(
        prevent_thread_lock=True, quiet=True, app_kwargs=launch_options(Settings())["app_kwargs"]
    )
    try:
        client = TestClient(app)
        assert "og:image" not in dict(Head(client.get("/").text).meta)
    finally:
        demo.close(verbose=False)
