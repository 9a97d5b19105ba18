"""What the commands print on a terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence


def print_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Columns side by side; the last one is wrapped to the terminal's width."""
    widths = [max(len(line[i]) for line in (head, *rows)) for i in range(len(head) - 1)]
    indent = sum(width + 2 for width in widths)
    room = max(30, shutil.get_terminal_size((120, 0)).columns - indent)
    for line in (head, *rows):
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
        last = textwrap.wrap(line[-1], room) or [""]
        print("  ".join([*cells, last[0]]).rstrip())
        for more in last[1:]:
            print(" " * indent + more)
