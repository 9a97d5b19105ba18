"""Files that Gradio keeps for a page: written, named, kept, and deleted in time."""

from __future__ import annotations

import io
import shutil
import time
from contextlib import suppress
from pathlib import Path

import gradio as gr
from gradio.processing_utils import hash_bytes, save_bytes_to_cache, save_file_to_cache
from gradio.routes import file_upload_statuses
from gradio.utils import get_upload_folder
from PIL import Image, ImageOps


def write_to_cache(part: gr.HTML, data: bytes, name: str) -> str:
    """The path of a new file in Gradio's cache, which the page may read for some hours.

    part: of the page itself; files of a visitor's copy of a part are never cleared.
    """
    path = (Path(part.GRADIO_CACHE) / hash_bytes(data) / name).resolve()
    part.temp_files.add(str(path))  # first: where the disk is full, a piece of it is left
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(data)
    return str(path)


def keep_in_cache(part: gr.HTML | gr.Image, path: str) -> None:
    """Keep a file of the cache for as long as the page is served."""
    part.keep_in_cache.add(path)


def cached_picture(path: str) -> str:
    """The path of a picture's copy in Gradio's cache, from which a page that opens on it reads."""
    return save_file_to_cache(path, get_upload_folder())


def cached_thumbnail(path: str, side: int) -> str:
    """The path of a square copy of a picture in Gradio's cache, so many pixels wide."""
    file = io.BytesIO()
    with Image.open(path) as picture:
        ImageOps.fit(picture.convert("RGB"), (side, side)).save(file, picture.format)
    return save_bytes_to_cache(file.getvalue(), Path(path).name, get_upload_folder())


def picture_name(path: str) -> str:
    """What tells a picture on the page from any other: its address there ends in NAME/FILE.

    Gradio names the folder of an uploaded or cached file by the hash of its bytes.
    """
    return Path(path).parent.name


def remove_broken_uploads(older_than: float) -> None:
    """Delete uploads whose sender broke off; whole ones lie in folders of their own.

    older_than: seconds since its last byte, after which a file counts as broken off.
    """
    for path in _unfinished_uploads():
        with suppress(FileNotFoundError):  # it was finished meanwhile
            if time.time() - path.stat().st_mtime > older_than:
                path.unlink()


def _unfinished_uploads() -> list[Path]:
    """What is on its way or broke off, beside the uploads that are whole."""
    return [path for path in Path(get_upload_folder()).glob("tmp*") if path.is_file()]


class UploadProgress:
    """How far each upload is, of which Gradio keeps the name for good, and of those that somebody
    only asked about, too."""

    def __init__(self) -> None:
        self._before: set[str] = set()

    def forget(self) -> None:
        """Drop what was there at the last call; of an upload that is still under way it comes
        back."""
        known = (file_upload_statuses._statuses, file_upload_statuses._signals)
        for name in self._before:
            for values in known:
                values.pop(name, None)
        self._before = set().union(*known)


def remove_oldest_files(demo: gr.Blocks, most_bytes: int) -> None:
    """Delete the oldest uploads, whole or not, and files of comparisons until the others have at
    most so many bytes, and at most half of the room that the disk has for them. Those that a page
    opens on stay."""
    kept = {file for part in demo.blocks.values() for file in getattr(part, "keep_in_cache", ())}
    known = {file for files in demo.temp_file_sets for file in files.copy()} - kept
    found = []
    for file in {*known, *map(str, _unfinished_uploads())}:
        try:
            facts = Path(file).lstat()
        except FileNotFoundError:  # it was two hours old
            continue
        found.append((facts.st_mtime, facts.st_size, file))
    with suppress(OSError):  # nothing was uploaded yet
        free = shutil.disk_usage(get_upload_folder()).free
        most_bytes = min(most_bytes, (free + sum(size for _, size, _ in found)) // 2)
    total = 0
    for _, size, file in sorted(found, reverse=True):
        total += size
        if total > most_bytes:
            Path(file).unlink(missing_ok=True)
            for files in demo.temp_file_sets:
                files.discard(file)
