"""Frames of a film and the file that they become."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from spare_demo.render import film
from spare_demo.render.colours import BLUE, VERMILION
from spare_demo.render.display import Text
from spare_demo.render.film import Shot, encode_film, frame

RED = Image.new("RGB", (300, 200), (255, 0, 0))


def shots(answer: str | None, picture: Image.Image = RED) -> list[Shot]:
    return [
        Shot("One: 2 of 9", BLUE, picture, answer),
        Shot("Two: 2 of 9", VERMILION, picture, "7"),
    ]


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def test_an_answer_too_long_for_large_type_is_whole_in_smaller() -> None:
    sentence = (
        "A small silver spoon lies on the saucer beside the red cup of espresso, and its bowl "
    )
    sentence += "reflects the window behind the photographer."
    drawn = frame("How many?", shots(sentence))
    words = " ".join(item.words for item in drawn.items if isinstance(item, Text))
    assert sentence in words
    assert drawn.image.size == frame("How many?", shots("7")).image.size


def test_frames_have_one_size_whatever_is_answered() -> None:
    long = "a word after the other " * 40
    sizes = {frame("How many?", shots(answer)).image.size for answer in ("", "7", long)}
    assert len(sizes) == 1


def test_every_picture_stands_there_at_its_own_shape() -> None:
    pixels = np.asarray(frame("How many?", shots("7")).image)
    assert (pixels == (255, 0, 0)).all(axis=-1).sum() == 2 * 480 * 320
    assert (pixels == BLUE).all(axis=-1).any() and (pixels == VERMILION).all(axis=-1).any()


def test_a_narrow_picture_is_no_taller_than_twice_its_place() -> None:
    narrow = Image.new("RGB", (10, 400), (255, 0, 0))
    image = frame("?", shots("7", narrow)).image
    assert image.height < 1400


def test_a_frame_says_what_it_shows() -> None:
    sentence = frame("?", shots(""), "Three has no pick order.").sentence
    assert sentence == (
        "One: 2 of 9; answer: (empty). Two: 2 of 9; answer: 7. Three has no pick order."
    )
    assert "answer" not in frame("?", shots(None)[:1]).sentence
    answered, silent = (frame("?", shots(answer)[:1]).image for answer in ("7", None))
    assert silent.height < answered.height


@pytest.mark.parametrize("kind", ["WEBP", "GIF"])
def test_a_film_plays_without_end_and_rests_on_its_last_frame(kind: str) -> None:
    colours = [(200, 0, 0), (0, 200, 0), (0, 0, 200)]
    data = encode_film([Image.new("RGB", (60, 40), colour) for colour in colours], kind)
    with opened(data) as image:
        assert (image.format, image.n_frames, image.info["loop"]) == (kind, 3, 0)
        durations = []
        for index, colour in enumerate(colours):
            image.seek(index)
            pixel = image.convert("RGB").getpixel((30, 20))
            assert np.abs(np.subtract(pixel, colour)).max() < 12
            durations.append(image.info["duration"])
    assert durations[0] == durations[1] < durations[2]


def test_no_frame_leaves_a_trace_in_the_next() -> None:
    colours = [(200, 0, 0), (252, 252, 252), (255, 255, 255)]
    data = encode_film([Image.new("RGB", (60, 40), colour) for colour in colours], "WEBP")
    with opened(data) as image:
        for index, colour in enumerate(colours):
            image.seek(index)
            assert (np.asarray(image.convert("RGB")) == colour).all()


@pytest.mark.parametrize("kind", ["WEBP", "GIF"])
def test_a_film_that_is_too_large_becomes_smaller(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (2, 120, 160, 3), dtype=np.uint8)
    frames = [Image.fromarray(one) for one in noise]
    whole = encode_film(frames, kind)
    monkeypatch.setattr(film, "MOST_BYTES", len(whole) // 8)
    data = encode_film(frames, kind)
    assert len(data) <= len(whole) // 8
    with opened(data) as image:
        assert image.n_frames == 2 and image.width < 160
        assert image.width / image.height == pytest.approx(4 / 3, abs=0.05)
