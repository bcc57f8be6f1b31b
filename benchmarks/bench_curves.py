"""A look at what a run uses costs one to ten milliseconds, of 1 to 100 processes, and at most a thousandth of a core.

CPU milliseconds a look, of a process that wakes for it as a supervisor does: at the cores and the memory of its
children, with a full file to write; and the look that a memory limit without a control group takes five times a second.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable

from measuring import Table, arguments, introduce

from betimes.service.executors.supervision.curve import MOST, Curve
from betimes.service.executors.supervision.processes import Memory, cpu_s

DAY_S = 86_400.0
LIMIT_LOOK_S = 0.2


def look_s(look: Callable[[], object], looks: int) -> float:
    """CPU seconds a look, each after a pause: the median."""
    taken: list[float] = []
    for _ in range(looks):
        time.sleep(0.05)
        began = time.process_time()
        look()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def looks_a_day(folder: str) -> int:
    """How often a supervisor looks in the first day of a run."""
    curve, at_s, looks = Curve(folder), 0.0, 0
    while at_s < DAY_S:
        at_s += curve.look_s
        curve.add(at_s, at_s, 1)
        looks += 1
    return looks


def main() -> None:
    given = arguments(__doc__)
    introduce(__doc__)
    looks = 20 if given.quick else 40 * given.repeats
    me, memory = os.getpid(), Memory(1 << 50, None)
    table = Table("processes", "ms a look", "ms, limit", "ratio", "s a day", "s, limit", first=12)
    with tempfile.TemporaryDirectory() as folder:
        a_day = looks_a_day(folder)
        curve = Curve(folder)
        for n in range(1, MOST):
            curve.add(2.0 * n, 1.5 * n, 3_000_000_000 + n)

        def look() -> None:
            curve.add(2.0 * MOST - 2.0, cpu_s(me), memory.in_use(me))

        for count in (1, 10, 100):
            started = [subprocess.Popen(["sleep", "600"]) for _ in range(count)]
            try:
                used_s, limit_s = look_s(look, looks), look_s(lambda: memory.is_exceeded(me), looks)
            finally:
                for each in started:
                    each.kill()
                    each.wait()
            of_limit_s = limit_s * DAY_S / LIMIT_LOOK_S
            table.line(str(count), used_s * 1e3, limit_s * 1e3, used_s / limit_s, used_s * a_day, of_limit_s)
    print(f"\n{a_day:,} looks in the first day of a run; with a memory limit {DAY_S / LIMIT_LOOK_S:,.0f}.")


if __name__ == "__main__":
    main()
