"""`betimes service warm`: compile the kernels ahead of their first use."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from betimes.cli.verbs import Json

Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="compile into this folder, to be shipped: BETIMES_CACHE_DIR=DIR uses it"
    ),
]


def warm(out: Out = None, as_json: Json = False) -> None:
    """Compile the kernels once, so that simulations start at once.

    Needed after an installation or an update only, and not even then: the first simulation compiles what it
    needs. Quick where everything is compiled. A folder made with --out serves every machine whose processor is of the
    same family as LLVM sees it (NUMBA_CPU_NAME and NUMBA_CPU_FEATURES choose another than this machine's).
    """
    if out is not None:
        os.environ["BETIMES_CACHE_DIR"] = str(out.resolve())
    from betimes.cli.render.progress import Display
    from betimes.cli.warming import NOTICED_S, compile_all

    started = time.perf_counter()
    display, took = Display(), dict[str, float]()
    with display.shown():
        from betimes.kernels import cache_root
        from betimes.twin.nodes.trace_loop import run_rows

        if not run_rows.is_ready() and not sys.stderr.isatty():
            print("Compiling the kernels, once for this version of Betimes ...", file=sys.stderr, flush=True)

        def report(name: str, seconds: float) -> None:
            took[name] = seconds
            if seconds >= NOTICED_S:
                print(f"  {name}: {seconds:.1f} s", file=sys.stderr, flush=True)

        compile_all(display, report)
    seconds = time.perf_counter() - started
    if as_json:
        from betimes.outcome import to_json

        print(to_json({"wall_s": seconds, "parts": took, "cache": str(cache_root())}))
    else:
        print(f"The kernels are compiled ({seconds:.1f} s).")
