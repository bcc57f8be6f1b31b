"""Where the public traces lie, and the runs that several tests read."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pytest

from betimes import Result, SpeedupTable, Workload, read_trace, simulate

_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"

UNITS = 64  # the machine on which the study replays the traces


@pytest.fixture(scope="session")
def curves() -> SpeedupTable:
    """The measured speed-up curves of the study."""
    return SpeedupTable.read_csv(found("scaling/afs_pcs_speedup.csv.gz"))


@pytest.fixture(scope="session")
def trace() -> Callable[[str], Workload]:
    """A trace of the study by its id."""

    @lru_cache
    def read(name: str) -> Workload:
        return read_trace(found(f"gpu/philly_pcs/trace_{name}.csv.gz"))

    return read


@pytest.fixture(scope="session")
def replay(trace: Callable[[str], Workload], curves: SpeedupTable) -> Callable[..., Result]:
    """A whole trace under a policy as the study replays it: 64 units, fractions of a unit allowed."""

    @lru_cache
    def run(name: str, policy: str, predict: bool = False) -> Result:
        return simulate(trace(name), policy, units=UNITS, fractional=True, curves=curves, predict=predict)

    return run


def found(name: str) -> Path:
    path = _DATA / name
    if not path.is_file():
        pytest.skip(f"the public traces are not here: there is no {path}")
    return path
