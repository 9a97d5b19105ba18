"""Checkpoints that survive being cut off at any byte.

A file is a SHA-256 of the rest, then what torch saved. It is written whole beside the one before,
which stays until the next one: a damaged file is passed over for it.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
from pathlib import Path
from typing import Any

import torch

_DIGEST = 32  # bytes


class Checkpoint:
    """The state of one part of the training, in a file and, of the save before it, in another."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.before = path.with_suffix(".before.pt")

    def save(self, state: dict[str, Any]) -> None:
        """Writes a state and keeps the one before.

        Raises OSError if the disk is full, say. What was there stays.
        """
        buffer = io.BytesIO()
        torch.save(state, buffer)
        payload = buffer.getvalue()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_suffix(".part")
        try:
            with unfinished.open("wb") as file:
                file.write(hashlib.sha256(payload).digest() + payload)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
        if _read(self.path) is not None:  # never replace a whole one by a damaged one
            os.replace(self.path, self.before)
        os.replace(unfinished, self.path)

    def load(self) -> dict[str, Any] | None:
        """The newest state that is whole, on the CPU; None where none was saved.

        Raises SystemExit if files are there and none of them is whole.
        """
        files = [file for file in (self.path, self.before) if file.exists()]
        for payload in filter(None, map(_read, files)):
            return dict(torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True))
        if files:
            names = " and ".join(map(str, files))
            raise SystemExit(f"{names}: damaged. Remove them to train this part from its start.")
        return None


def _read(file: Path) -> bytes | None:
    """What a file holds; None where it is missing or damaged."""
    content = file.read_bytes() if file.exists() else b""
    digest, payload = content[:_DIGEST], content[_DIGEST:]
    return payload if payload and hashlib.sha256(payload).digest() == digest else None


def reason(error: OSError, folder: Path) -> str:
    """What to do about a file that could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full. Free some space for {folder}"
    return f"{error.strerror or error}. Make {folder} writable"
