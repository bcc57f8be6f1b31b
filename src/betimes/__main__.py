"""`python -m betimes` is `betimes`."""

from __future__ import annotations

from betimes.cli.main import main

main()
