"""The cores and GPUs of this machine that each run has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from betimes.service.scheduling.run_reports import RunId

_WHOLE = 1e-6  # an amount so close to a whole number is one; likewise for the free share of a GPU


@dataclass(frozen=True)
class Assigned:
    """A run's cores, to which it is pinned (none: it floats), and shares of GPUs."""

    cpus: tuple[int, ...] = ()
    gpus: Mapping[str, float] = field(default_factory=dict)

    @property
    def visible_gpus(self) -> str:
        """For CUDA_VISIBLE_DEVICES."""
        return ",".join(self.gpus)


class Devices:
    """Free and taken devices. Only whole cores are pinned; the same calls in the same order give the same devices."""

    def __init__(self, cpus: Sequence[int], gpus: Sequence[str]) -> None:
        self.cpus, self.gpus = tuple(sorted(cpus)), tuple(gpus)
        self._held: dict[RunId, Assigned] = {}

    def take(self, run: RunId, cpu: float, gpu: float) -> Assigned:
        """So many cores and GPUs for a run: first those it already holds, then the lowest free ones.

        A share of a GPU goes where it leaves the least free. Where too little is free a run gets the GPU with the most
        free, and is unpinned if cores lack: the scheduler decides how much may run.
        """
        before = self._held.pop(run, Assigned())
        self._held[run] = Assigned(self._cores(cpu, before), self._shares(gpu, before))
        return self._held[run]

    def hold(self, run: RunId, assigned: Assigned) -> None:
        """Restore a run's devices as recorded at their assignment."""
        self._held[run] = assigned

    def held(self, run: RunId) -> Assigned:
        """A run's devices; none if it is not known."""
        return self._held.get(run, Assigned())

    def give_back(self, run: RunId) -> None:
        """A run has ended."""
        self._held.pop(run, None)

    def _cores(self, cpu: float, before: Assigned) -> tuple[int, ...]:
        count = round(cpu)
        if abs(cpu - count) > _WHOLE or not count:
            return ()
        taken = {core for held in self._held.values() for core in held.cpus}
        free = [core for core in self.cpus if core not in taken]
        free.sort(key=lambda core: (core not in before.cpus, core))
        return tuple(sorted(free[:count])) if len(free) >= count else ()

    def _shares(self, gpu: float, before: Assigned) -> dict[str, float]:
        free = dict.fromkeys(self.gpus, 1.0)
        for held in self._held.values():
            for name, share in held.gpus.items():
                free[name] = free.get(name, 1.0) - share
        shares: dict[str, float] = {}
        left = gpu
        while left > _WHOLE and len(shares) < len(self.gpus):
            share = min(left, 1.0)
            others = [name for name in self.gpus if name not in shares]
            enough = [name for name in others if free[name] >= share - _WHOLE]
            if enough:
                name = min(enough, key=lambda name: (name not in before.gpus, round(free[name], 6)))
            else:
                name = max(others, key=lambda name: free[name])
                share = min(share, max(free[name], _WHOLE))
            shares[name] = share
            left -= share
        return {name: shares[name] for name in self.gpus if name in shares}
