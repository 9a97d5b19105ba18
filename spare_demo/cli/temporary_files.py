"""The temporary files of one process: in a folder of its own, which goes when the process ends.

Standard library only: Gradio makes its own folder when it is imported, so this comes before it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_PREFIX = "spare-demo-"
_LOCK = ".lock"


@contextlib.contextmanager
def own_temporary_folder() -> Iterator[Path]:
    """A new folder that only this user can read; all that this process leaves on the disk for a
    while lies in it, Gradio's uploads included.

    It lies in GRADIO_TEMP_DIR, or else where temporary files lie on this machine. It is removed at
    the end, and those of processes that were killed are removed at the start.

    Raises ValueError, with a sentence to show, where no folder can be made there.
    """
    parent = Path(os.environ.get("GRADIO_TEMP_DIR") or tempfile.gettempdir())
    before = tempfile.tempdir, os.environ.get("GRADIO_TEMP_DIR")
    with contextlib.ExitStack() as ending:
        try:
            parent.mkdir(parents=True, exist_ok=True)
            _remove_stale(parent)
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))  # mode 0700
            ending.callback(shutil.rmtree, folder, ignore_errors=True)
            ending.enter_context(_locked(folder))
        except OSError as error:
            raise ValueError(
                f"Nothing can be written to {parent} ({error.strerror}). Make room there, or set "
                "GRADIO_TEMP_DIR to another folder."
            ) from None
        ending.callback(_set_temporary, *before)
        _set_temporary(str(folder), str(folder / "gradio"))
        yield folder


def _set_temporary(folder: str | None, of_gradio: str | None) -> None:
    """Where this process makes temporary files, and where Gradio does; None for the usual place."""
    tempfile.tempdir = folder
    if of_gradio is None:
        os.environ.pop("GRADIO_TEMP_DIR", None)
    else:
        os.environ["GRADIO_TEMP_DIR"] = of_gradio


def _locked(folder: Path) -> IO[bytes]:
    """The folder's lock, which the system lets go however the process ends.

    Locked before it has its name: nobody finds one that is there and not yet held.
    """
    try:
        import fcntl
    except ImportError:  # Windows, where no open file can be deleted
        return open(folder / _LOCK, "wb")
    path = folder / f"{_LOCK}.new"
    stream = open(path, "wb")  # noqa: SIM115 (held as long as the folder)
    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    path.rename(folder / _LOCK)
    return stream


def _remove_stale(parent: Path) -> None:
    """Folders of other users, and of processes that run, stay."""
    for lock in parent.glob(f"{_PREFIX}*/{_LOCK}"):
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            try:
                import fcntl
            except ImportError:  # as in `_locked`
                lock.unlink()
            else:
                stream = held.enter_context(open(lock, "rb"))
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)
