"""A service in a process of its own, for as long as the demonstration lasts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from betimes.cli.live.following import Left
from betimes.errors import BetimesError, InputError, NotReachable

LOG = "service.log"
STOP_S = 30.0  # for the service to end in good order
_LOOK_S = 0.1  # between two looks at whether the policy is compiled
_SLOW_S = 4.0  # a start that takes longer compiles, or meets a busy machine


@dataclass(frozen=True)
class Child:
    """The service: where its state is, what it said when it was ready, and its process."""

    state: Path
    ready: dict[str, Any]
    process: subprocess.Popen[str]

    def fault(self) -> str:
        """Why it has ended, in its own words."""
        said = (self.state / LOG).read_text(encoding="utf-8", errors="replace").splitlines()
        return said[-1].removeprefix("betimes: ") if said else "it has ended without a word"


@contextmanager
def running_service(state: Path, words: Sequence[str], *, keep: bool) -> Iterator[Child]:
    """`betimes up` with these options; it is stopped at the end, and its state removed unless `keep`.

    Ctrl-C, a termination and a lost terminal end what is done inside; raises BetimesError if it cannot start.
    """
    signal.signal(signal.SIGHUP, _leave)
    with (state / LOG).open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "betimes", "up", "--state", str(state), "--json", *words],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=_environment(),
            start_new_session=True,  # Ctrl-C is for us: we stop it, once
        )
    child: Child | None = None
    try:
        child = Child(state, _ready(process, state), process)
        yield child
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        if not keep or child is None:
            shutil.rmtree(state, ignore_errors=True)


def _environment() -> dict[str, str]:
    """Ours, with programs of this Python's environment found first, so that jobs which say `python` mean it."""
    here = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", os.defpath)
    return {**os.environ, "PATH": path if path.split(os.pathsep)[0] == here else here + os.pathsep + path}


def _ready(process: subprocess.Popen[str], state: Path) -> dict[str, Any]:
    """What the service says when it is ready; meanwhile, if it takes long, why it does."""
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.append(_heard(process, state)), daemon=True)
    reader.start()
    reader.join(_SLOW_S)
    if reader.is_alive():
        _wait_slowly(reader)
    if said and said[0]:
        return json.loads(said[0])
    code = process.wait()
    fault = Child(state, {}, process).fault()
    raise InputError(fault) if code == InputError.exit_code else BetimesError(fault)


def _heard(process: subprocess.Popen[str], state: Path) -> str:
    """The service's line, once its policy is compiled, so that it promises at once; empty: it has ended."""
    line = process.stdout.readline() if process.stdout else ""
    if not line or not json.loads(line)["compiling"]:
        return line
    from betimes.client import Client

    with Client(state=state) as service:
        while True:
            try:
                if service.health().ready:
                    return line
            except NotReachable:  # it is about to end, or has
                process.wait()
                return ""
            time.sleep(_LOOK_S)


def _wait_slowly(reader: threading.Thread) -> None:
    label = "starting; the first start compiles the kernels, up to a minute"
    if not sys.stderr.isatty():
        print(f"{label} ...", file=sys.stderr, flush=True)
        reader.join()
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    with console.status(label, spinner="dots"):
        reader.join()


def _leave(_: int, __: FrameType | None) -> None:
    raise Left
