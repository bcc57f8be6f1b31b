"""Starts real services as children, each as `betimes up` does, without paying for the imports every time.

A line of JSON on standard input: the fields of `ServiceConfig`, of which `ray` is the address of a cluster. On standard
output, for each: {"begun": pid}, and {"pid", "url", ...} once it is ready, or {"pid", "error"} with the exit code.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from betimes.errors import BetimesError
from betimes.service.machines.machine import Machine
from betimes.service.startup.bootstrap import Service, running
from betimes.service.startup.config import ServiceConfig
from tests.service.compiling.by_hand import ByHand


def say(**what: Any) -> None:
    os.write(1, json.dumps({"pid": os.getpid(), **what}).encode() + b"\n")


async def serve(options: ServiceConfig) -> None:
    async with running(options) as service:
        ready(service)
        await asyncio.wait((service.failed,))
        service.failed.result()


def ready(service: Service) -> None:
    controller = service.controller
    say(url=service.url, token=service.token, recovery_s=controller.recovery_s, replayed=controller.replayed)


def child(asked: dict[str, Any]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    cpus = asked.pop("cpus", 8.0)
    virtual = asked.pop("virtual", False)
    if asked.pop("compiles", False):  # for as long as it lives
        asked["kernels"] = ByHand().kernels()
    if "ray" in asked:
        machines = None
    else:
        kind = "virtual" if virtual else "local"
        machines = [Machine(kind, kind, kind, cpus, 64.0, 0.0)]
    asked |= {name: Path(asked[name]) for name in ("state", "socket") if name in asked}
    try:
        asyncio.run(serve(ServiceConfig(machines=machines, **asked)))
    except BetimesError as error:
        say(error=str(error), exit_code=error.exit_code)
        os._exit(error.exit_code)
    except KeyboardInterrupt:
        os._exit(0)
    os._exit(0)


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever ends is nobody's concern
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                child(json.loads(line))
            except BaseException as error:
                traceback.print_exc()
                say(error=repr(error), exit_code=70)
            finally:
                os._exit(70)
        say(begun=pid)


if __name__ == "__main__":
    main()
