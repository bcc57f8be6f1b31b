"""`betimes warm`: compile the kernels ahead of their first use."""

from __future__ import annotations

import sys
import time

from betimes.cli import options


def warm(as_json: options.Json = False) -> None:
    """Compile the kernels once, so that simulations start at once.

    Needed after an installation or an update only, and not even then: the first simulation compiles what it
    needs. Quick where everything is compiled.
    """
    from betimes.cli.display import Display
    from betimes.cli.warming import NOTICED_S, compile_all

    started = time.perf_counter()
    display, took = Display(), dict[str, float]()
    with display.shown():
        from betimes.core.kernel import CACHE_DIR, is_warm

        if not is_warm() and not sys.stderr.isatty():
            print("Compiling the kernels, once for this version of Betimes ...", file=sys.stderr, flush=True)

        def told(name: str, seconds: float) -> None:
            took[name] = seconds
            if seconds >= NOTICED_S:
                print(f"  {name}: {seconds:.1f} s", file=sys.stderr, flush=True)

        compile_all(display, told)
    seconds = time.perf_counter() - started
    if as_json:
        from betimes.outcome import to_json

        print(to_json({"wall_s": seconds, "parts": took, "cache": str(CACHE_DIR)}))
    else:
        print(f"The kernels are compiled ({seconds:.1f} s).")
