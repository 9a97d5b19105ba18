"""Methods that other packages bring."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint

from spare_demo.pruners import PRUNERS


def add_methods(entries: Iterable[EntryPoint]) -> None:
    """Adds them to `PRUNERS`, with their usual settings: a class for each entry, by its name.

    Raises ValueError, with a sentence to show, for one that cannot be loaded or whose name is
    taken.
    """
    for entry in entries:
        try:
            method = entry.load()()
        except Exception as error:
            raise ValueError(
                f"The method {entry.name!r} cannot be loaded from {entry.value}: {error!r}. Mend "
                "it, or uninstall the package that brings it."
            ) from error
        if PRUNERS.setdefault(entry.name, method) != method:
            raise ValueError(
                f"{entry.value} is to be the method {entry.name!r}, and another one has that name. "
                "Give it another name in the package that brings it."
            )
