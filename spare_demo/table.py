"""Lists and counts in words; tables as text for a terminal, as Markdown and as HTML, whose rows are
as long as the head.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

Row = Sequence[str]


class Wide(NamedTuple):
    """A cell of an HTML table that spans several columns."""

    text: str
    columns: int


def listed(items: Sequence[object]) -> str:
    """ "a, b and c"."""
    words = [str(item) for item in items]
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def counted(count: int, noun: str) -> str:
    """ "1 skill", "2 skills"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def tokens_word(count: int) -> str:
    """ "1 token", "2 tokens"."""
    return counted(count, "token")


def percent_of_all(share: float, decimals: int = 0) -> str:
    """ "37%"; "<1%" and ">99%" for what would be read as none and all."""
    least = 10.0 ** -(decimals + 2)
    if 0 < share <= least / 2:
        return f"<{least:.{decimals}%}"
    return f">{1 - least:.{decimals}%}" if 1 - least / 2 <= share < 1 else f"{share:.{decimals}%}"


def shortened(text: str, width: int) -> str:
    """The first words of a text, with " …" where they are not all, in `width` characters."""
    words = textwrap.shorten(text, width, placeholder=" …")
    # "…" alone: the first word is longer, as are texts of scripts without spaces.
    return f"{text.strip()[: width - 2]} …" if words == "…" else words


def with_full_stop(sentence: str) -> str:
    """The sentence with a full stop, where the answer that it ends on does not bring one."""
    return sentence if sentence.endswith((".", ".”")) else f"{sentence}."


def text_table(head: Row, rows: Sequence[Row], width: int | None = None) -> str:
    """Columns side by side, numbers to the right.

    width: of the terminal, for tables of words: all columns to the left, the last one wrapped.
    """
    table = [[_one_line(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    if width is None:
        return "\n".join(
            "  ".join(
                cell.rjust(wide) if i else cell.ljust(wide)
                for i, (cell, wide) in enumerate(zip(row, widths, strict=True))
            )
            for row in table
        )
    indent = sum(wide + 2 for wide in widths[:-1])
    lines: list[str] = []
    for *cells, last in table:
        first, *more = textwrap.wrap(last, max(30, width - indent), break_on_hyphens=False) or [""]
        whole = [cell.ljust(wide) for cell, wide in zip(cells, widths[:-1], strict=True)]
        lines.append("  ".join([*whole, first]).rstrip())
        lines += [" " * indent + line for line in more]
    return "\n".join(lines)


def markdown_table(head: Row, rows: Sequence[Row], numbers: bool = False) -> str:
    """Lines of Markdown; numbers: all columns but the first are aligned to the right."""
    table = [[_in_markdown(_one_line(cell)) for cell in row] for row in (head, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in table]
    rule = "|---:" if numbers else "|---"
    lines.insert(1, "|---" + rule * (len(head) - 1) + "|")
    return "\n".join(lines)


def _in_markdown(cell: str) -> str:
    """Its bars escaped, and the backslashes before them: else a bar would end the cell."""
    return re.sub(r"(\\*)\|", r"\1\1\|", cell)


def html_table(
    head: Row, rows: Sequence[Sequence[str | Wide]], kind: str = "", columns: Row = ()
) -> str:
    """An HTML table; the first cell of a row is its heading.

    kind: its class. columns: a class for each column but the first.
    """
    kinds = ["", *columns] if columns else [""] * len(head)
    heads = "".join(
        f"<th scope='col'{_class(name)}>{escape(cell)}</th>" if cell else "<td></td>"
        for cell, name in zip(head, kinds, strict=True)
    )
    body = ""
    for first, *cells in rows:
        text = first.text if isinstance(first, Wide) else first
        body += f"<tr><th scope='row'>{escape(text)}</th>{''.join(map(_cell, cells))}</tr>"
    return f"<table{_class(kind)}><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _one_line(cell: str) -> str:
    """A name of somebody's own, such as a category, may have line ends, which would end its row."""
    return " ".join(cell.splitlines())


def _class(name: str) -> str:
    return f" class='{name}'" if name else ""


def _cell(cell: str | Wide) -> str:
    if isinstance(cell, Wide):
        span = f" colspan='{cell.columns}'" if cell.columns > 1 else ""
        return f"<td{span}>{escape(cell.text)}</td>"
    return f"<td>{escape(cell)}</td>"
