"""Only the tensors that are wanted, of a repository of the hub by byte ranges, or of files here.

Those of a repository are downloaded into a safetensors file of their own, which is kept beside the
hub's cache under the commit. A download resumes after an interruption, and moves no byte of what is
there.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import constants, hf_hub_url
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # documented there
    WeakFileLock,
    build_hf_headers,
    get_session,
    hf_raise_for_status,
)
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from spare_demo.models.base import ModelError
from spare_demo.models.loading import hub
from spare_demo.models.loading.hub import Progress, no_progress
from spare_demo.models.loading.hub_refusals import is_transport, refusal

VISION = "vision"
"""What `download_tensors` calls the part of a checkpoint before its language model."""

_TRIES = 5  # of a part, each from where the one before it was cut off
_MOST_HEADER = 100_000_000  # bytes; a longer one is none

Wanted = Callable[[str], bool]
"""Whether a tensor of this name is wanted."""


class RangesIgnored(Exception):
    """The server sends whole files only."""


def download_tensors(
    repository: str,
    commit: str,
    files: list[str],
    wanted: Wanted,
    name: str,
    progress: Progress = no_progress,
    report: Callable[[str], None] = lambda sentence: None,
) -> Path:
    """A safetensors file that holds the wanted tensors of a repository's files, and no others.

    files: of the repository, in safetensors form. name: of the new file, without its ending.
    report: gets a sentence where the server sends whole files only, before they are moved.

    Raises ModelError: not to be had, damaged on the hub, or no room on the disk; it says so.
    """
    target = _place(repository, commit, name)
    if _is_whole(target):
        return target
    begun = False
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(target.with_suffix(".lock")):  # of several processes one downloads it
            if _is_whole(target):
                return target
            try:
                pieces = [p for file in files for p in _pieces(repository, commit, file, wanted)]
                begun = True
                _download_pieces(repository, commit, pieces, target, progress)
            except RangesIgnored:
                sizes = sum(hub.size_of(repository, commit, file) for file in files)
                report(
                    f"{constants.ENDPOINT} sends whole files only, so {sizes / 1e9:.1f} GB of "
                    f"{repository} are downloaded instead of the part that is needed."
                )
                paths = hub.download_files(repository, commit, files, progress)
                save_file(read_tensors(paths, wanted), target)
    except Exception as error:
        raise refusal(repository, error, begun) from error
    if not _is_whole(target):
        target.unlink(missing_ok=True)
        raise ModelError(
            f"What was downloaded of {repository} is damaged. Try again: it is downloaded again."
        )
    return target


def is_kept(repository: str, name: str, file: str = "config.json") -> bool:
    """Whether what `download_tensors` calls so is here, of the newest known commit with a file."""
    newest = hub.cached(repository, file)
    return newest is not None and _is_whole(_place(repository, newest.parent.name, name))


def _place(repository: str, commit: str, name: str) -> Path:
    folder = Path(constants.HF_HOME) / "spare-demo" / repository.replace("/", "--") / commit
    return folder / f"{name}.safetensors"


@dataclass(frozen=True)
class _Piece:
    """A tensor in a file of the hub.

    start, stop: its bytes, counted from the beginning of the file.
    """

    file: str
    tensor: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def _pieces(repository: str, commit: str, file: str, wanted: Wanted) -> list[_Piece]:
    """The wanted tensors of one file, in the order in which they lie there."""
    url = hf_hub_url(repository, file, revision=commit)
    length = int.from_bytes(b"".join(_read(url, 0, 8)), "little")
    if not 2 <= length <= _MOST_HEADER:
        raise _damaged(repository, file)
    try:
        header = json.loads(b"".join(_read(url, 8, 8 + length)))
        header.pop("__metadata__", None)
        pieces = [
            _Piece(
                file,
                tensor,
                str(item["dtype"]),
                tuple(item["shape"]),
                *(8 + length + offset for offset in item["data_offsets"]),
            )
            for tensor, item in header.items()
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(repository, file) from error
    if max((piece.stop for piece in pieces), default=0) > hub.size_of(repository, commit, file):
        raise _damaged(repository, file)
    return sorted((p for p in pieces if wanted(p.tensor)), key=lambda piece: piece.start)


def _damaged(repository: str, file: str) -> ModelError:
    return ModelError(
        f"{file} of {repository} is damaged on the hub: it is shorter than its header says, or no "
        "safetensors file. Choose another model."
    )


def _download_pieces(
    repository: str, commit: str, pieces: list[_Piece], target: Path, progress: Progress
) -> None:
    """Write the pieces into the target; what an interrupted run left of it is kept."""
    head, part = _header(pieces), target.with_suffix(".part")
    with part.open("a+b") as stream:  # of what is there only the head is read: it may be large
        stream.seek(0)
        is_ours = stream.read(len(head)) == head
    if not is_ours:
        part.write_bytes(head)
    total = sum(piece.stop - piece.start for piece in pieces)
    done = min(part.stat().st_size - len(head), total)
    hub.check_disk(repository, total - done, target.parent)
    progress(done, total)
    with part.open("r+b") as stream:
        stream.seek(len(head) + done)
        skip = done
        for file, start, stop in _runs(pieces):
            if skip >= stop - start:
                skip -= stop - start
                continue
            for data in _read(hf_hub_url(repository, file, revision=commit), start + skip, stop):
                stream.write(data)
                done += len(data)
                progress(done, total)
            skip = 0
        stream.truncate()
    os.replace(part, target)


def _runs(pieces: list[_Piece]) -> list[tuple[str, int, int]]:
    """File, start and stop of stretches of pieces that lie one after the other."""
    runs: list[tuple[str, int, int]] = []
    for piece in pieces:
        if runs and (piece.file, piece.start) == (runs[-1][0], runs[-1][2]):
            runs[-1] = (*runs[-1][:2], piece.stop)
        else:
            runs.append((piece.file, piece.start, piece.stop))
    return runs


def _header(pieces: list[_Piece]) -> bytes:
    """The head of a safetensors file that holds the pieces one after the other."""
    entries: dict[str, Any] = {}
    place = 0
    for piece in pieces:
        size = piece.stop - piece.start
        entries[piece.tensor] = {
            "dtype": piece.dtype,
            "shape": list(piece.shape),
            "data_offsets": [place, place + size],
        }
        place += size
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _read(url: str, start: int, stop: int) -> Iterator[bytes]:
    """The bytes from start to stop of a file, resumed after a cut; ModelError where none come.

    Before each further try comes an empty piece, so that whoever reads can end the download.
    """
    tries = 0
    while start < stop:
        before = start
        try:
            headers = build_hf_headers() | {"Range": f"bytes={start}-{stop - 1}"}
            # To connect, read, write, and for a free line.
            timeout = (hub.CONNECT_SECONDS, 30.0, 30.0, 30.0)
            with get_session().stream("GET", url, headers=headers, timeout=timeout) as response:
                hf_raise_for_status(response)
                if response.status_code != 206:
                    raise RangesIgnored
                for data in response.iter_bytes(1 << 20):
                    start += len(data)
                    yield data
            if start == before:
                raise ModelError(f"{constants.ENDPOINT} sends nothing. Try again later.")
        except Exception as error:
            tries = 1 if start > before else tries + 1
            if tries >= _TRIES or not is_transport(error):
                raise
            yield b""
            time.sleep(0.2 * tries)


def read_tensors(
    paths: Sequence[Path], wanted: Wanted, dtype: torch.dtype | None = None
) -> dict[str, torch.Tensor]:
    """The wanted tensors of some files by name, converted one by one: never two of each at once."""
    tensors: dict[str, torch.Tensor] = {}
    for path in paths:
        with safe_open(path, framework="pt") as file:
            names = list(filter(wanted, file.keys()))
        for name in names:
            # Opened again: of a file that stays open, all that was read stays in memory.
            with safe_open(path, framework="pt") as file:
                tensor = file.get_tensor(name)
            tensors[name] = tensor.to(dtype) if tensor.is_floating_point() else tensor
    return tensors


def _is_whole(path: Path) -> bool:
    """Whether a safetensors file is there, as long as its header says."""
    try:
        with safe_open(path, framework="pt"):
            return True
    except (OSError, SafetensorError):
        return False
