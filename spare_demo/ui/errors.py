"""Errors in words that a visitor or a caller may read."""

from __future__ import annotations

import logging

from spare_demo.models import ModelError
from spare_demo.models.generate.passes import NO_MEMORY, is_out_of_memory

SORRY = (
    "Something went wrong on the server. Your picture and question are still here: ask again, or "
    "try a smaller picture."
)

_log = logging.getLogger(__name__)


def sentence(error: Exception) -> str:
    """The message of a ValueError (a PictureError is one) or a ModelError, written for them.

    Of anything else they learn only that it happened; the details go to the log.
    """
    if isinstance(error, ValueError | ModelError):
        return str(error)
    _log.error("An event failed", exc_info=error)
    return NO_MEMORY if is_out_of_memory(error) else SORRY
