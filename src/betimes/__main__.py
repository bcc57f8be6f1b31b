"""`python -m betimes` is `betimes`."""

from __future__ import annotations

import sys

from betimes.cli.main import main

sys.exit(main())
