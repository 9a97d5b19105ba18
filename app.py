"""Starts the app: `python app.py` is `spare-demo serve`."""

import sys
from pathlib import Path

if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036 - pip installs requirements.txt for 3.10, too
        sys.exit(
            f"This app needs Python 3.11 or newer, and this is {sys.version.split()[0]}. Make the "
            "environment anew with a newer one, such as: python3.12 -m venv --clear .venv"
        )
    sys.path.insert(0, str(Path(__file__).resolve().parent))  # which `python -P` leaves out
    from spare_demo.cli.main import main

    sys.exit(main(["serve", *sys.argv[1:]]))
