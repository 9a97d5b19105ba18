"""Counts the parts of a picture file that a decoder would work through, before it does.

A small file can hold thousands of scans, comments or tags, and each may cost a pass over all of
the picture, or a copy of all that was read so far. No camera or program writes as many.
"""

from __future__ import annotations

import re
import struct
from typing import IO

MOST_SCANS = 100
"""Of a progressive JPEG. Programs write about ten."""

MOST_SCANNED_PIXELS = 1_000_000_000
"""Pixels times scans of a JPEG: each scan is a pass over the whole picture."""

MOST_EXIF_SEGMENTS = 100
"""Of a JPEG; Pillow copies what came before with each."""

MOST_MARKS = 3
"""Of EXIF, one after the other. Some programs write two."""

MOST_SEGMENTS = 2_000
"""Of a JPEG, of any kind."""

MOST_FILLED_BYTES = 100_000
"""Between a JPEG's segments before its first scan, which Pillow reads one by one."""

MOST_CHUNKS = 200_000
MOST_NOTES = 200
"""Chunks of a PNG with text, a profile or EXIF; each may unpack to a megabyte."""

MOST_COMMENT_BLOCKS = 10_000
"""Blocks of a GIF before its first frame; a comment is copied with each. Bytes that are no block's
count as well: Pillow reads them one by one."""

MOST_STRIPS = 50_000
"""Strips or tiles of a TIFF's first picture."""

MOST_NUMBERS = 200_000
"""In tags; Pillow makes an object of each, and of a fraction a slow one. A TIFF may have three
tables of 65,536."""

MOST_PLAIN_BYTES = 4_000_000
"""Of a PBM, PGM or PPM that spells its numbers out, which Pillow reads one by one."""

_SOS, _EOI, _APP1, _APP2 = 0xDA, 0xD9, 0xE1, 0xE2
_SIZES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # the markers that say how large a picture is
# Not 00, which stands for FF within a scan, and not the markers without a length.
_JPEG_MARKER = re.compile(rb"\xff([^\x00\x01\xd0-\xd8\xff])")
_BARE = {0xC8, _EOI, *range(0xF0, 0xFE)}  # those of which Pillow skips no segment
_EXIF = b"Exif\0\0"
_PICTURES = b"MPF\0"  # before the tags of a JPEG that say which other pictures follow
_NOTES = (b"tEXt", b"zTXt", b"iTXt", b"iCCP", b"eXIf")
TIFF_HEADS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b"II\0*", b"MM*\0")  # as Pillow takes them
_TAG_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8}
_TAG_BYTES |= {13: 4, 16: 8, 17: 8, 18: 8}
_AS_BYTES = (1, 2, 7)  # kinds of tags that are read as they stand
_STRIP_OFFSETS, _TILE_OFFSETS = 273, 324


def has_too_many_parts(stream: IO[bytes]) -> bool:
    """Whether a picture file holds more parts than any program writes; False for other files.

    stream: read from its start, and left there. The time is that of reading the file.
    """
    head = stream.read(8)
    stream.seek(0)
    for starts, count in (
        ((b"\xff\xd8\xff",), _jpeg),
        ((b"\x89PNG",), _png),
        ((b"GIF8",), _gif),
        (TIFF_HEADS, tags_exceed),
        ((b"P1", b"P2", b"P3"), lambda data: len(data) > MOST_PLAIN_BYTES),
    ):
        if head.startswith(starts):
            data = stream.read()
            stream.seek(0)
            return count(data)
    return False


