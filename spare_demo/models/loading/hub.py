"""Files of the Hugging Face hub, all of one commit: whole, or only the tensors that are wanted.

Whole files lie in the hub's own cache, where transformers finds them. Where only some tensors of a
repository are wanted (no language model, CLIP's text side), just those are downloaded, by byte
ranges, into a safetensors file of their own; it is kept beside the hub's cache under the commit.
Both kinds of download resume after an interruption, and neither moves a byte of what is there.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from huggingface_hub import (
    constants,
    get_hf_file_metadata,
    hf_hub_download,
    hf_hub_url,
    snapshot_download,
    try_to_load_from_cache,
)
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # documented there
    build_hf_headers,
    get_session,
    hf_raise_for_status,
)
from safetensors import SafetensorError, safe_open
from tqdm.auto import tqdm

from spare_demo.models.base import ModelError

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
SMALL = ("*.json", "*.jinja", "*.txt", "*.model")
"""Patterns of the files beside the weights."""

_SECONDS = 5.0  # to connect: an unreachable hub is reported within twice that
_TRIES = 5  # of a part, each from where the one before it was cut off
_MOST_HEADER = 100_000_000  # bytes; a longer one is none

Progress = Callable[[int, int], None]
"""Called with bytes so far and bytes in all; what it raises ends the download."""
Wanted = Callable[[str], bool]
"""Whether a tensor of this name is wanted."""


class RangesIgnored(Exception):
    """The server sends whole files only."""


def no_progress(done: int, total: int) -> None:
    """Say nothing."""


def config_folder(repository: str, file: str = "config.json") -> Path:
    """The folder of a repository's newest commit in the hub's cache, with one small file in it.

    Its name is the commit. Where the hub cannot be reached, the commit that was used last.

    Raises:
        ModelError: not there, and not to be had; the message says why.
    """
    try:
        # First without the hub client's patience: it tries for half a minute.
        get_hf_file_metadata(hf_hub_url(repository, file), timeout=_SECONDS)
        return Path(hf_hub_download(repository, file)).parent
    except Exception as error:
        cached = try_to_load_from_cache(repository, file)
        if isinstance(cached, str) and _is_unreachable(error):
            return Path(cached).parent
        raise refusal(repository, error) from error


def download_small_files(repository: str, commit: str) -> None:
    """Settings, tokenizer and processor; ModelError where they cannot be had."""
    try:
        snapshot_download(
            repository, revision=commit, allow_patterns=list(SMALL), etag_timeout=_SECONDS
        )
    except Exception as error:
        raise refusal(repository, error) from error


def shards(folder: Path, repository: str | None) -> list[str]:
    """Names of the weight files of a folder, or of a repository's commit whose folder it is.

    Raises:
        ModelError: a damaged index, or an index that cannot be had.
    """
    label = repository or f"The model folder '{folder.resolve().name}'"
    if repository is not None and not any((folder / name).exists() for name in (INDEX, SINGLE)):
        try:
            hf_hub_download(repository, INDEX, revision=folder.name, etag_timeout=_SECONDS)
        except Exception as error:
            if not any(_answered_404(cause) for cause in _causes(error)):
                raise refusal(repository, error) from error
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        return sorted(set(index["weight_map"].values()))
    except FileNotFoundError:
        return [SINGLE]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{label} has a damaged {INDEX}. Get the whole checkpoint again."
        ) from error


def is_complete(repository: str) -> bool:
    """Whether all weights of a repository's newest known commit are in the hub's cache."""
    config = cached(repository, "config.json")
    if config is None:
        return False
    try:
        files = shards(config.parent, None)
    except ModelError:
        return False
    return all((config.parent / name).exists() for name in files)


def cached(repository: str, file: str) -> Path | None:
    """A file that lies whole in the hub's cache, None where it does not."""
    path = try_to_load_from_cache(repository, file)
    return Path(path) if isinstance(path, str) else None


