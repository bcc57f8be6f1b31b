"""The process of a search: an order comes in on standard input, lines of JSON go out.

It is nice to the jobs, and to the service: they come first.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import sys
import threading
from typing import Any, BinaryIO

from betimes.errors import InputError
from betimes.foresight.tuning import Progress
from betimes.service.tuning.process import Order

NICE = 15


def main() -> None:
    """Carry out one order."""
    os.nice(NICE)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # other output is no answer
    order: Order = pickle.load(sys.stdin.buffer)
    stop = threading.Event()
    threading.Thread(target=_heed, args=(sys.stdin.buffer, stop), daemon=True).start()

    def say(**message: Any) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    def report(progress: Progress) -> None:
        volume = progress.hypervolume if math.isfinite(progress.hypervolume) else None
        say(progress={**progress.__dict__, "hypervolume": volume})

    try:
        front = order.carry_out(stop.is_set, report)
    except InputError as error:
        say(refused=str(error))
    except KeyboardInterrupt:  # raised by `tune` if it is stopped too early
        say(refused="it was stopped before there was a front")
    else:
        say(front=front.model_dump(mode="json"))


def _heed(asked: BinaryIO, stop: threading.Event) -> None:
    """A byte asks for the front so far; the end of the input means that the service has gone."""
    while asked.read(1):
        stop.set()
    os._exit(1)


if __name__ == "__main__":
    main()