def tags_exceed(data: bytes) -> bool:
    """Whether the first directory of a TIFF, or of EXIF, says to hold more than its file does.

    Several tags may name the same bytes, which Pillow would copy for each of them. Also True for
    too many strips, too many of EXIF's own mark at the front, with each of which Pillow copies
    all that follows, and too many numbers. data: with or without that mark.
    """
    for _ in range(MOST_MARKS):
        data = data.removeprefix(_EXIF)
    if data.startswith(_EXIF):
        return True
    order = ">" if data.startswith(b"MM") else "<"
    big = data[2:3] == b"+"  # Pillow takes only the short form of the other order
    entry_size, head = (20, "HHQ") if big else (12, "HHI")
    try:
        (start,) = struct.unpack_from(order + ("Q" if big else "I"), data, 8 if big else 4)
        (count,) = struct.unpack_from(order + ("Q" if big else "H"), data, start)
        entries = start + (8 if big else 2)
        total = numbers = 0
        for place in range(entries, min(entries + count * entry_size, len(data)), entry_size):
            tag, kind, values = struct.unpack_from(order + head, data, place)
            total += values * _TAG_BYTES.get(kind, 0)
            numbers += values * (kind in _TAG_BYTES and kind not in _AS_BYTES)
            if total > len(data) or numbers > MOST_NUMBERS:
                return True
            if tag in (_STRIP_OFFSETS, _TILE_OFFSETS) and values > MOST_STRIPS:
                return True
    except (struct.error, OverflowError):  # cut off: Pillow's own refusal says so
        pass
    return False


def _jpeg(data: bytes) -> bool:
    """The first picture of the file: what follows its end is not decoded."""
    place, scans, segments, pixels, filled = 2, 0, 0, 0, 0
    exif: list[bytes] = []
    while (marker := _JPEG_MARKER.search(data, place)) is not None:
        if not scans:
            filled += marker.start() - place
            if filled > MOST_FILLED_BYTES:
                return True
        kind, place = marker[1][0], marker.end()
        if kind == _EOI and scans:
            break
        if kind in _BARE:
            filled += 2
            continue
        length = max(2, int.from_bytes(data[place : place + 2], "big"))
        segments += 1
        scans += kind == _SOS
        if kind == _APP1 and data.startswith(_EXIF, place + 2):
            exif.append(data[place + 2 + len(_EXIF) : place + length])
        others = kind == _APP2 and data.startswith(_PICTURES, place + 2)
        if others and tags_exceed(data[place + 2 + len(_PICTURES) : place + length]):
            return True
        if kind in _SIZES:
            height, width = data[place + 3 : place + 5], data[place + 5 : place + 7]
            pixels = int.from_bytes(height, "big") * int.from_bytes(width, "big")
        if scans > MOST_SCANS or scans * pixels > MOST_SCANNED_PIXELS:
            return True
        if segments > MOST_SEGMENTS or len(exif) > MOST_EXIF_SEGMENTS:
            return True
        place += length
    if not scans and filled + len(data) - place > MOST_FILLED_BYTES:
        return True  # Pillow looks for one to the end
    return tags_exceed(b"".join(exif))


def _png(data: bytes) -> bool:
    place, chunks, notes = 8, 0, 0
    while place + 8 <= len(data):
        chunks += 1
        notes += data[place + 4 : place + 8] in _NOTES
        if chunks > MOST_CHUNKS or notes > MOST_NOTES:
            return True
        place += 12 + int.from_bytes(data[place : place + 4], "big")
    return False


def _gif(data: bytes) -> bool:
    """Up to the first frame, which is the only one decoded."""
    if len(data) < 13:
        return False
    flags, blocks = data[10], 0
    place = 13 + (3 * (2 << (flags & 7)) if flags & 0x80 else 0)
    while data[place : place + 1] not in (b"", b",", b";") and blocks <= MOST_COMMENT_BLOCKS:
        if data[place : place + 1] != b"!":
            place, blocks = place + 1, blocks + 1
            continue
        place += 2
        while True:
            blocks += 1
            if blocks > MOST_COMMENT_BLOCKS:
                return True
            size = data[place] if place < len(data) else 0
            place += 1 + size
            if size == 0:
                break
    return blocks > MOST_COMMENT_BLOCKS
