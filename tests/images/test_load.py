"""Opening pictures: every kind a visitor may send, and the sentence for what cannot be opened."""

import io
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from PIL import Image
from references import encoded
from references import png_chunk as chunk

from spare_demo.images.load import PictureError, open_local_picture, open_picture


def ramp(height=8, width=16, top=255):
    return np.tile(np.linspace(0, top, width), (height, 1))


def levels(image):
    return np.asarray(image)[..., 0].astype(int)


PHOTO = Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8))


def png_header(width, height):
    """A PNG that announces a size and holds no pixels: decoding it cannot succeed."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


@pytest.mark.parametrize("hand_over", ["path", "str", "bytes", "file", "image", "unseekable"])
def test_all_sources_give_the_same_pixels(tmp_path, hand_over):
    data = encoded(PHOTO)
    path = tmp_path / "photo.png"
    path.write_bytes(data)

    class Pipe(io.RawIOBase):
        def __init__(self):
            self.rest = io.BytesIO(data)

        def readable(self):
            return True

        def readinto(self, into):
            return self.rest.readinto(into)

    file = io.BytesIO(data)
    file.seek(0, io.SEEK_END)  # where a picture that was just saved leaves it
    source = {
        "path": path,
        "str": str(path),
        "bytes": data,
        "file": file,
        "image": PHOTO,
        "unseekable": Pipe(),
    }[hand_over]
    opened = open_picture(source)
    assert opened.mode == "RGB"
    assert opened is not source
    np.testing.assert_array_equal(np.asarray(opened), np.asarray(PHOTO))


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF", "PPM"])
def test_formats(format):
    flat = Image.new("RGB", (12, 9), (200, 100, 40))
    opened = open_picture(encoded(flat, format))
    assert opened.size == (12, 9)
    assert np.abs(np.asarray(opened).astype(int) - (200, 100, 40)).max() <= 6


def test_grey_and_one_bit():
    grey = Image.fromarray(ramp().astype(np.uint8))
    np.testing.assert_array_equal(levels(open_picture(encoded(grey))), np.asarray(grey))
    bits = Image.new("1", (4, 2), 1)
    bits.putpixel((0, 0), 0)
    assert levels(open_picture(encoded(bits))).tolist() == [[0, 255, 255, 255], [255] * 4]


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA", "La", "RGBa"])
def test_alpha_is_laid_on_white(mode):
    black = Image.new("RGBA", (3, 1), (0, 0, 0, 255))
    black.putpixel((1, 0), (0, 0, 0, 0))
    black.putpixel((2, 0), (0, 0, 0, 128))
    if mode == "PA":
        picture = Image.new("PA", (3, 1))
        picture.putpalette([0, 0, 0] * 256)
        picture.putdata([(0, 255), (0, 0), (0, 128)])
    else:
        picture = black.convert("LA").convert(mode) if mode in ("LA", "La") else black.convert(mode)
    assert levels(open_picture(picture)).tolist() == [[0, 255, 127]]


def test_palette_with_and_without_transparency():
    picture = Image.new("P", (2, 1))
    picture.putpalette([255, 0, 0, 0, 0, 255])
    picture.putpixel((1, 0), 1)
    opened = open_picture(encoded(picture))
    assert [opened.getpixel((x, 0)) for x in (0, 1)] == [(255, 0, 0), (0, 0, 255)]
    opened = open_picture(encoded(picture, transparency=1))
    assert [opened.getpixel((x, 0)) for x in (0, 1)] == [(255, 0, 0), (255, 255, 255)]


def test_one_transparent_colour_of_an_rgb_file():
    picture = Image.new("RGB", (2, 1), (9, 8, 7))
    picture.putpixel((0, 0), (1, 2, 3))
    opened = open_picture(encoded(picture, transparency=(1, 2, 3)))
    assert [opened.getpixel((x, 0)) for x in (0, 1)] == [(255, 255, 255), (9, 8, 7)]


def test_cmyk():
    picture = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    red = open_picture(encoded(picture, "JPEG")).getpixel((8, 8))
    assert red[0] > 240
    assert max(red[1:]) < 15


@pytest.mark.parametrize("mode", ["I;16", "I;16B", "I"])
def test_sixteen_bit_grey_is_scaled_not_clipped(mode):
    values = ramp(top=65_535)
    stored = {"I;16": "<u2", "I;16B": ">u2", "I": "<i4"}[mode]
    raw = Image.frombytes(mode, (16, 8), np.rint(values).astype(stored).tobytes())
    for source in (raw, encoded(raw, "TIFF")):
        np.testing.assert_allclose(levels(open_picture(source)), ramp(), atol=1)


def test_every_level_of_a_sixteen_bit_png_is_rounded():
    every = np.arange(65_536, dtype=np.uint16).reshape(256, 256)
    opened = levels(open_picture(encoded(Image.fromarray(every))))
    assert (opened == np.rint(every / 257)).all()


def test_a_large_sixteen_bit_png_takes_little_memory():
    raw = Image.fromarray(np.zeros((1000, 1000), np.uint16))
    data = encoded(raw, transparency=0)
    tracemalloc.start()
    open_picture(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 * 1000 * 1000  # bytes a pixel, beside Pillow's own


def test_one_transparent_level_of_a_sixteen_bit_png():
    raw = Image.fromarray(np.array([[300, 301, 32_896]], np.uint16))
    opened = open_picture(encoded(raw, transparency=300))
    assert levels(opened).tolist() == [[255, 1, 128]]


def png_row(bits, kind, row, transparent):
    """A PNG of four pixels with one transparent colour, as no library here writes it."""
    head = struct.pack(">IIBBBBB", 4, 1, bits, kind, 0, 0, 0)
    parts = {b"IHDR": head, b"tRNS": transparent, b"IDAT": zlib.compress(b"\0" + row), b"IEND": b""}
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(name, data) for name, data in parts.items())


@pytest.mark.parametrize(
    ("bits", "row", "key", "expected"),
    [
        (1, [0b0100_0000], 1, [0, 255, 0, 0]),
        (2, [0b0001_1000], 1, [0, 255, 170, 0]),
        (4, [0x05, 0xA0], 5, [0, 255, 170, 0]),
        (8, [0, 5, 100, 0], 5, [0, 255, 100, 0]),
    ],
)
def test_one_transparent_level_of_few_bits(bits, row, key, expected):
    opened = open_picture(png_row(bits, 0, bytes(row), struct.pack(">H", key)))
    assert levels(opened).tolist() == [expected]


def test_one_transparent_colour_of_sixteen_bits():
    pixels = [(0, 0, 0), (256, 512, 768), (2_570, 0, 0), (65_535, 0, 0)]
    row, key = struct.pack(">12H", *sum(pixels, ())), struct.pack(">3H", *pixels[1])
    opened = open_picture(png_row(16, 2, row, key))
    assert [opened.getpixel((x, 0)) for x in range(4)] == [
        *((0, 0, 0), (255, 255, 255), (10, 0, 0), (255, 0, 0)),
    ]


@pytest.mark.parametrize(("top", "low"), [(1, 0), (255, 0), (65_535, 0), (1e7, 0), (3.0, -3.0)])
def test_float_pictures_use_the_range_that_holds_them(top, low):
    values = np.tile(np.linspace(low, top, 16), (8, 1)).astype(np.float32)
    np.testing.assert_allclose(levels(open_picture(Image.fromarray(values))), ramp(), atol=1)


def test_float_pictures_with_holes_or_without_black():
    for row, shown in (
        ([0.5, 1.0, np.nan, np.inf], [128, 255, 0, 255]),
        ([32_768, 65_535], [128, 255]),  # which is white still
    ):
        values = np.array([row], np.float32)
        assert levels(open_picture(Image.fromarray(values))).tolist() == [shown]
    assert levels(open_picture(Image.fromarray(np.full((1, 2), np.nan, np.float32)))).max() == 0


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied_once(orientation):
    upright = np.zeros((2, 3), np.uint8)
    upright[0, 0], upright[0, 2] = 255, 100
    undo = {1: None, 2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}[orientation]
    image = Image.fromarray(upright)
    stored = image if undo is None else image.transpose(Image.Transpose(undo))
    exif = Image.Exif()
    exif[0x0112] = orientation
    opened = open_picture(encoded(stored, exif=exif))
    np.testing.assert_array_equal(levels(opened), upright)
    np.testing.assert_array_equal(levels(open_picture(opened)), upright)
    assert not opened.getexif()


@pytest.mark.filterwarnings("ignore:.*EXIF data")
def test_broken_exif_leaves_the_picture_as_stored():
    opened = open_picture(encoded(PHOTO, "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\x7f"))
    assert opened.size == PHOTO.size


def test_one_pixel():
    assert open_picture(encoded(Image.new("RGB", (1, 1), (1, 2, 3)))).getpixel((0, 0)) == (1, 2, 3)


def test_animation_shows_its_first_frame():
    frames = [Image.new("RGB", (5, 4), colour) for colour in ((250, 0, 0), (0, 250, 0))]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert open_picture(data).getpixel((2, 2)) == (250, 0, 0)


def test_metadata_goes_no_further():
    exif = Image.Exif()
    exif[0x010F] = "a camera"
    assert open_picture(encoded(PHOTO, "JPEG", exif=exif)).info == {}


def test_the_image_handed_over_is_left_alone():
    picture = PHOTO.copy()
    picture.info["note"] = "mine"
    opened = open_picture(picture)
    opened.putpixel((0, 0), (0, 0, 0))
    assert picture.info == {"note": "mine"}
    np.testing.assert_array_equal(np.asarray(picture), np.asarray(PHOTO))


JPEG = encoded(PHOTO.resize((300, 200)), "JPEG")
PNG = encoded(PHOTO.resize((300, 200)))
REFUSED = {
    "empty": (b"", "empty"),
    "text": (b"this is a text file, not a picture", "not a picture"),
    "pdf": (b"%PDF-1.7\n1 0 obj\n", "not a picture"),
    "eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "not a picture"),
    "svg": (b'<svg xmlns="http://www.w3.org/2000/svg"/>', "not a picture"),
    "half a jpeg": (JPEG[: len(JPEG) // 2], "cut off or damaged"),
    "start of a jpeg": (JPEG[:20], "cut off or damaged"),
    "half a png": (PNG[: len(PNG) // 2], "cut off or damaged"),
    "start of a png": (PNG[:18], "cut off or damaged"),
    "garbled png": (PNG[:60] + b"\0" * 40 + PNG[100:], "cut off or damaged"),
    "png without pixels": (png_header(10, 10), "cut off or damaged"),
    "too many pixels": (png_header(8000, 8000), "8000 by 8000 pixels; at most 40 million"),
    "above pillow's limit": (png_header(60_000, 60_000), "at most 40 million"),
    "a long strip": (png_header(70_000, 1), "no side may be longer"),
}


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("from_path", [True, False])
def test_refusals_say_what_to_do_and_name_no_path(tmp_path, case, from_path):
    data, words = REFUSED[case]
    path = tmp_path / "secret-name.png"
    path.write_bytes(data)
    with pytest.raises(PictureError) as refusal:
        open_picture(path if from_path else data)
    sentence = str(refusal.value)
    assert words in sentence
    assert "secret-name" not in sentence
    assert "choose" in sentence.lower()
    assert sentence.endswith(".")


def test_a_missing_file_and_a_bad_name():
    for name in ("/nowhere/at/all.png", "null\0character.png", "/"):
        with pytest.raises(PictureError, match="picture could not be opened"):
            open_picture(name)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("case", REFUSED)
def test_whoever_runs_the_program_is_told_the_file_and_of_no_upload(tmp_path, case):
    data, words = REFUSED[case]
    path = tmp_path / "mine.png"
    path.write_bytes(data)
    for source in (path, data):
        with pytest.raises(PictureError) as refusal:
            open_local_picture(source)
        sentence = str(refusal.value)
        assert words in sentence and sentence.endswith(".") and "page" not in sentence
        assert "upload" not in sentence.lower()
        assert sentence.startswith(f"{path}: ") == (source is path)


def test_a_missing_file_is_named_to_whoever_runs_the_program(tmp_path):
    for name, sentence in (
        ("missing.png", "^There is no file missing.png.$"),
        (tmp_path, "could not be opened: Is a directory.$"),
    ):
        with pytest.raises(PictureError, match=sentence):
            open_local_picture(name)


@pytest.mark.parametrize("source", [np.zeros((8, 8, 3)), 7, None, io.StringIO("text")])
def test_what_is_no_source_of_a_picture_is_told_what_is(source):
    with pytest.raises(PictureError, match=rf"Pillow image, not {type(source).__name__}\."):
        open_picture(source)


def test_the_pixel_limit_is_exact_and_holds_for_images_too():
    assert open_picture(PHOTO, max_pixels=600).size == (30, 20)
    with pytest.raises(PictureError, match="30 by 20"):
        open_picture(PHOTO, max_pixels=599)


def test_a_picture_over_the_limit_is_never_decoded(monkeypatch):
    image = Image.open(io.BytesIO(PNG))
    monkeypatch.setattr(image, "load", lambda: pytest.fail("decoded"))
    with pytest.raises(PictureError, match="300 by 200"):
        open_picture(image, max_pixels=1000)


def test_pillows_own_limit_gives_the_same_sentence(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(PictureError, match="at most 40 million pixels"):
        open_picture(PNG)


@pytest.mark.parametrize("step", ["open", "load"])
def test_a_full_memory_is_no_fault_of_the_file(monkeypatch, step):
    def fail(*_, **__):
        raise MemoryError

    if step == "open":
        monkeypatch.setattr(Image, "open", fail)
    else:
        monkeypatch.setattr("PIL.ImageFile.ImageFile.load", fail)
    with pytest.raises(MemoryError):
        open_picture(PNG)
