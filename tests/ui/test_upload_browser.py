"""What is uploaded is looked at, and seen, before anybody presses Ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browsing import MARKS, expect
from PIL import Image
from references import encoded

pytestmark = [*MARKS, pytest.mark.long]
COVER = "#stage .new-picture"


def test_a_new_picture_is_on_the_stage_at_once_and_goes_with_its_comparison(
    visitor, wide_picture: Path
) -> None:
    visitor.upload(wide_picture)
    expect(visitor.find(f"{COVER} p")).to_have_text("Press Ask to see which tokens are kept.")
    image = visitor.find(f"{COVER} img")
    assert image.evaluate("i => i.decode().then(() => [i.naturalWidth, i.naturalHeight])") == [
        640,
        160,
    ]
    board = visitor.find("#stage .board").first
    assert board.evaluate("b => getComputedStyle(b).opacity") == "1"
    expect(visitor.caption).to_contain_text("of their 64 tokens")
    expect(visitor.find("#message")).to_have_text("")
    visitor.ask("What is blue?")
    expect(visitor.find(COVER)).to_have_count(0)
    expect(visitor.find("body.asked-anew")).to_have_count(0)


def test_who_takes_the_example_again_sees_its_comparison(visitor, wide_picture: Path) -> None:
    visitor.upload(wide_picture)
    expect(visitor.find(COVER)).to_be_visible()
    visitor.find("#examples button").first.click()
    expect(visitor.find(COVER)).to_have_count(0)
    expect(visitor.find("body.asked-anew")).to_have_count(0)


def test_a_comparison_that_still_comes_leaves_the_new_picture_there(
    visitor, wide_picture: Path
) -> None:
    visitor.upload(wide_picture)
    expect(visitor.find(COVER)).to_be_visible()
    # Another method, of the picture that was asked about.
    visitor.choose_method("b", "Uniform grid")
    expect(visitor.caption).to_contain_text("Uniform grid")
    expect(visitor.find(COVER)).to_be_visible()
    visitor.ask("What is blue?")
    expect(visitor.find(COVER)).to_have_count(0)


def test_on_the_keyboard_the_focus_stays_in_the_box_of_the_picture(
    visitor, wide_picture: Path
) -> None:
    within = visitor.find("#picture button:focus")
    visitor.page.get_by_label("Remove Image").press("Enter")
    expect(visitor.find("#picture .image-frame img")).to_have_count(0)
    expect(within).to_be_visible()
    with visitor.page.expect_file_chooser() as chooser:
        within.press("Enter")
    chooser.value.set_files(wide_picture)
    expect(visitor.find("#picture .image-frame img")).to_be_visible()
    expect(within).to_be_visible()


def test_a_picture_pasted_anywhere_is_taken_and_words_are_left_alone(visitor) -> None:
    paste = """([words, inside]) => {
        const clipboardData = new DataTransfer();
        if (words) clipboardData.setData('text', words);
        if (inside) clipboardData.items.add(
            new File([Uint8Array.from(inside)], 'pasted.png', {type: 'image/png'}));
        const event = new ClipboardEvent('paste', {clipboardData, bubbles: true, cancelable: true});
        return document.querySelector('#question textarea').dispatchEvent(event);
    }"""
    picture = list(encoded(Image.new("RGB", (30, 20), "navy")))
    assert visitor.page.evaluate(paste, ["How many?", None])
    assert visitor.page.evaluate(paste, ["How many?", picture])  # as Word copies words
    expect(visitor.find(COVER)).to_have_count(0)
    assert not visitor.page.evaluate(paste, ["pasted.png", picture])  # as a Mac copies a file
    expect(visitor.find(f"{COVER} img")).to_be_visible()
    visitor.page.reload()
    visitor.wait_until_it_listens()
    visitor.forget_failures()  # of what the reload broke off
    assert not visitor.page.evaluate(paste, ["", picture])
    expect(visitor.find(f"{COVER} img")).to_be_visible()
    visitor.ask("What is it?")
    expect(visitor.find(COVER)).to_have_count(0)


def test_a_picture_dropped_beside_the_box_is_taken_and_no_file_leaves_the_page(visitor) -> None:
    drop = """([kind, inside, ofPage]) => {
        const dataTransfer = new DataTransfer(), stage = document.querySelector('#stage .board');
        dataTransfer.items.add(new File([Uint8Array.from(inside)], 'dropped', {type: kind}));
        const drag = (name) => stage.dispatchEvent(
            new DragEvent(name, {dataTransfer, bubbles: true, cancelable: true}));
        if (ofPage) drag('dragstart');
        const left = [drag('dragover'), drag('drop')];
        if (ofPage) drag('dragend');
        return left;
    }"""
    picture = list(encoded(Image.new("RGB", (30, 20), "navy")))
    message = visitor.find("#message")
    assert visitor.page.evaluate(drop, ["image/png", picture, True]) == [True, True]
    expect(visitor.find(COVER)).to_have_count(0)
    assert visitor.page.evaluate(drop, ["text/plain", [65], False]) == [False, False]
    expect(message).to_have_text(
        "This file is not a picture. Save it as PNG or JPEG and drop that."
    )
    assert visitor.page.evaluate(drop, ["image/png", picture, False]) == [False, False]
    expect(visitor.find(f"{COVER} img")).to_be_visible()
    expect(message).to_have_text("")
    visitor.ask("What is it?")
    expect(visitor.find(COVER)).to_have_count(0)


def test_a_picture_that_breaks_off_on_its_way_is_asked_for_again(
    visitor, wide_picture: Path
) -> None:
    visitor.page.get_by_label("Remove Image").click()
    visitor.page.route("**/upload?*", lambda route: route.abort())
    visitor.find("#picture input[type=file]").set_input_files(wide_picture)
    sentence = visitor.find("#message .message")
    expect(sentence).to_have_text("The picture did not arrive. Choose it again.")
    visitor.page.unroute("**/upload?*")
    visitor.upload(wide_picture)
    expect(sentence).to_have_count(0)
    visitor.forget_failures()


@pytest.mark.parametrize("key", [False, True])
def test_who_asks_while_a_picture_is_on_its_way_is_answered_once_it_is_here(
    visitor, wide_picture: Path, key: bool
) -> None:
    held: list[Any] = []
    visitor.page.get_by_label("Remove Image").click()
    visitor.page.route("**/upload?*", lambda route: held.append(route))
    visitor.find("#picture input[type=file]").set_input_files(wide_picture)
    question = visitor.find("#question textarea")
    question.fill("What is blue?")
    if key:
        question.press("Enter")
    else:
        visitor.find("#ask").click()
    expect(visitor.find("#message")).to_have_text(
        "The picture is on its way. The answer begins once it is here."
    )
    (upload,) = held
    upload.continue_()
    expect(visitor.find("#answers .asked")).to_contain_text("What is blue?")
    expect(visitor.find("body.asked-anew")).to_have_count(0)
    expect(visitor.find("#message")).to_have_text("")


def test_a_kind_that_browsers_do_not_draw_says_so_and_is_compared(
    visitor, tmp_path: Path, wide_picture: Path
) -> None:
    path = tmp_path / "wide.tiff"
    Image.open(wide_picture).save(path)
    visitor.upload(path)
    image = visitor.find("#picture .image-frame img")
    expect(image).to_have_attribute("alt", "No preview: this browser cannot draw the file.")
    visitor.ask("What is blue?")
    expect(visitor.find("#answers .asked")).to_contain_text("What is blue?")
    expect(visitor.find("body.asked-anew")).to_have_count(0)


def write(path: Path) -> None:
    """A file of the kind that its name says."""
    match path.stem:
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_text("hello")
        case "damaged":
            path.write_bytes(b"\x89PNG\r\n\x1a\n and no more")
        case "pixels":
            Image.new("L", (8000, 6000)).save(path)
        case "bytes":
            path.write_bytes(b"\x89PNG" + b"0" * 20_000_001)


# What the browser refuses by itself comes first: what the server says must still be seen after it.
REFUSALS = {
    "bytes": "This file is larger than 20 MB. Choose a smaller picture.",
    "empty": "The file is empty. Choose another one.",
    "text": "This file is not a picture that can be read here.",
    "damaged": "The picture file is cut off or damaged.",
    "pixels": "The picture is 8000 by 6000 pixels; at most 40 million pixels",
}


def test_a_bad_file_is_refused_on_upload(visitor, tmp_path: Path, wide_picture: Path) -> None:
    before = visitor.find("#answers").inner_html()
    for kind, sentence in REFUSALS.items():
        path = tmp_path / f"{kind}.png"
        write(path)
        visitor.page.get_by_label("Remove Image").click()
        visitor.find("#picture input[type=file]").set_input_files(path)
        expect(visitor.find("#message")).to_contain_text(sentence)
        expect(visitor.caption).to_contain_text("of their 64 tokens")
        assert visitor.find("#answers").inner_html() == before
        if kind != "pixels":
            expect(visitor.find(COVER)).to_have_count(0)
        visitor.upload(wide_picture)
        expect(visitor.find("#message .message")).to_have_count(0)
