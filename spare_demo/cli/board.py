"""`python -m spare_demo board`: folders of results side by side, on the terminal and as a page."""

from __future__ import annotations

import argparse
from pathlib import Path

from spare_demo.cli.options import adder, check_file
from spare_demo.comparison.request import UNPRUNED
from spare_demo.evaluation.board import make_board, read_folders
from spare_demo.evaluation.board_page import board_html, board_tables
from spare_demo.evaluation.results import ANSWERS
from spare_demo.settings import Settings


def add_options(parser: argparse.ArgumentParser, settings: Settings) -> None:
    parser.set_defaults(run=run)
    add = adder(
        parser.add_argument,
        """
        folders     folders that evaluate --out wrote
        --html      also write the tables and their charts as one page
        --baseline  the method that every other is tested against at the same budget, by its name
                    in the folders (default: unpruned, which is all tokens)
        """,
    )
    add("folders", nargs="+", type=Path, metavar="FOLDER")
    add("--html", type=Path, metavar="FILE")
    add("--baseline", default=UNPRUNED, metavar="METHOD")


def run(arguments: argparse.Namespace, settings: Settings) -> None:
    """Print the board, and write it. Raises ValueError or OSError with a sentence to show."""
    if arguments.html:
        check_file(arguments.html, *(folder / ANSWERS for folder in arguments.folders))
    board = make_board(read_folders(arguments.folders), arguments.baseline)
    print("\n\n".join(table.text() for table in board_tables(board)))
    if arguments.html:
        arguments.html.parent.mkdir(parents=True, exist_ok=True)
        arguments.html.write_text(board_html(board), encoding="utf-8")
        print(f"\nThe page is {arguments.html}.")
