"""Runs of a study in this process, in several, or on a Ray cluster, with the same results.

Spawned workers load the kernels from the cache, which is filled beforehand.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from betimes.cli.simulate.study import Loaded, Run, Study, load, notes_of, simulate
from betimes.processes import Do, Processes, Say
from betimes.ray_workers import RayWorkers

if TYPE_CHECKING:
    from betimes.outcome import Result

Progress = Callable[[Run, int], object]
"""Called with a run and the number of further jobs of it that have been submitted."""


def results(
    study: Study,
    loaded: Loaded,
    runs: Sequence[Run],
    processes: int | None,
    warn: Callable[[str], object],
    progress: Progress,
    *,
    ray: bool = False,
) -> Iterator[tuple[Run, Result]]:
    """Every run with its result, in the order in which they are done.

    processes: their number, with `ray` on its cluster; None: one a processor. loaded: the workload of the study's first
    seed, and of all seeds if no jobs are drawn. Raises the errors of a run, and with `ray` InputError if Ray is not
    installed; no process is left behind then, nor when the caller stops iterating.
    """
    size = len(runs) if processes is None else min(processes, len(runs))
    if size <= 1 and not ray:
        jobs = _Jobs(study, loaded)
        for run in runs:
            with contextlib.redirect_stdout(sys.stderr):  # a user's policy may print
                result = jobs.run(run, warn, progress)
            yield run, result
        return

    def heard(number: int, message: Any) -> None:
        if isinstance(message, str):
            warn(message)
        else:
            progress(runs[number], message)

    with (RayWorkers if ray else Processes)(_worker, (study, loaded), size) as crew:
        for number, result in crew.answers(runs, heard):
            yield runs[number], result


def _worker(study: Study, loaded: Loaded) -> Do:
    """A worker's function from a run to its result; it reports notes (text) and further submitted jobs (numbers)."""
    jobs = _Jobs(study, loaded)

    def do(run: Run, say: Say) -> Result:
        return jobs.run(run, say, lambda _, more: say(more))

    return do


class _Jobs:
    """Makes runs one after the other, with the workload that each needs."""

    def __init__(self, study: Study, loaded: Loaded) -> None:
        self.study, self.loaded, self.seed = study, loaded, study.flags.seed
        self.one_for_all = not study.draws_jobs()

    def run(self, run: Run, warn: Callable[[str], object], progress: Progress) -> Result:
        """Make one run; raises its errors."""
        if run.seed != self.seed and not self.one_for_all:
            self.loaded, self.seed = load(self.study, run.seed), run.seed
            for note in notes_of(self.loaded.workload):
                warn(note)
        done = 0

        def submitted(rows: int) -> None:
            nonlocal done
            progress(run, rows - done)
            done = rows

        return simulate(run, self.loaded, warn, submitted)
