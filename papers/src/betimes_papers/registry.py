"""Every experiment by name, and running one."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

from betimes.errors import InputError, did_you_mean
from betimes.ray_workers import joined
from betimes_papers import headlines, portfolio, waiting
from betimes_papers.eva import improvements as eva_improvements
from betimes_papers.eva import planning as eva_planning
from betimes_papers.eva import simulations as eva_simulations
from betimes_papers.experiment import Experiment, Progress, Row, Workers
from betimes_papers.fitgpp import experiments as fitgpp
from betimes_papers.pcs import fig1, fig3, fig6, fig7, fig8, fig9, fig10, fig11

VARIABLE = "BETIMES_DATA"
DEFAULT = Path("../shared/data")  # relative to the current directory

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *(figure.EXPERIMENT for figure in (fig1, fig3, fig6, fig7, fig8, fig9, fig10, fig11)),
        *fitgpp.EXPERIMENTS,
        *portfolio.EXPERIMENTS,
        *eva_planning.EXPERIMENTS,
        *eva_simulations.EXPERIMENTS,
        *eva_improvements.EXPERIMENTS,
        *waiting.EXPERIMENTS,
    )
}


def find(name: str) -> Experiment:
    """The experiment of that name, or on some of its parts: `pcs-fig7`, `pcs-fig7:2869ce+b436b2`, `pcs-fig7:all`.

    Raises InputError for an unknown name or part, with the nearest known one.
    """
    base, colon, tail = name.partition(":")
    experiment = EXPERIMENTS.get(base)
    if experiment is None:
        hint = did_you_mean(base, EXPERIMENTS)
        raise InputError(f"experiment {base!r}: expected one of {', '.join(EXPERIMENTS)}{hint}")
    if not colon:
        return experiment
    if experiment.narrowed is None:
        raise InputError(f"experiment {name!r}: {base} has no parts; leave out {colon + tail!r}")
    parts = experiment.parts if tail == "all" else tuple(dict.fromkeys(tail.split("+")))
    for part in parts:
        if part not in experiment.parts:
            known = (*experiment.parts, "all")
            hint = did_you_mean(part, known)
            raise InputError(f"experiment {name!r}, part {part!r}: expected one of {', '.join(known)}{hint}")
    return experiment.narrowed(parts)


EXPERIMENTS[headlines.NAME] = headlines.experiment_of(find)  # of those above


def reproduce(
    name: str,
    data: Path | None = None,
    out: Path | None = None,
    progress: Progress | None = None,
    workers: Workers | None = None,
) -> list[Row]:
    """Run an experiment; raises InputError for an unknown name or missing data.

    workers: by default this process; the rows do not depend on them. data: the folder of the published data, by
    default as `data_directory` finds it. out: the folder for rows.json and the pictures; None: they are not written.
    """
    experiment = find(name)
    # An experiment without data runs even if the environment names a wrong folder.
    folder = data_directory(data) if experiment.needs or data is not None else None
    check(experiment.name, experiment.needs, folder)
    workers = workers or Workers()
    with joined() if workers.ray else nullcontext():  # once for all crews
        rows = experiment.rows(folder, progress or (lambda *_: None), workers)
    if out is not None:
        _write(out, experiment, rows)
    return rows


def data_directory(named: Path | None = None) -> Path | None:
    """The folder given, else that of BETIMES_DATA in the environment, else the default if it exists.

    Raises InputError if a named folder does not exist.
    """
    source = "--data"
    if named is None:
        variable = os.environ.get(VARIABLE)
        if not variable:
            return DEFAULT if DEFAULT.is_dir() else None
        named, source = Path(variable), VARIABLE
    if not named.is_dir():
        raise InputError(f"{source} {named}: there is no such folder; name the one with the published data")
    return named


def check(name: str, needs: tuple[str, ...], data: Path | None) -> None:
    """Raise InputError naming the first missing file that experiment `name` needs."""
    if not needs:
        return
    if data is None:
        raise InputError(
            f"{name} needs {needs[0]}, and no data directory is known; give --data DIR or set {VARIABLE}"
        )
    for file in needs:
        if not (data / file).is_file():
            raise InputError(
                f"{name} needs {data / file}, which is not there; "
                "put it there, or name another folder with --data DIR"
            )


def _write(out: Path, experiment: Experiment, rows: list[Row]) -> None:
    from betimes.outcome import to_json
    from betimes_papers.picture import draw

    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "rows.json").write_text(
            to_json({"name": experiment.name, "rows": rows}) + "\n", encoding="utf-8"
        )
    except OSError as error:
        raise InputError(f"{out}: cannot write the rows ({error.strerror}); choose another place") from error
    draw(experiment.summary, rows, out / f"{experiment.name.partition(':')[0]}.svg")
