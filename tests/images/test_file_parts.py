"""Small files that would keep a decoder busy are refused unread; those that programs write are not.

No test takes the time: what must not happen is that Pillow is asked at all.
"""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image
from references import encoded
from references import png_chunk as chunk

from spare_demo.images.file_parts import has_too_many_parts, tags_exceed
from spare_demo.images.load import PictureError, open_picture

NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8))
EMPTY_EXIF = b"II*\0" + struct.pack("<IHI", 8, 0, 0)


def jpeg_with(segments: bytes) -> bytes:
    data = encoded(NOISE, "JPEG")
    return data[:2] + segments + data[2:]


def segment(marker: bytes, data: bytes) -> bytes:
    return b"\xff" + marker + struct.pack(">H", len(data) + 2) + data


def progressive(scans: int) -> bytes:
    """A JPEG that refines its last coefficients again and again."""
    data = encoded(NOISE, "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * (scans - data.count(b"\xff\xda") + 1) + data[-2:]


def png_with(chunks: bytes) -> bytes:
    data = encoded(NOISE, "PNG")
    return data[:33] + chunks + data[33:]


def gif_with(extension: bytes) -> bytes:
    data = encoded(NOISE.quantize(16), "GIF")
    start = 13 + 3 * (2 << (data[10] & 7))
    return data[:start] + extension + data[start:]


def tiff(tags: list[tuple[int, int, int, int]], more: bytes = b"\0" * 8) -> bytes:
    """A grey TIFF of one pixel; tags: number, type, count and value or place of each."""
    own = [(256, 3, 1, 1), (257, 3, 1, 1), (258, 3, 1, 8), (262, 3, 1, 1), (279, 4, 1, 1)]
    entries = sorted({entry[0]: entry for entry in [*own, (273, 4, 1, 8), *tags]}.values())
    packed = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return b"II*\0" + struct.pack("<IH", 8, len(entries)) + packed + struct.pack("<I", 0) + more


def shared_tags(count: int, size: int) -> bytes:
    """Tags that all name the same bytes of the file."""
    return tiff([(50_000 + i, 7, size, 8) for i in range(count)], b"\0" * size)


def numbers(count: int) -> bytes:
    """One tag of so many fractions: how EXIF says to turn the picture."""
    return tiff([(274, 5, count, 8)], b"\0" * (8 * count))


def raw_profile(exif: bytes) -> bytes:
    """EXIF as ImageMagick writes it in a PNG."""
    words = b"\nexif\n%8d\n%b\n" % (len(exif), exif.hex().encode())
    return chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(words))


def other_head(head: bytes, data: bytes) -> bytes:
    """A little-endian TIFF's tags in the other order, after another head that Pillow takes."""
    (count,) = struct.unpack_from("<H", data, 8)
    entries = [struct.unpack_from("<HHII", data, 10 + 12 * i) for i in range(count)]
    packed = b"".join(struct.pack(">HHII", *entry) for entry in entries)
    return head + struct.pack(">IH", 8, count) + packed + data[10 + 12 * count :]


LATE = encoded(NOISE, "PNG")
MARK = b"Exif\0\0"
BOMBS = {
    "scans": progressive(101),
    "exif segments": jpeg_with(segment(b"\xe1", b"Exif\0\0" + EMPTY_EXIF) * 101),
    "jpeg comments": jpeg_with(segment(b"\xfe", b"") * 2_001),
    "jpeg fill bytes": jpeg_with(b"\xff" * 101_000),
    "jpeg bytes between segments": jpeg_with(segment(b"\xfe", b"") + b"\0" * 101_000),
    "jpeg of no scan": jpeg_with(b"")[:2] + segment(b"\xfe", b"") + b"\0" * 101_000,
    "tags of other pictures": jpeg_with(segment(b"\xe2", b"MPF\0" + shared_tags(20, 5_000))),
    "exif tags after an end": jpeg_with(
        b"\xff\xd9" + segment(b"\xe1", MARK + shared_tags(20, 5_000))
    ),
    "exif tags in a segment that is none": jpeg_with(
        segment(b"\xf0", segment(b"\xe1", MARK + shared_tags(20, 5_000)))
    ),
    "exif tags": jpeg_with(segment(b"\xe1", b"Exif\0\0" + shared_tags(20, 5_000))),
    "png exif tags": png_with(chunk(b"eXIf", shared_tags(20, 5_000))),
    "png exif tags after the pixels": LATE[:-12]
    + chunk(b"eXIf", shared_tags(20, 5_000))
    + LATE[-12:],
    "png exif tags in a text": png_with(raw_profile(shared_tags(20, 5_000))),
    "png exif marks": png_with(chunk(b"eXIf", MARK * 4 + shared_tags(20, 5_000))),
    "png exif numbers": png_with(chunk(b"eXIf", numbers(200_001))),
    "exif marks": jpeg_with(segment(b"\xe1", MARK * 10_000)),
    "exif tags after marks": jpeg_with(segment(b"\xe1", MARK * 4 + shared_tags(20, 2_000))),
    "exif tags of a short form": jpeg_with(
        segment(b"\xe1", MARK + other_head(b"MM\0+", shared_tags(20, 5_000)))
    ),
    "tiff tags of a strange head": other_head(b"MM*\0", shared_tags(20, 5_000)),
    "png profiles": png_with(chunk(b"iCCP", b"a\0\0" + zlib.compress(b"a" * 10**6)) * 201),
    "png texts": png_with(chunk(b"tEXt", b"a\0b") * 201),
    "png chunks": png_with(chunk(b"abCd", b"") * 200_001),
    "gif comment": gif_with(b"!\xfe" + b"\x01a" * 10_001 + b"\0"),
    "gif comments": gif_with(b"!\xfe\0" * 10_001),
    "gif bytes of no block": gif_with(b"\0" * 10_001),
    "tiff tags": shared_tags(20, 5_000),
    "tiff strips": tiff([(273, 4, 50_001, 8)], b"\0" * 200_004),
    "plain numbers": b"P3 900 900 255\n" + b"1 " * (900 * 900 * 3),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_of_too_many_parts_is_refused_before_pillow_sees_it(name: str, monkeypatch) -> None:
    assert len(BOMBS[name]) < 5_000_000
    if not name.startswith("png exif"):  # which lie where Pillow alone finds them
        monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("Pillow was asked"))
    with pytest.raises(PictureError, match="too many parts") as refusal:
        open_picture(BOMBS[name])
    assert str(refusal.value).count(".") == 2  # what is wrong, and what to do


