"""Kinds of file whose cost their parts do not tell are decoded in a process that has bounds."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from references import encoded

from spare_demo.images import bounded_process, load
from spare_demo.images.load import PictureError, open_picture

NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (200, 300, 3), dtype=np.uint8))


Image.init()
KINDS = ("TIFF", "BMP", "PPM", "ICO", "JPEG2000", "AVIF")
APART = {kind: encoded(NOISE, kind) for kind in KINDS if kind in Image.SAVE}
APART["codestream"] = encoded(NOISE, "JPEG2000", no_jp2=True)
APART["BigTIFF"] = encoded(NOISE, "TIFF", big_tiff=True)
HERE = {kind: encoded(NOISE, kind) for kind in ("JPEG", "PNG", "WEBP", "GIF")}


@pytest.mark.parametrize("kind", APART)
def test_they_are_not_decoded_in_this_process(kind: str, monkeypatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(load, "decode_file", lambda *_: pytest.fail("decoded here"))
        apart = open_picture(APART[kind])
    whole = load.decode_file(io.BytesIO(APART[kind]), 10**6)
    assert apart.mode == "RGB" and apart.tobytes() == whole.tobytes()


@pytest.mark.parametrize("kind", HERE)
def test_kinds_of_which_the_parts_are_counted_need_no_process(kind: str, monkeypatch) -> None:
    monkeypatch.setattr(load, "run_bounded", lambda *_: pytest.fail("decoded apart"))
    assert open_picture(HERE[kind]).size == NOISE.size


def test_a_refusal_comes_back_in_its_own_words() -> None:
    with pytest.raises(PictureError, match="300 by 200 pixels"):
        open_picture(APART["BMP"], max_pixels=50_000)
    with pytest.raises(PictureError, match="cut off or damaged"):
        open_picture(APART["TIFF"][:1_000])


PROGRAMS = {
    "takes no end": "bound_this_process()\nwhile True: pass",
    "takes all memory": "bound_this_process()\nbytearray(4_000_000_000)",
    "waits": "import time\ntime.sleep(60)",
    "fails": "print('half', flush=True)\nraise SystemExit(1)",
    "dies": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_whatever_a_program_does_the_caller_goes_on(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name.startswith("takes"):
        pytest.importorskip("resource", reason="no such bounds on this system")
    text = (
        "from spare_demo.images import bounded_process\n"
        "bounded_process.CPU_SECONDS = 1\n"
        "from spare_demo.images.bounded_process import bound_this_process\n"
    )
    (tmp_path / "hostile_program.py").write_text(text + PROGRAMS[name])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    if name == "waits":
        monkeypatch.setattr(bounded_process, "WALL_SECONDS", 1)
    assert bounded_process.run_bounded("hostile_program", b"file") is None


def test_where_the_system_takes_no_bound_of_memory_pictures_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "resource.py").write_text(  # as macOS answers, found before the built-in one
        "RLIMIT_CPU, RLIMIT_DATA = 0, 2\n"
        "def setrlimit(kind, bounds):\n"
        "    if kind == RLIMIT_DATA:\n"
        "        raise ValueError('current limit exceeds maximum limit')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert open_picture(APART["BMP"]).size == NOISE.size


def test_files_of_the_current_folder_are_not_taken_for_modules_of_pythons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "random.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    assert open_picture(APART["BMP"]).size == NOISE.size


def test_a_picture_that_breaks_a_bound_is_refused_in_a_sentence(monkeypatch) -> None:
    monkeypatch.setattr(load, "run_bounded", lambda *_: None)
    with pytest.raises(PictureError, match=r"more time or memory .* Save it again as PNG or JPEG"):
        open_picture(APART["TIFF"])


def tiff_of_one_tile(side: int) -> bytes:
    """A grey TIFF of 100 by 100 pixels in a tile of `side` by `side`, all of it black."""
    squeeze = zlib.compressobj(1)
    tile = b"".join(squeeze.compress(bytes(side)) for _ in range(side)) + squeeze.flush()
    tags = [(256, 100), (257, 100), (258, 8), (259, 8), (262, 1), (277, 1)]
    tags += [(322, side), (323, side), (324, 8 + 2 + 12 * 10 + 4), (325, len(tile))]
    directory = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + directory + bytes(4) + tile


def ico_of(picture: bytes) -> bytes:
    """An icon that announces 16 by 16 pixels."""
    return struct.pack("<3H4B2H2I", 0, 1, 1, 16, 16, 0, 0, 1, 32, len(picture), 22) + picture


def lying(data: bytes, mark: bytes) -> bytes:
    """The file, announcing 10 by 10 pixels after this mark."""
    place = data.index(mark) + len(mark)
    return data[:place] + struct.pack(">II", 10, 10) + data[place + 8 :]


LARGER_THAN_ANNOUNCED = {
    "a tile of a TIFF": tiff_of_one_tile(2_000),
    "a picture in an ICO": ico_of(encoded(NOISE, "PNG")),
    "the codestream of a JPEG 2000": lying(APART["JPEG2000"], b"ihdr"),
}
if "AVIF" in APART:  # came with Pillow 11.3
    LARGER_THAN_ANNOUNCED["the frame of an AVIF"] = lying(APART["AVIF"], b"ispe\0\0\0\0")


@pytest.mark.parametrize("name", LARGER_THAN_ANNOUNCED)
def test_what_is_larger_than_announced_is_never_handed_on(name: str) -> None:
    try:
        picture = open_picture(LARGER_THAN_ANNOUNCED[name], max_pixels=20_000)
    except PictureError as refusal:
        assert "choose that" in str(refusal)
    else:
        assert picture.width * picture.height <= 20_000
