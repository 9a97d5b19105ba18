"""Files that Gradio keeps for a page: written, named, kept, and deleted in time."""

from __future__ import annotations

import io
import os
import secrets
import shutil
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import gradio as gr
from gradio import route_utils
from gradio.processing_utils import hash_bytes, save_bytes_to_cache, save_file_to_cache
from gradio.routes import file_upload_statuses
from gradio.utils import get_upload_folder
from PIL import Image, ImageOps

MOST_FILES = 20_000
"""Of uploads and comparisons together, of whatever size: each takes a place on the disk."""

MOST_FILES_AT_ONCE = 10
"""In one request; the page and its programs send one."""


class _FewFilesParser(route_utils.GradioMultiPartParser):
    """Reads an upload, in which a thousand files would each hold a descriptor until its end."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named | {"max_files": MOST_FILES_AT_ONCE})


def take_few_files() -> None:
    """Let no upload bring more than `MOST_FILES_AT_ONCE` files, for which Gradio has no option."""
    route_utils.GradioMultiPartParser = _FewFilesParser  # type: ignore[misc]


def write_to_cache(data: bytes, name: str) -> str:
    """The path of a new file in Gradio's cache, which the page may read for some hours.

    Its folder is named by what it holds. No file is written twice: somebody may be reading it.
    """
    folder = Path(get_upload_folder()) / hash_bytes(data)
    path = (folder / f"{secrets.token_hex(8)}-{name}").resolve()
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(data)
    return str(path)


def cached_picture(path: str) -> str:
    """The path of a picture's copy in Gradio's cache, from which a page that opens on it reads."""
    return save_file_to_cache(path, get_upload_folder())


def cached_thumbnail(path: str, side: int) -> str:
    """The path of a square copy of a picture in Gradio's cache, so many pixels wide."""
    file = io.BytesIO()
    with Image.open(path) as picture:
        ImageOps.fit(picture.convert("RGB"), (side, side)).save(file, picture.format)
    return save_bytes_to_cache(file.getvalue(), Path(path).name, get_upload_folder())


def remove_broken_uploads(older_than: float) -> None:
    """Delete uploads whose sender broke off; whole ones lie in folders of their own.

    older_than: seconds since its last byte, after which a file counts as broken off.
    """
    for path in Path(get_upload_folder()).glob("tmp*"):
        with suppress(OSError):  # it was finished meanwhile, or is open, on Windows
            if path.is_file() and time.time() - path.stat().st_mtime > older_than:
                path.unlink()


class UploadProgress:
    """Gradio's record of how far each upload is. It keeps every name for good, even that of an
    upload which somebody only asked about."""

    def __init__(self) -> None:
        self._before: set[str] = set()

    def forget(self) -> None:
        """Drop what was there at the last call. An upload that is still under way comes back."""
        known = (file_upload_statuses._statuses, file_upload_statuses._signals)
        for name in self._before:
            for values in known:
                values.pop(name, None)
        self._before = set().union(*known)


def files_in_cache() -> set[str]:
    """All that lies in Gradio's cache."""
    return {
        os.path.join(folder, name)
        for folder, _, names in os.walk(get_upload_folder())
        for name in names
    }


def remove_old_files(demo: gr.Blocks, kept: Collection[str], seconds: float, most: int) -> None:
    """Delete the files of the cache that are so many seconds old, and the oldest of the others
    until they have at most so many bytes, and at most half of the room that the disk has for them;
    of more than `MOST_FILES` the oldest, too.

    kept: those that stay, as what a page opens on.

    Gradio's own sweep, `delete_cache`, leaves the folder of each file and all that a visitor's copy
    of a part wrote, and ends for good where a file is written while it reads its lists of them.
    These lists are emptied here: they would grow, by one for each part that `gr.render` makes.
    """
    for part in demo.blocks.values():
        part.temp_files.clear()
    demo.upload_file_set.clear()
    demo.temp_file_sets.clear()
    found = []
    for file in files_in_cache() - {*kept}:
        with suppress(FileNotFoundError):  # an upload that was under way
            facts = os.lstat(file)
            found.append((facts.st_mtime, facts.st_size, file))
    with suppress(OSError):  # nothing was uploaded yet
        free = shutil.disk_usage(get_upload_folder()).free
        most = min(most, (free + sum(size for _, size, _ in found)) // 2)
    total, end = 0, time.time() - seconds
    for count, (changed, size, file) in enumerate(sorted(found, reverse=True), 1):
        total += size
        if changed < end or total > most or count > MOST_FILES:
            with suppress(OSError):  # it is open, on Windows, or others lie there
                Path(file).unlink(missing_ok=True)
                Path(file).parent.rmdir()
