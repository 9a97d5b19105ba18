"""Importing what takes seconds."""

from __future__ import annotations

import gc
import os
from functools import partial
from importlib import import_module
from types import ModuleType

from spare_demo.threads import on_own_thread


def import_heavy(name: str) -> ModuleType:
    """A module with the heavy libraries that it needs.

    An interrupt ends the process at once, before any `finally`: nothing may lie open that has to be
    deleted, as the temporary folder of `serve` does.
    """
    gc.disable()  # looking for garbage among the libraries takes a tenth of the start
    try:
        # On another thread, where no interrupt is raised: some libraries would take it for a
        # failed import, and go on.
        return on_own_thread(partial(import_module, name))
    except KeyboardInterrupt:
        os._exit(130)  # Python's own ending would wait for what is being imported
    finally:
        gc.enable()
