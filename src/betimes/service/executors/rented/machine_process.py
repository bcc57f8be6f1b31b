"""A machine of the provider `local`: a process with which its jobs end, started by file path: `python -I -S`.

It ends by itself once its lease is gone, is another machine's, or has not been renewed for a while.
"""

from __future__ import annotations

import os
import sys
import time

LOOK_S = 0.5


def keep(lease: str, mark: str, alone_s: float) -> None:
    """Return when the machine is to end. lease: a file that begins with `mark`, and whose time is its renewal."""
    renewed_ns, renewed_s = -1, time.monotonic()
    while True:
        try:
            with open(lease, encoding="utf-8") as file:  # noqa: PTH123 (a machine loads no pathlib)
                is_mine = file.readline().rstrip("\n") == mark
                at_ns = os.fstat(file.fileno()).st_mtime_ns
        except FileNotFoundError:
            return
        now_s = time.monotonic()  # the clock of the wall may jump
        if at_ns != renewed_ns:
            renewed_ns, renewed_s = at_ns, now_s
        if not is_mine or now_s - renewed_s > alone_s:
            return
        time.sleep(LOOK_S)


if __name__ == "__main__":
    keep(sys.argv[1], sys.argv[2], float(sys.argv[3]))
