"""How tests call the command line: in this process, or as a program of its own."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from betimes.cli import slurm as of_slurm
from betimes.cli.main import main
from betimes.service.machines.machine import Machine
from betimes.service.views.models import EventView, Page
from tests.cli.views import NOW, health
from tests.service.serving import Background, Serving


@dataclass(frozen=True)
class Said:
    """What a call left behind."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


Call = Callable[..., Said]
Slurm = Callable[..., Said]


@pytest.fixture
def betimes(capsys: pytest.CaptureFixture[str]) -> Iterator[Call]:
    """Call `betimes` here, where the kernels stay loaded."""
    before = signal.getsignal(signal.SIGTERM)

    def call(*words: str | Path) -> Said:
        capsys.readouterr()
        code = main([str(word) for word in words])
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    yield call
    signal.signal(signal.SIGTERM, before)


def program(*words: str | Path, cwd: Path | None = None, **environment: str) -> Said:
    """Call `betimes` as a program of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "betimes.cli.main", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **environment},
    )
    return Said(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The reader's clock stands still at `NOW`, in UTC, and polls pause for no time."""
    monkeypatch.setattr("betimes.cli.render.times.now", lambda service_s=None: max(NOW, service_s or 0.0))
    monkeypatch.setattr("betimes.cli.live.following.pause", lambda _: None)
    monkeypatch.delenv("COLUMNS", raising=False)
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def nowhere(still: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No service is there: a verb that asks one ends with status 1, and says so."""
    for name in ("BETIMES_URL", "BETIMES_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BETIMES_STATE", str(tmp_path / "nothing"))


@pytest.fixture(scope="session")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Background]:
    """A service at a real address for all tests that change nothing of it. Its clock stands still at `NOW`."""
    folder = tmp_path_factory.mktemp("standing")
    it = Serving(folder / "service", begin_at=NOW)
    served = Background(it, folder / "state")
    with served():
        yield served
    it.close()


class Tell:
    """Makes up answers of a real service, which go their way through its API and its client.

    asked: the calls of its backend that were so answered, each with the method's name.
    """

    def __init__(self, backend: object, monkeypatch: pytest.MonkeyPatch) -> None:
        self._backend, self._monkeypatch = backend, monkeypatch
        self.asked: list[tuple[Any, ...]] = []

    def __call__(self, **answers: Any) -> None:
        """Let these methods of the backend return this; an error is raised, a function called with the arguments."""
        for method, answer in answers.items():
            self._monkeypatch.setattr(self._backend, method, self._answering(method, answer))

    def happens(self, *events: EventView) -> None:
        """Let the log hold these events, and its stream those after the one that is asked for; then it ends."""

        async def watch(after: int) -> AsyncIterator[EventView]:
            for event in events:
                if event.event_id > after:
                    yield event

        self(events=Page(items=[*events]), health=health(last_event_id=max(e.event_id for e in events)))
        self._monkeypatch.setattr(self._backend, "watch", watch)

    def _answering(self, method: str, answer: Any) -> Callable[..., Any]:
        async def answering(*arguments: Any, **options: Any) -> Any:
            self.asked.append((method, *arguments, *options.values()))
            found = answer(*arguments, **options) if callable(answer) else answer
            if isinstance(found, BaseException):
                raise found
            return found

        return answering


@pytest.fixture
def tell(standing: Background, nowhere: None, monkeypatch: pytest.MonkeyPatch) -> Tell:
    """Make up what verbs are answered, at a time that stands still, in UTC."""
    monkeypatch.setenv("BETIMES_STATE", str(standing.state))
    return Tell(standing.it.backend, monkeypatch)


HERE = Machine("here", "virtual", "n", 4.0, 16.0, 2.0)
AGO_S = 70.0


@pytest.fixture
def live(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Background]:
    """A service at a real address that verbs find; param, or SERVES of the file: options of `Serving`.

    Its clock stands still `ago_s` ago, 70 s by default, so that a test can let that time pass.
    """
    for name in ("BETIMES_URL", "BETIMES_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BETIMES_STATE", str(tmp_path / "state"))
    # No model is fitted, which takes seconds.
    monkeypatch.setattr("betimes.foresight.intervals.Intervals.next_due", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    options = {"machines": (HERE,), "ago_s": AGO_S, **getattr(request.module, "SERVES", {})}
    options |= getattr(request, "param", {})
    it = Serving(tmp_path / "service", begin_at=time.time() - options.pop("ago_s"), **options)
    served = Background(it, tmp_path / "state")
    with served():
        yield served
    it.close()


@pytest.fixture
def slurm(live: Background, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Slurm:
    """Call one of Slurm's commands here."""

    def call(command: str, *words: str, stdin: str = "") -> Said:
        capsys.readouterr()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = of_slurm.main(command, words)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return call
