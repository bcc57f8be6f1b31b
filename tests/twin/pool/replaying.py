"""Runs a batch of simulations and keeps every outcome to the last bit: `python -m tests.twin.pool.replaying IN OUT`."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from betimes.kernels import INTERPRETED
from betimes.outcome import Result

ROOT = Path(__file__).resolve().parents[3]

Outcome = dict[str, bytes]
Setup = TypeVar("Setup")


def outcome_of(result: Result) -> Outcome:
    """Every column of jobs, segments and absences, as bytes."""
    columns = {name: np.ascontiguousarray(values).tobytes() for name, values in result.jobs.columns().items()}
    for table, records in (("segments", result.segments), ("absences", result.absences)):
        if records is not None:
            for name, values in records.columns().items():
                columns[f"{table}.{name}"] = np.ascontiguousarray(values).tobytes()
    return columns


def drawn(strategy: st.SearchStrategy[Setup], count: int) -> list[Setup]:
    """Examples of a strategy, the same ones every time."""
    found: list[Setup] = []

    @settings(
        max_examples=count,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    @given(strategy)
    def note(setup: Setup) -> None:
        found.append(setup)

    note()
    return found


def check_same(run: Callable[[Setup], Result], setups: Sequence[Setup], folder: Path) -> None:
    """Fail unless compiled code, compiled code again and Python's give the same bits; `run` can be pickled."""
    compiled = replay(run, setups)
    assert replay(run, setups) == compiled
    interpreted = _replay_interpreted(run, setups, folder)
    for setup, ours, theirs in zip(setups, compiled, interpreted, strict=True):
        assert ours.keys() == theirs.keys(), setup
        differing = [name for name in ours if ours[name] != theirs[name]]
        assert not differing, (setup, differing)


def replay(run: Callable[[Setup], Result], setups: Sequence[Setup]) -> list[Outcome]:
    return [outcome_of(run(setup)) for setup in setups]


def _replay_interpreted(
    run: Callable[[Setup], Result], setups: Sequence[Setup], folder: Path
) -> list[Outcome]:
    source, target = folder / "setups", folder / "outcomes"
    source.write_bytes(pickle.dumps((run, setups)))
    subprocess.run(
        [sys.executable, "-m", "tests.twin.pool.replaying", str(source), str(target)],
        cwd=ROOT,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        check=True,
    )
    interpreted, outcomes = pickle.loads(target.read_bytes())
    assert interpreted
    return outcomes


def main(source: str, target: str) -> None:
    run, setups = pickle.loads(Path(source).read_bytes())
    Path(target).write_bytes(pickle.dumps((INTERPRETED, replay(run, setups))))


if __name__ == "__main__":
    main(*sys.argv[1:])
