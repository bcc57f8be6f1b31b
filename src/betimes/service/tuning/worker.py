"""The process of a search, or of advice: an order comes in on standard input, lines of JSON go out.

It is nice to the jobs, and to the service: they come first.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
from typing import Any, BinaryIO

from pydantic import BaseModel

from betimes.errors import InputError
from betimes.service.tuning.process import Work

NICE = 15


def main() -> None:
    """Carry out one order."""
    os.nice(NICE)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # other output is no answer
    order: Work[BaseModel] = pickle.load(sys.stdin.buffer)
    stop = threading.Event()
    threading.Thread(target=_heed, args=(sys.stdin.buffer, stop), daemon=True).start()

    def say(**message: Any) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    try:
        brought = order.work(stop.is_set, lambda progress: say(progress=progress))
    except InputError as error:
        say(refused=str(error))
    except KeyboardInterrupt:  # raised by `tune` if it is stopped too early
        say(refused="it was stopped too early")
    else:
        say(brought=brought.model_dump(mode="json"))


def _heed(asked: BinaryIO, stop: threading.Event) -> None:
    """A byte asks for the front so far; the end of the input means that the service has gone."""
    while asked.read(1):
        stop.set()
    os._exit(1)


if __name__ == "__main__":
    main()
