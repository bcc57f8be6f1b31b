"""How tests call the command line: in this process, or as a program of its own."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from betimes.cli import slurm as of_slurm
from betimes.cli.main import main
from tests.cli.stand_in import NOW, Service
from tests.service.serving import Background, fake


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
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A stand-in that the verbs reach instead of a live service, at a time that stands still, in UTC."""
    made = Service()
    monkeypatch.setattr("betimes.cli.live.connection.connect", lambda *_, **__: made)
    monkeypatch.setattr("betimes.cli.render.times.now", lambda service_s=None: max(NOW, service_s or 0.0))
    monkeypatch.setattr("betimes.cli.live.following.pause", lambda _: None)
    monkeypatch.delenv("COLUMNS", raising=False)
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield made
    time.tzset()


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Background]:
    for name in ("BETIMES_URL", "BETIMES_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BETIMES_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    served = Background(fake(tmp_path / "runs"), tmp_path / "state")
    with served():
        yield served


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
