"""How promises beside a real Slurm hold, next to Slurm's own answers, and what a look at it costs.

The recording (`slurm/` among the data) is slurmctld 22.05 with 100 nodes of one CPU and 325 submissions of KTH-SP2
within 52 hours. It is driven through the source of `betimes up --slurm`, look by look: rows of `squeue` become events,
and new jobs are promised an end, with what the 4,000 jobs before have taught. The first promise of each job that ended
is judged, beside the first start that `squeue --start` showed and the time limit, on the same jobs, and beside the
limit counted from the promise.

Then CPU seconds of a look at 400 nodes of 32 CPUs with ever more waiting jobs: the first one, which promises all of
them an end, and one that finds nothing new.
"""

from __future__ import annotations

import asyncio
import math
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from measuring import ROOT, Table, arguments, introduce, traces_at

sys.path.insert(0, str(ROOT))
from betimes.outcome.accuracy import Promises, accuracy
from betimes.workload import Workload, read_trace
from tests.slurm.recorded_looks import RecordedSlurm, Watching, read_recording, watching

RECORDING, LOG = "slurm/kth-day140-x240.jsonl.gz", "swf/KTH-SP2-1996-2.swf.gz"
NODES, DAY, PAST = 100, 140, 4000
QUICK_LOOKS = 100
ENDED = ("COMPLETED", "TIMEOUT", "FAILED")
WAITED_S = 300.0
FIELDS = (
    *("id", "user", "name", "state", "submit", "start", "end", "limit_s", "cpus", "nodes", "partition"),
    *("priority", "reason"),
)


def history(log: Path) -> Workload:
    """The jobs of the log that had ended before the recording begins, the latest."""
    whole = read_trace(log, on_bad_rows="skip")
    ended_s = whole.submit_s + whole.extra["recorded_wait_s"] + whole.work_s / whole.max_units
    return whole[np.flatnonzero(ended_s < DAY * 86400.0)[-PAST:]]


async def recorded(folder: Path, looks: int | None) -> list[dict[str, Any]]:
    """The first promise of each job that came while the recording went on, and has ended, with the truth."""
    slurm = RecordedSlurm(read_recording(folder / RECORDING)[:looks], NODES, history=history(folder / LOG))
    spent_s = list[float]()
    with tempfile.TemporaryDirectory() as state:
        async with watching(slurm, Path(state)) as watched:
            for _ in slurm.follow():
                begun_s = time.process_time()
                await watched.look()
                spent_s.append(time.process_time() - begun_s)
            found = [
                {**truth, **quotes[0], "slurm_start_at": row["slurm_start_at"]}
                for number, truth in slurm.truth.items()
                if not truth["warm"] and truth["state"] in ENDED and truth["end"] <= slurm.at
                if (quotes := watched.service.store.quotes(int(number)))
                and (row := watched.service.store.job(int(number))) is not None
            ]
    print(f"{len(spent_s)} looks, CPU s of one: {np.median(spent_s):.3f}, at most {max(spent_s):.3f}\n")
    return found


def judge(jobs: list[dict[str, Any]]) -> None:
    """The table of promises beside Slurm's answers."""
    table = Table(
        "jobs", "n", "kept %", "early %", "width min", "off min", "bias min", "Slurm n", "promise off", "Slurm off",
        "Slurm bias", "ratio", "limit off",
    )  # fmt: skip
    for name, wait_s in (("all", -math.inf), ("waited over 5 min", WAITED_S)):
        of = [job for job in jobs if job["start"] - job["submit"] > wait_s]
        planned = [job for job in of if job["slurm_start_at"] is not None]
        every, ours = accuracy(_promises(of)), accuracy(_promises(planned))
        slurm = accuracy(_ends(planned, "slurm_start_at"))
        limit = accuracy(_ends(planned, "made_at"))
        width_s = np.array(
            [(job["finish_high_at"] or math.nan) - (job["finish_low_at"] or 0.0) for job in of]
        )
        given = max(1, every["kept"] + every["early"] + every["late"])
        table.line(
            name, len(of), f"{100 * every['cover_frac']:.1f}", f"{100 * every['early'] / given:.1f}",
            f"{np.nanmedian(width_s) / 60:.0f}", _minutes(every["err_p50_s"]), _minutes(every["bias_mean_s"]),
            len(planned), _minutes(ours["err_p50_s"]), _minutes(slurm["err_p50_s"]), _minutes(slurm["bias_mean_s"]),
            f"{ours['err_p50_s'] / slurm['err_p50_s']:.2f}", _minutes(limit["err_p50_s"]),
        )  # fmt: skip


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f}"