def download_weights(repository: str, folder: Path, progress: Progress = no_progress) -> None:
    """All weights of a commit into the hub's cache, where they are not there yet.

    folder: of `config_folder`. Raises ModelError, also before anything is moved where the disk has
    no room.
    """
    missing = [name for name in shards(folder, repository) if not (folder / name).exists()]
    try:
        sizes = {name: _size(repository, folder.name, name) for name in missing}
        total, done = sum(sizes.values()), 0
        _check_disk(repository, total, Path(constants.HF_HUB_CACHE))
        for name in missing:
            bar = _bar(progress, done, total)
            hf_hub_download(repository, name, revision=folder.name, tqdm_class=bar)
            done += sizes[name]
    except Exception as error:
        raise refusal(repository, error) from error


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

    Args:
        files: of the repository, in safetensors form.
        name: of the new file, without its ending.
        report: gets a sentence where the server sends whole files only, before they are moved.

    Raises:
        ModelError: not to be had, damaged on the hub, or no room on the disk; the message says so.
    """
    folder = Path(constants.HF_HOME) / "spare-demo" / repository.replace("/", "--") / commit
    target = folder / f"{name}.safetensors"
    if _is_whole(target):
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pieces = [piece for file in files for piece in _pieces(repository, commit, file, wanted)]
        _download_pieces(repository, commit, pieces, target, progress)
    except RangesIgnored:
        sizes = sum(_size(repository, commit, file) for file in files)
        report(
            f"{constants.ENDPOINT} sends whole files only, so {sizes / 1e9:.1f} GB of {repository} "
            "are downloaded instead of the part that is needed."
        )
        _copy_tensors(repository, commit, files, wanted, target, progress)
    except Exception as error:
        raise refusal(repository, error) from error
    if not _is_whole(target):
        target.unlink(missing_ok=True)
        raise ModelError(
            f"What was downloaded of {repository} is damaged. Start again: it is downloaded anew."
        )
    return target


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
    if max((piece.stop for piece in pieces), default=0) > _size(repository, commit, file):
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
    if not part.exists() or part.read_bytes()[: len(head)] != head:
        part.write_bytes(head)
    total = sum(piece.stop - piece.start for piece in pieces)
    done = min(part.stat().st_size - len(head), total)
    _check_disk(repository, total - done, target.parent)
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


def _runs(pieces: list[_Piece]) -> Iterator[tuple[str, int, int]]:
    """File, start and stop of stretches of pieces that lie one after the other."""
    for file, in_file in groupby(pieces, key=lambda piece: piece.file):
        start = stop = -1
        for piece in in_file:
            if piece.start != stop:
                if stop > start:
                    yield file, start, stop
                start = piece.start
            stop = piece.stop
        if stop > start:
            yield file, start, stop


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
    """The bytes from start to stop of a file, resumed after a cut."""
    tries = 0
    while start < stop:
        before = start
        try:
            headers = build_hf_headers() | {"Range": f"bytes={start}-{stop - 1}"}
            timeout = (_SECONDS, 30.0, 30.0, 30.0)  # to connect, read, write, and for a free line
            with get_session().stream("GET", url, headers=headers, timeout=timeout) as response:
                hf_raise_for_status(response)
                if response.status_code != 206:
                    raise RangesIgnored
                for data in response.iter_bytes(1 << 20):
                    start += len(data)
                    yield data
        except Exception as error:
            tries = 1 if start > before else tries + 1
            if tries >= _TRIES or not _is_transport(error):
                raise
            time.sleep(0.2 * tries)


def _copy_tensors(
    repository: str,
    commit: str,
    files: list[str],
    wanted: Wanted,
    target: Path,
    progress: Progress,
) -> None:
    """The same from whole files, which are downloaded first."""
    from safetensors.torch import save_file

    tensors: dict[str, Any] = {}
    try:
        sizes = [_size(repository, commit, file) for file in files]
        _check_disk(repository, sum(sizes), Path(constants.HF_HUB_CACHE))
        for i, file in enumerate(files):
            bar = _bar(progress, sum(sizes[:i]), sum(sizes))
            path = hf_hub_download(repository, file, revision=commit, tqdm_class=bar)
            with safe_open(path, framework="pt") as opened:
                names = [key for key in opened.keys() if wanted(key)]  # noqa: SIM118
                tensors |= {key: opened.get_tensor(key) for key in names}
        save_file(tensors, target)
    except Exception as error:
        raise refusal(repository, error) from error


def _is_whole(path: Path) -> bool:
    """Whether a safetensors file is there, as long as its header says."""
    try:
        with safe_open(path, framework="pt"):
            return True
    except (OSError, SafetensorError):
        return False


def _size(repository: str, commit: str, file: str) -> int:
    url = hf_hub_url(repository, file, revision=commit)
    return int(get_hf_file_metadata(url, timeout=_SECONDS).size or 0)


def _bar(progress: Progress, before: int, total: int) -> Any:
    """A class of progress bars that report the bytes of one file after those before it."""

    class Bar(tqdm):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **{**options, "disable": True})
            self._bytes = int(options.get("initial") or 0)

        def update(self, n: float | None = 1) -> bool | None:
            self._bytes += int(n or 0)
            progress(before + self._bytes, total)
            return None

    return Bar


def _check_disk(repository: str, needed: int, folder: Path) -> None:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free
    if needed > free:
        raise ModelError(
            f"{repository} needs {needed / 1e9:.1f} GB on the disk of the Hugging Face cache, and "
            f"{free / 1e9:.1f} GB are free. Free some space, or set HF_HOME to a larger disk."
        )


_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)


def refusal(repository: str, error: Exception) -> Exception:
    """Why something of a repository cannot be had, in a sentence; other errors as they are."""
    chain = list(_causes(error))
    for cause in chain:
        if isinstance(cause, ModelError):
            return cause
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return ModelError(
                f"The disk filled up while {repository} was downloaded. Free some space, or set "
                "HF_HOME to a larger disk; the download resumes where it stopped."
            )
        if isinstance(cause, OSError) and cause.errno in _NOT_WRITABLE:
            return ModelError(
                f"{repository} could not be downloaded: the folder of the Hugging Face cache may "
                "not be written by this user. Give it to the user (a folder mounted into a "
                "container belongs to root at first), or set HF_HOME to another one."
            )
        if isinstance(cause, OfflineModeIsEnabled):
            return ModelError(
                f"{repository} is not on this machine, and HF_HUB_OFFLINE is set. Unset it to "
                "download the model, or start with --model built-in."
            )
        if isinstance(cause, HfHubHTTPError) and (sentence := _status(repository, cause)):
            return ModelError(sentence)
    if _is_unreachable(error):
        return ModelError(
            f"{repository} is not on this machine, and {constants.ENDPOINT} cannot be reached. "
            "Check the connection, or start with --model built-in."
        )
    return error


def _answered_404(error: BaseException) -> bool:
    return isinstance(error, HfHubHTTPError) and error.response.status_code == 404


def _is_unreachable(error: BaseException) -> bool:
    """Whether the hub gave no answer at all, or is not to be asked."""
    kinds = (OfflineModeIsEnabled, LocalEntryNotFoundError)
    return any(_is_transport(e) or isinstance(e, kinds) for e in _causes(error))


def _is_transport(error: BaseException) -> bool:
    """Whether the hub's client lost the connection; versions of it use httpx or httpx2."""
    return any(
        kind.__name__ == "TransportError" and kind.__module__.startswith("httpx")
        for kind in type(error).__mro__
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    while error is not None and error not in seen:  # one raised from itself is its own cause
        seen.append(error)
        yield error
        error = error.__cause__ or error.__context__


def _status(repository: str, error: HfHubHTTPError) -> str:
    """What the hub's refusal means and what to do."""
    status = error.response.status_code
    if isinstance(error, GatedRepoError) or status == 403:
        return (
            f"{repository} is gated: accept its terms on its page of the hub, log in with `hf auth "
            "login`, then start again."
        )
    if isinstance(error, RevisionNotFoundError):
        return f"{repository} has no such revision on the hub. Leave the revision away."
    if isinstance(error, RepositoryNotFoundError) or status == 401:
        return (
            f"The hub shows no repository {repository} to you: its name is another, or it is "
            "private. Check the name, or log in with `hf auth login`."
        )
    if status == 404:
        return f"{repository} lacks a file on the hub that a model needs. Choose another model."
    if status == 429:
        return (
            "The hub takes no more requests from this address for now. Wait some minutes, or log "
            "in with `hf auth login`, then start again."
        )
    if status >= 500:
        return f"The hub has a fault of its own (error {status}). Try again later."
    return ""
