"""What a run's shim executes, by file path: `python -I -S shim.py FOLDER`; see the package `supervision`."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # Last, so that nothing here can hide a module of the standard library. Importing `betimes` would take longer
    # than all that a shim does.
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from supervision.supervisor import main  # pyright: ignore[reportMissingImports] - found at run time

    sys.exit(main(sys.argv[1]))
