"""Forks the supervisors of runs, executed by file path: `python -I -S shim.py`; see the package `supervision`."""

from __future__ import annotations

import os
import resource
import sys

if __name__ == "__main__":
    # Last, so that nothing here can hide a module of the standard library. Nothing of `betimes` is imported: each
    # supervisor would hold it in memory.
    # The service may open many files; jobs may as many as it might itself before.
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (int(sys.argv[1]), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from supervision.supervisor import serve  # pyright: ignore[reportMissingImports] - found at run time

    serve(0)
