"""The command line: `python -m spare_demo`."""

import sys

from spare_demo.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
