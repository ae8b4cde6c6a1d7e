"""``python -m newel``: the same as ``newel``."""

import sys

from newel.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
