"""`python -m betimes` is `betimes`."""

from __future__ import annotations

import sys

from betimes.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
