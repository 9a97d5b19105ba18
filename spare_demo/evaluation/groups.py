"""The methods of a table under the headings of their groups."""

from __future__ import annotations

from collections.abc import Sequence

from spare_demo.evaluation.variants import split_label
from spare_demo.pruners import PRUNERS
from spare_demo.pruners.base import GROUPS

FEW = 10
"""Methods that one chart can show, and that a table needs no headings for."""

_OTHERS = "Others"


def by_group(labels: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The labels under the headings of `GROUPS`, in its order; in a group they keep theirs.

    A label that names no method of the table comes last, under a heading of its own. Up to `FEW`
    labels stand together under an empty heading.
    """
    if len(labels) <= FEW:
        return {"": tuple(labels)}
    methods = {label: PRUNERS.get(split_label(label)[0].partition(":")[0]) for label in labels}
    headings = {
        label: GROUPS[method.group] if method else _OTHERS for label, method in methods.items()
    }
    groups = {
        heading: tuple(label for label in labels if headings[label] == heading)
        for heading in (*GROUPS.values(), _OTHERS)
    }
    return {heading: members for heading, members in groups.items() if members}
