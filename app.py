"""Starts the app: `python app.py` is `spare-demo serve`."""

import sys

from spare_demo.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["serve", *sys.argv[1:]]))
