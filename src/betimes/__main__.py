"""`python -m betimes` is `betimes`."""

from __future__ import annotations

import sys

from betimes.cli.main import program

if __name__ == "__main__":
    sys.exit(program())
