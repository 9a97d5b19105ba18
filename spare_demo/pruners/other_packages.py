"""Methods that other packages bring."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint

from spare_demo.pruners import PRUNERS, Method
from spare_demo.pruners.options import check_settings


def add_methods(entries: Iterable[EntryPoint]) -> None:
    """Adds them to `PRUNERS`, with their usual settings: a class for each entry, by its name.

    Raises ValueError, with a sentence to show, for one that cannot be loaded, is no method, whose
    name is taken, or whose class has another `name` or is no dataclass.
    """
    for entry in entries:
        problem = f"{entry.value} is meant to be the method {entry.name!r}, but"
        try:
            method = entry.load()()
        except Exception as error:
            raise ValueError(
                f"The method {entry.name!r} cannot be loaded from {entry.value}: {error!r}. Fix "
                "it, or uninstall the package that brings it."
            ) from error
        if not isinstance(method, Method):
            raise ValueError(
                f"{problem} is not one. Name a class that is a Pruner or a LayerPruner in the "
                "package that brings it."
            )
        if PRUNERS.get(entry.name, method) != method:
            raise ValueError(
                f"{problem} another one has that name. Give it another name in the package that "
                "brings it."
            )
        if method.name != entry.name:
            raise ValueError(
                f"{problem} its name is {method.name!r}. Give it one name in the package that "
                "brings it."
            )
        check_settings(method)
        PRUNERS[entry.name] = method
