"""Every experiment by name, and running one."""

from __future__ import annotations

import difflib
from contextlib import nullcontext
from pathlib import Path

from betimes.errors import InputError
from betimes.ray_workers import joined
from betimes.reproduce import portfolio, waiting
from betimes.reproduce.data import check, data_directory
from betimes.reproduce.eva import improvements as eva_improvements
from betimes.reproduce.eva import planning as eva_planning
from betimes.reproduce.eva import simulations as eva_simulations
from betimes.reproduce.eva import table6 as eva_table6
from betimes.reproduce.experiment import Experiment, Row
from betimes.reproduce.fitgpp import fig1 as fitgpp_fig1
from betimes.reproduce.fitgpp import intervals as fitgpp_intervals
from betimes.reproduce.fitgpp import load as fitgpp_load
from betimes.reproduce.fitgpp import sweeps as fitgpp_sweeps
from betimes.reproduce.pace import Progress
from betimes.reproduce.pcs import fig1 as pcs_fig1
from betimes.reproduce.pcs import fig3 as pcs_fig3
from betimes.reproduce.pcs import fig6 as pcs_fig6
from betimes.reproduce.pcs import fig7 as pcs_fig7
from betimes.reproduce.pcs import fig8 as pcs_fig8
from betimes.reproduce.pcs import fig9 as pcs_fig9
from betimes.reproduce.pcs import fig10 as pcs_fig10
from betimes.reproduce.pcs import fig11 as pcs_fig11
from betimes.reproduce.workers import Workers

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        pcs_fig1.EXPERIMENT,
        pcs_fig3.EXPERIMENT,
        pcs_fig6.EXPERIMENT,
        pcs_fig7.EXPERIMENT,
        pcs_fig8.EXPERIMENT,
        pcs_fig9.EXPERIMENT,
        pcs_fig10.EXPERIMENT,
        pcs_fig11.EXPERIMENT,
        fitgpp_fig1.EXPERIMENT,
        fitgpp_intervals.EXPERIMENT,
        *fitgpp_sweeps.EXPERIMENTS,
        fitgpp_load.EXPERIMENT,
        *portfolio.EXPERIMENTS,
        *eva_planning.EXPERIMENTS,
        *eva_table6.EXPERIMENTS,
        *eva_simulations.EXPERIMENTS,
        *eva_improvements.EXPERIMENTS,
        *waiting.EXPERIMENTS,
    )
}


def find(name: str) -> Experiment:
    """The experiment of that name, or on some of its parts: `pcs-fig7`, `pcs-fig7:2869ce+b436b2`, `pcs-fig7:all`.

    Raises InputError for an unknown name or part, with the nearest one there is.
    """
    base, colon, tail = name.partition(":")
    experiment = EXPERIMENTS.get(base)
    if experiment is None:
        raise InputError(f"experiment {base!r}: {_nearest(base, tuple(EXPERIMENTS))}")
    if not colon:
        return experiment
    if experiment.narrowed is None:
        raise InputError(f"experiment {name!r}: {base} has no parts; leave out {colon + tail!r}")
    parts = experiment.parts if tail == "all" else tuple(dict.fromkeys(tail.split("+")))
    for part in parts:
        if part not in experiment.parts:
            known = (*experiment.parts, "all")
            raise InputError(f"experiment {name!r}, part {part!r}: {_nearest(part, known)}")
    return experiment.narrowed(parts)


def reproduce(
    name: str,
    data: Path | None = None,
    out: Path | None = None,
    progress: Progress | None = None,
    workers: Workers | None = None,
) -> list[Row]:
    """Run an experiment; raises InputError for an unknown name or missing data.

    workers: who makes its runs, by default this process; the rows are the same.
    data: the folder of the published data, by default as `data_directory` finds it. out: where rows.json and
    the pictures go, by default nowhere.
    """
    experiment = find(name)
    # An experiment without data runs whatever the environment says about it.
    folder = data_directory(data) if experiment.needs or data is not None else None
    check(experiment.name, experiment.needs, folder)
    workers = workers or Workers()
    with joined() if workers.ray else nullcontext():  # once, however many crews there are
        rows = experiment.rows(folder, out, progress or (lambda *_: None), workers)
    if out is not None:
        _write(out, experiment.name, rows)
    return rows


def _nearest(given: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(given, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"expected one of {', '.join(known)}{hint}"


def _write(out: Path, name: str, rows: list[Row]) -> None:
    from betimes.outcome import to_json

    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "rows.json").write_text(to_json({"name": name, "rows": rows}) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{out}: cannot write the rows ({error.strerror}); choose another place") from error
