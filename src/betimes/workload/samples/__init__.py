"""Small generated workloads that come with the package, as files in Betimes's own CSV.

Each is exactly what its specification generates, so `Sample.generate().to_csv(...)` writes the file again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from betimes.errors import InputError

if TYPE_CHECKING:
    from betimes.workload.workload import Workload

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Sample:
    """A shipped file and what generates it."""

    name: str
    spec: str
    units: int
    seed: int
    description: str

    @property
    def path(self) -> Path:
        """The path of the file."""
        return _HERE / f"{self.name}.csv"

    def generate(self) -> Workload:
        """The workload in the file, made anew."""
        from betimes.workload.generators import generate

        return generate(self.spec, units=self.units, seed=self.seed)


SAMPLES = {
    sample.name: sample
    for sample in (
        Sample("tiny", "demo:jobs=40", 8, 1, "40 elastic jobs for 8 units; a first look"),
        Sample("elastic", "demo:jobs=300", 32, 1, "300 elastic jobs in bursts for 32 units"),
        Sample(
            "rigid",
            "synthetic:jobs=300,load=0.7,sizes=lognormal,mean_s=1800,cv=2,widths=1@0.5+2@0.2+4@0.2+16@0.1,"
            "rigid=true,resolution_s=1",
            32,
            1,
            "300 rigid jobs with Poisson arrivals for 32 units, as on a batch cluster",
        ),
    )
}


def path(name: str) -> Path:
    """The file of a sample; raises InputError that lists the samples."""
    if name not in SAMPLES:
        raise InputError(f"no sample {name!r}; there are {', '.join(SAMPLES)}")
    return SAMPLES[name].path