def test_scans_are_weighed_by_the_size_of_the_picture() -> None:
    data = progressive(30)
    assert not has_too_many_parts(io.BytesIO(data))
    frame = data.index(b"\xff\xc2") + 5
    large = data[:frame] + struct.pack(">HH", 6_000, 6_000) + data[frame + 4 :]
    assert has_too_many_parts(io.BytesIO(large))


ORDINARY = {
    "as many scans as may be": progressive(100),
    "a hundred exif segments": jpeg_with(segment(b"\xe1", b"Exif\0\0" + EMPTY_EXIF) * 100),
    "fill bytes": jpeg_with(b"\xff" * 90_000),
    "other pictures": encoded(NOISE, "MPO", save_all=True, append_images=[NOISE]),
    "exif with many numbers": png_with(chunk(b"eXIf", numbers(1_000))),
    "two hundred texts": png_with(chunk(b"tEXt", b"a\0b") * 200),
    "a long comment": gif_with(b"!\xfe" + (b"\xff" + b"a" * 255) * 4_000 + b"\0"),
    "own tags": tiff([(50_000, 7, 250_000, 8)], b"\0" * 251_000),  # as long as a colour profile
    "exif with two marks": png_with(chunk(b"eXIf", MARK + EMPTY_EXIF)),
    "exif in a text": png_with(raw_profile(MARK + EMPTY_EXIF)),
    "exif in a damaged text": png_with(chunk(b"tEXt", b"Raw profile type exif\0\n\n\nxyz")),
    "plain": b"P3 2 1 255\n1 2 3 4 5 6\n",
}


@pytest.mark.parametrize("name", ORDINARY)
def test_a_file_within_the_limits_is_opened(name: str) -> None:
    assert open_picture(ORDINARY[name]).mode == "RGB"


def test_marks_within_a_profile_and_after_the_end_are_no_scans() -> None:
    """Any bytes may stand in a profile or a second picture, those of a scan's start too."""
    data = jpeg_with(segment(b"\xe2", b"ICC_PROFILE\0\1\1" + b"\xff\xda" * 5_000))
    assert open_picture(data + b"\xff\xda" * 5_000).size == NOISE.size


@pytest.mark.parametrize("kind", ["GIF", "PNG", "TIFF", "WEBP"])
def test_of_many_frames_the_first_alone_is_decoded(kind: str) -> None:
    frames = [Image.new("RGB", (8, 8), (i % 256, 40, 200)) for i in range(400)]
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
    assert open_picture(data).getpixel((4, 4)) == pytest.approx((0, 40, 200), abs=6)


@pytest.mark.parametrize("order", [b"II", b"MM"])
@pytest.mark.parametrize("length", range(0, 40, 3))
def test_a_cut_off_directory_is_left_to_pillow(order: bytes, length: int) -> None:
    whole = order + (b"*\0" if order == b"II" else b"\0*") + bytes(range(8, 60))
    assert not tags_exceed(whole[:length])


@pytest.mark.parametrize("head", [b"II+\0\x08\0\0\0", b"MM\0+\0\x08\0\0"])
def test_a_directory_beyond_all_files_is_left_to_pillow(head: bytes) -> None:
    assert not tags_exceed(head + b"\xff" * 8)
