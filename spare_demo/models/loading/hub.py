"""Whole files of the Hugging Face hub, all of one commit.

They lie in the hub's own cache, where transformers finds them. A download moves no file that is
there; one that was being moved at an interruption is moved again from its start.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from huggingface_hub import (
    constants,
    get_cached_repo_tree,
    get_hf_file_metadata,
    hf_hub_download,
    hf_hub_url,
    snapshot_download,
    try_to_load_from_cache,
)
from huggingface_hub.errors import LocalEntryNotFoundError
from tqdm.auto import tqdm

from spare_demo.models.base import ModelError
from spare_demo.models.loading.hub_refusals import (
    causes,
    get_again,
    is_missing_file,
    is_overloaded,
    is_unreachable,
    refusal,
)

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
SMALL = ("*.json", "*.jinja", "*.txt", "*.model")
"""Patterns of the files beside the weights."""

CONNECT_SECONDS = 5.0
"""An unreachable hub is reported within twice that."""

Progress = Callable[[int, int], None]
"""Called with bytes so far and bytes in all; what it raises ends the download."""


def no_progress(done: int, total: int) -> None:
    """A `Progress` that reports nothing."""


def config_folder(repository: str, file: str = "config.json") -> Path:
    """The folder of a repository's newest commit in the hub's cache, with one small file in it.

    Its name is the commit. Where the hub cannot be reached or takes no request for now, the
    commit that was used last.

    Raises ModelError where it is not there and not to be had; the message says why.
    """
    try:
        # First without the hub client's patience: it tries for half a minute.
        get_hf_file_metadata(hf_hub_url(repository, file), timeout=CONNECT_SECONDS)
        return Path(hf_hub_download(repository, file)).parent
    except Exception as error:
        path = cached(repository, file)
        if path is not None and (is_unreachable(error) or is_overloaded(error)):
            return path.parent
        raise refusal(repository, error) from error


def download_small_files(repository: str, commit: str) -> None:
    """Settings, tokenizer and processor, those that are missing; ModelError where they cannot be
    had."""
    try:
        snapshot_download(
            repository, revision=commit, allow_patterns=list(SMALL), etag_timeout=CONNECT_SECONDS
        )
        # Where the hub will not list the files, that takes those that are here, and says nothing.
        get_cached_repo_tree(repository, revision=commit)
    except Exception as error:
        raise refusal(repository, error) from error


def lacks_settings(repository: str, commit: str) -> bool:
    """Whether a commit is known to have settings that are not here."""
    try:
        snapshot_download(
            repository, revision=commit, allow_patterns=["*.json"], local_files_only=True
        )
    except LocalEntryNotFoundError:
        return True
    return False


def shards(folder: Path, repository: str | None) -> list[str]:
    """Names of the weight files of a folder, or of a repository's commit whose folder it is.

    Raises ModelError for an index that is damaged or cannot be had.
    """
    label = repository or f"The model folder '{folder.resolve().name}'"
    if repository is not None and not any((folder / name).exists() for name in (INDEX, SINGLE)):
        try:
            hf_hub_download(repository, INDEX, revision=folder.name, etag_timeout=CONNECT_SECONDS)
        except Exception as error:
            if not any(is_missing_file(cause) for cause in causes(error)):
                raise refusal(repository, error) from error
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        return sorted(set(index["weight_map"].values()))
    except FileNotFoundError:
        return [SINGLE]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"{label} has a damaged {INDEX}. {get_again(repository)}") from error


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


def download_files(
    repository: str, commit: str, files: list[str], progress: Progress
) -> list[Path]:
    """Whole files of a commit, downloaded into the hub's cache where they are not there yet.

    Raises ModelError, also before anything is moved where the disk has no room.
    """
    stops: list[BaseException] = []
    begun = False
    try:
        sizes = [size_of(repository, commit, file) for file in files]
        check_disk(repository, sum(sizes), Path(constants.HF_HUB_CACHE))
        begun = True
        paths: list[Path] = []
        for i, file in enumerate(files):
            bar = _bar_of(progress, sum(sizes[:i]), sum(sizes), stops)
            paths.append(Path(hf_hub_download(repository, file, revision=commit, tqdm_class=bar)))
        return paths
    except (Exception, KeyboardInterrupt) as error:
        if stops:
            raise stops[0] from None
        if isinstance(error, KeyboardInterrupt):
            raise
        raise refusal(repository, error, begun) from error


def size_of(repository: str, commit: str, file: str) -> int:
    """Bytes of a file, as the hub says."""
    url = hf_hub_url(repository, file, revision=commit)
    return int(get_hf_file_metadata(url, timeout=CONNECT_SECONDS).size or 0)


def _bar_of(progress: Progress, before: int, total: int, stops: list[BaseException]) -> Any:
    """A class of progress bars that report the bytes of one file after those before it.

    Xet has two for a file: what came, and what is written; the one that is ahead counts.

    stops: gets what `progress` raises. Xet, which calls the bar from a thread of its own, drops
        that and would download the file to its end.
    """
    done = 0

    class Bar(tqdm):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **{**options, "disable": True})
            self._bytes = int(options.get("initial") or 0)

        def update(self, n: float | None = 1) -> bool | None:
            nonlocal done
            self._bytes += int(n or 0)
            done = max(done, self._bytes)
            try:
                progress(before + done, total)
            except BaseException as error:
                stops.append(error)
                with contextlib.suppress(ImportError):  # of versions before it
                    from huggingface_hub.utils._xet import abort_xet_session

                    abort_xet_session()
                raise
            return None

    return Bar


def check_disk(repository: str, needed: int, folder: Path) -> None:
    """Raise ModelError unless so many bytes are free where a folder is, or will be."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise ModelError(
            f"{repository} needs {needed / 1e9:.1f} GB on the disk of the Hugging Face cache, and "
            f"{free / 1e9:.1f} GB are free. Free some space, or set HF_HOME to a larger disk."
        )
