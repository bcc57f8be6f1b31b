"""Runs a batch of simulations and keeps every outcome to the last bit: `python -m tests.twin.replaying IN OUT`."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from betimes.core.kernel import INTERPRETED
from betimes.outcome import Result
from tests.twin.driving import Setup, run_engine

Outcome = dict[str, bytes]


def outcome_of(result: Result) -> Outcome:
    """Every column of jobs and segments, as bytes."""
    columns = {name: np.ascontiguousarray(values).tobytes() for name, values in result.jobs.columns().items()}
    if result.segments is not None:
        for name, values in result.segments.columns().items():
            columns[f"segments.{name}"] = np.ascontiguousarray(values).tobytes()
    return columns


def replay(setups: Sequence[Setup]) -> list[Outcome]:
    return [outcome_of(run_engine(setup)) for setup in setups]


def main(source: str, target: str) -> None:
    setups = pickle.loads(Path(source).read_bytes())
    Path(target).write_bytes(pickle.dumps((INTERPRETED, replay(setups))))


if __name__ == "__main__":
    main(*sys.argv[1:])
