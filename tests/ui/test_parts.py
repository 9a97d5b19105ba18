"""Gradio makes a visitor's parts anew from their class; they have to stay what they are."""

from __future__ import annotations

import asyncio
from pathlib import Path

import gradio as gr
import pytest

import spare_demo.ui
from spare_demo.ui.parts import NumberAsSent, SliderAsSent, photo_input


@pytest.mark.parametrize(
    ("part", "sent"), [(NumberAsSent(3), -1.5), (SliderAsSent(1, 9, 3), 400), (NumberAsSent(), "a")]
)
def test_numbers_come_as_they_were_typed(part: gr.Number | gr.Slider, sent: object) -> None:
    anew = part.__class__(**part.constructor_args)
    assert part.preprocess(sent) == anew.preprocess(sent) == sent


def test_a_picture_comes_as_its_file_and_unread(tmp_path: Path) -> None:
    path = tmp_path / "no-picture.png"
    path.write_bytes(b"not a picture at all")
    part = photo_input()
    anew = part.__class__(**part.constructor_args)
    for image in (part, anew):
        assert image.preprocess(image.data_model(path=str(path))) == str(path)
        with pytest.raises(gr.Error, match="handle_file"):
            image.data_model.model_validate("photo.png")


@pytest.mark.parametrize("address", ["http://example.com/a.png", "https://a.b/gradio_api/file=/x"])
def test_no_address_is_fetched(address: str) -> None:
    part = photo_input()
    for image in (part, part.__class__(**part.constructor_args)):
        with pytest.raises(gr.Error, match="fetches nothing"):
            asyncio.run(image.async_move_resource_to_block_cache(address))


def test_the_page_knows_them_and_nothing_is_written_beside_the_source() -> None:
    names = [part.get_block_name() for part in (photo_input(), NumberAsSent(), SliderAsSent())]
    assert names == ["image", "number", "slider"]
    assert not list(Path(spare_demo.ui.__file__).parent.rglob("*.pyi"))
