"""The picture of a whole comparison."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
from PIL import Image

from spare_demo.pruners import PRUNERS
from spare_demo.render.card import Panel, card
from spare_demo.render.colours import BLUE, VERMILION
from spare_demo.render.display import Display, Text
from spare_demo.render.text import drawable, font, largest_fit, wrap

SVG = "{http://www.w3.org/2000/svg}"
RED = Image.new("RGB", (300, 200), (255, 0, 0))


def count(image: Image.Image, colour: tuple[int, int, int]) -> int:
    return int((np.asarray(image) == colour).all(axis=-1).sum())


def panels(k: int, answer: str = "7") -> list[Panel]:
    return [
        Panel(f"Method {i}", (BLUE, VERMILION)[i % 2], RED, answer, ["a", "b"]) for i in range(k)
    ]


def test_every_picture_is_there_at_its_own_shape() -> None:
    drawn = card("How many?", panels(3), "made by a test").image
    assert drawn.mode == "RGB"
    assert count(drawn, (255, 0, 0)) == 3 * 640 * round(200 * 640 / 300)
    assert count(drawn, BLUE) > 0
    assert count(drawn, VERMILION) > 0


def test_more_than_four_panels_take_another_row() -> None:
    four, five = card("?", panels(4), "x").image, card("?", panels(5), "x").image
    assert five.width == four.width
    assert five.height > four.height
    assert count(five, (255, 0, 0)) == 5 * 640 * round(200 * 640 / 300)


def test_nothing_is_drawn_beyond_the_edges() -> None:
    long = "An answer that never ends. " * 60
    drawn = np.asarray(
        card("A question that never ends. " * 60, panels(2, long), "foot " * 200).image
    )
    for edge in (drawn[:40], drawn[-40:], drawn[:, :40], drawn[:, -40:]):
        assert (edge == 255).all()


def test_the_sentence_has_all_of_the_words() -> None:
    sentence = card("How many?", panels(2, "7"), "made by a test").sentence
    assert sentence == "Asked: How many? Method 0: 7. Method 1: 7. made by a test"
    assert "(no question)" in card("  ", panels(1, " "), "x").sentence
    assert "(empty)" in card("  ", panels(1, " "), "x").sentence


def test_text_is_wrapped_and_cut_to_its_room() -> None:
    assert wrap("one two", 1000, 20, 2) == ["one two"]
    assert wrap("", 1000, 20, 2) == []
    lines = wrap("word " * 50, 200, 20, 3)
    assert len(lines) == 3
    assert lines[-1].endswith("…")
    assert all(font(20).getlength(line) <= 200 for line in lines)
    assert font(20).getlength(wrap("x" * 500, 200, 20, 3)[0]) <= 200


def test_text_without_spaces_goes_on_in_the_next_line() -> None:
    question = "图中紫色的圆圈上写着什么词?请用 one word 回答。" * 2
    lines = wrap(question, 200, 20)
    assert "".join(lines).replace(" ", "") == question.replace(" ", "")
    assert all(font(20).getlength(drawable(line)) <= 200 for line in lines)
    assert any("one word" in line for line in lines)
    assert wrap(question, 200, 20, 2)[-1].endswith("…")
    assert largest_fit([question], 200, [(40, 2), (20, 9), (10, 9)]) == (20, 9)


def test_the_svg_has_the_same_words_pictures_and_sentence() -> None:
    told = ("How many <em>?", panels(5, "Sieben — 七"), "made by a test")
    drawn = card(*told)
    root = ET.fromstring(drawn.svg)
    assert root.find(f"{SVG}title").text == drawn.sentence  # type: ignore[union-attr]
    assert (int(root.attrib["width"]), int(root.attrib["height"])) == drawn.image.size
    words = [part.text for part in root.iter(f"{SVG}text")]
    assert words[0] == "How many <em>?" and words[-1] == "made by a test"
    assert words.count("Sieben — 七") == 5  # a letter that Pillow's font lacks is still there
    boxes = [[float(i.attrib[key]) for key in ("x", "y", "width", "height")]
             for i in root.iter(f"{SVG}image")]  # fmt: skip
    assert len(boxes) == 5
    for x, y, width, height in boxes:  # where the PNG has them
        place = drawn.image.crop((int(x), int(y), int(x + width), int(y + height)))
        assert count(place, (255, 0, 0)) == width * height


def test_headings_of_the_longest_titles_are_whole() -> None:
    headings = [
        f"{method.title}, 640 {'merged ' if method.merges else ''}of 2880 tokens"
        for method in PRUNERS.values()
    ]
    made = card("?", [Panel(words, BLUE, RED, "7", []) for words in headings], "x")
    root = ET.fromstring(made.svg)
    shown = [part.text for part in root.iter(f"{SVG}text")]
    assert set(headings) <= set(shown)


def sizes(drawn: Display, words: str) -> set[int]:
    return {item.size for item in drawn.items if isinstance(item, Text) and words in item.words}


def test_all_answers_have_the_largest_type_in_which_none_is_cut() -> None:
    short, sentence, long = "a spoon", "a spoon beside a cup " * 8, "a spoon beside a cup " * 16
    for answer, size in ((short, 46), (sentence, 34), (long, 25), (long * 3, 25)):
        both = [*panels(1, answer), *panels(1, short)]
        drawn = card("?", both, "made by a test")
        assert sizes(drawn, "a spoon") == {size}
        words = " ".join(i.words for i in drawn.items if isinstance(i, Text) and i.size == size)
        assert (answer.strip() in words) == (answer != long * 3)


def test_an_answer_has_one_full_stop_in_the_sentence() -> None:
    assert "Method 0: A cat. made by" in card("?", panels(1, "A cat."), "made by a test").sentence