def _promises(jobs: list[dict[str, Any]]) -> Promises:
    names = ("made_at", "finish_median_at", "end", "finish_low_at", "finish_high_at", "level")
    columns = np.array([[job[name] for name in names] for job in jobs], dtype=np.float64)
    columns[:, 1] = np.where(np.isnan(columns[:, 1]), [job["finish_at"] for job in jobs], columns[:, 1])
    return Promises(*columns.T)


def _ends(jobs: list[dict[str, Any]], since: str) -> Promises:
    """A start and the limit of each job, as a promise without an interval."""
    rows = [(job["made_at"], job[since] + job["limit"], job["end"], *[math.nan] * 3) for job in jobs]
    return Promises(*np.array(rows, dtype=np.float64).T)


def crowd(waiting: int) -> list[dict[str, Any]]:
    """A recording of one look: 400 jobs that fill as many nodes, and so many that wait behind them."""
    draw, now = np.random.default_rng(7), 1_000_000.0
    rows = list[list[Any]]()
    for number in range(1, 401 + waiting):
        runs, nodes = number <= 400, 1 if number <= 400 else int(draw.choice([1, 1, 1, 2, 4, 8]))
        limit_s, user = 60.0 * int(draw.integers(10, 720)), f"u{draw.integers(0, 40)}"
        start = now - limit_s * draw.uniform(0.0, 0.5) if runs else None
        rows.append([
            str(number), user, f"{user}_-1", "RUNNING" if runs else "PENDING", now - 50_000.0 - number, start, None,
            limit_s, 32 * nodes, nodes, "batch", 1_000_000 - number, "None" if runs else "Priority",
        ])  # fmt: skip
    return [{"fields": FIELDS, "jobs": {}}, {"at": now, "changed": rows, "gone": []}]


async def look_costs(waiting: int, past: Workload | None) -> tuple[float, float]:
    """CPU seconds of the first look at so many waiting jobs, and of the next."""
    slurm = RecordedSlurm(crowd(waiting), 400, 32, past)
    with tempfile.TemporaryDirectory() as state:
        async with watching(slurm, Path(state)) as watched:
            next(slurm.follow())
            first_s = await _timed(watched)
            slurm.at += 60.0
            return first_s, await _timed(watched)


async def _timed(watched: Watching) -> float:
    begun_s = time.process_time()
    await watched.look()
    return time.process_time() - begun_s


def main() -> None:
    given = arguments(__doc__)
    introduce(__doc__)
    folder = traces_at(given.data, RECORDING, LOG)
    past = None if folder is None else history(folder / LOG)
    if folder is not None:
        judge(asyncio.run(recorded(folder, QUICK_LOOKS if given.quick else None)))
        print()
    asyncio.run(look_costs(20, None))
    table = Table("waiting jobs", "first look", "next look", "times at 100")
    base_s = math.nan
    for waiting in (100, 200) if given.quick else (100, 1000):
        first_s, next_s = asyncio.run(look_costs(waiting, past))
        base_s = first_s if math.isnan(base_s) else base_s
        table.line(f"{waiting:,}", first_s, next_s, first_s / base_s)


if __name__ == "__main__":
    main()
