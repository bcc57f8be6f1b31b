"""Past jobs again under every policy that fits, within a time; then the few policies that are worth having."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from betimes.cluster import Cluster
from betimes.errors import BetimesError, InputError
from betimes.foresight.advice.candidates import Candidates
from betimes.foresight.advice.record import FIGURES, Advice, Compared, LeftOut, Row, Worth
from betimes.foresight.engines import NODES, Engine, engine_for, homes_of, named_engine
from betimes.foresight.simulate import simulate
from betimes.kernels import Floats, Ints
from betimes.outcome import JobState, Result, job_metric, metrics
from betimes.policies import parse_nodes_policy, parse_policy
from betimes.processes import Do, Processes, Say
from betimes.twin.options import SimulationOptions
from betimes.twin.sizes import Sizes
from betimes.units import S_PER_H
from betimes.workload import Workload

PERIOD_S = 7 * 24 * S_PER_H
WARM_UP = 1 / 7
"""Of the period, before it."""
FEW_JOBS = 100
"""Fewer say nothing: half of them, on which a difference has to show, are a matter of chance."""
SAME_FRAC = 0.05
SAME = {"s": 1.0, "ratio": 0.02, "frac": 0.01, "usd": 0.01}
"""Figures that differ by no more than a twentieth, or by this in their unit, are equal."""
JOBS_OF_A_USER = 5
"""A user with fewer is nobody whose treatment is compared."""
WORST = 0.1
MOST_WORSE = 2.0
BALANCED = "balanced"
PROMISES = 1000
"""Jobs that are promised an end, drawn by the seed."""
LEVEL = 0.8


class Period(NamedTuple):
    """The jobs of the last days with some before; `first`: the row of the first that counts."""

    workload: Workload
    first: int

    @classmethod
    def last(cls, workload: Workload, period_s: float) -> Period:
        """The jobs submitted in the last `period_s` seconds of a workload, and those of a seventh of that before."""
        ends_s = float(workload.submit_s[-1]) if len(workload) else 0.0
        begin, first = np.searchsorted(
            workload.submit_s, (ends_s - period_s * (1.0 + WARM_UP), ends_s - period_s)
        )
        return cls(workload[int(begin) :], int(first - begin))


@dataclass(frozen=True)
class Candidate:
    """A policy with its engine, by the name that means it: with the engine where both have one of that name."""

    name: str
    plain: str
    engine: Engine

    @classmethod
    def of(cls, text: str) -> Candidate:
        """From a policy's text. Raises PolicyError."""
        named, plain = named_engine(text)
        engine = named or engine_for(plain)
        found = str((parse_nodes_policy if engine == NODES else parse_policy)(plain))
        return cls(f"{engine}:{found}" if len(homes_of(found)) > 1 else found, found, engine)


@dataclass(frozen=True)
class _Outcome:
    """The columns of a result that figures are made of, a row a job of the period."""

    done: np.ndarray
    wait_s: Floats
    slowdown: Floats
    low_s: Floats
    finish_s: Floats
    high_s: Floats
    error_frac: Floats
    cost_usd: float | None
    preemptions: int
    unfinished: int
    seconds: float

    @classmethod
    def of(cls, result: Result, cluster: Cluster | None, first: int, seconds: float) -> _Outcome:
        """The columns from the first row of the period on; cluster: its machines, by whose prices these cost."""
        jobs, intervals = result.jobs, result.intervals
        unknown = np.full(len(jobs), math.nan)
        cost_usd = None
        if cluster is not None and cluster.offers:
            rented_usd = 0.0 if result.leases is None else metrics.total(result.leases.cost_usd)
            makespan_s = metrics.makespan(jobs.submit_s, jobs.finish_s)
            cost_usd = rented_usd + float(cluster.owned_usd(makespan_s))
        return cls(
            done=jobs.finished[first:],
            wait_s=job_metric(result, "wait_s")[first:],
            slowdown=job_metric(result, "bounded_slowdown")[first:],
            low_s=(unknown if intervals is None else intervals.predicted_low_s)[first:],
            finish_s=jobs.finish_s[first:],
            high_s=(unknown if intervals is None else intervals.predicted_high_s)[first:],
            error_frac=np.abs(job_metric(result, "prediction_error_frac"))[first:],
            cost_usd=cost_usd,
            preemptions=int(jobs.preemptions[first:].sum()),
            unfinished=int((jobs.state == JobState.UNFINISHED)[first:].sum()),
            seconds=seconds,
        )


@dataclass(frozen=True)
class _Task:
    """A candidate to simulate until its share of the time is over; `after`: rounds of candidates behind it."""

    candidate: Candidate
    after: int


class _TookTooLong(Exception):
    """The share of the time is over."""


def advise(
    period: Period,
    options: SimulationOptions,
    in_force: str,
    fitting: Candidates,
    *,
    budget_s: float,
    processes: int = 1,
    progress: Callable[[int, int], object] | None = None,
) -> Advice:
    """Simulate the jobs under the policy in force, and under those that fit for `budget_s` seconds.

    The time that is left is shared equally among the policies that are left, so that quick ones leave theirs to slow
    ones; the policy in force gets as much as it needs. progress receives how many are done, and of how many. Raises
    PolicyError, and InputError if the jobs cannot be simulated under the policy in force.
    """
    workload, first = period
    now = Candidate.of(in_force)
    about = _About.of(period, now.name)
    if about.problem is not None:
        return about.advice((), (), _grouped(fitting.left_out))
    if options.sizes is None:  # no policy knows the truth
        known = not bool(np.isnan(workload.estimate_s).all())
        options = replace(options, sizes=Sizes("estimate" if known else "learned"))
    options = replace(
        options, predict=True, predict_sample=PROMISES, interval=LEVEL, timeline=False, on_wide="drop"
    )
    others = [each for each in map(Candidate.of, fitting.policies) if each.name != now.name]
    others = list({each.name: each for each in others}.values())
    do = _prepare(workload, first, options, math.inf)
    _say(progress, 0, len(others) + 1)
    present = do(_Task(now, 0), lambda _: None)
    if isinstance(present, str):
        raise InputError(present)
    found = {now.name: present}
    why = list[LeftOut]()
    until_s = time.monotonic() + budget_s
    size = min(processes, len(others))
    tasks = [_Task(each, (len(others) - 1 - at) // max(1, size)) for at, each in enumerate(others)]
    for at, answer in _answers(tasks, (workload, first, options, until_s), size):
        name = others[at].name
        if isinstance(answer, str):
            why.append(LeftOut(policies=(name,), why=answer))
        elif answer.unfinished > present.unfinished:
            why.append(LeftOut(policies=(name,), why="they leave jobs unfinished"))
        else:
            found[name] = answer
        _say(progress, len(found) + len(why), len(others) + 1)
    ordered = [now, *(each for each in others if each.name in found)]
    return _judged(about, period, ordered, found, _grouped([*fitting.left_out, *why]))


def _say(progress: Callable[[int, int], object] | None, done: int, of: int) -> None:
    if progress is not None:
        progress(done, of)


def _answers(
    tasks: Sequence[_Task], arguments: tuple[Any, ...], size: int
) -> Iterator[tuple[int, _Outcome | str]]:
    """The number of each task with its answer, as they are done."""
    if size > 1:
        with Processes(_prepare, arguments, size) as crew:
            yield from crew.answers(tasks)
        return
    do = _prepare(*arguments)
    for at, task in enumerate(tasks):
        yield at, do(task, lambda _: None)


def _prepare(workload: Workload, first: int, options: SimulationOptions, until_s: float) -> Do:
    """A function from a task to its outcome, or to the reason why there is none; until_s: by the monotonic clock."""

    def do(task: _Task, _: Say) -> _Outcome | str:
        candidate = task.candidate
        _compile(candidate)
        share_s = (until_s - time.monotonic()) / (task.after + 1)
        begun_s = time.monotonic()

        def look(_: int) -> None:
            if time.monotonic() - begun_s > share_s:
                raise _TookTooLong

        try:
            result = simulate(
                workload, candidate.plain, replace(options, engine=candidate.engine), progress=look
            )
        except _TookTooLong:
            return "they took longer than their share of the time; a longer --budget has them, too"
        except BetimesError as error:
            return str(error)
        return _Outcome.of(result, options.cluster, first, time.monotonic() - begun_s)

    return do


def _compile(candidate: Candidate) -> None:
    """Have the kernels of a simulation ready: compiling is not part of a policy's time."""
    if candidate.engine == NODES:
        from betimes.foresight.nodes.predict import run_rows_predicting

        chosen = parse_nodes_policy(candidate.plain)
        chosen.policy.rules(chosen.values)
    else:
        from betimes.foresight.predict import run_rows_predicting

        parse_policy(candidate.plain).policy.rules()
    run_rows_predicting.load()


def _grouped(left_out: Sequence[LeftOut]) -> list[LeftOut]:
    """The same, policies with one reason together."""
    found = dict[str, list[str]]()
    for each in left_out:
        found.setdefault(each.why, []).extend(each.policies)
    return [LeftOut(policies=tuple(policies), why=reason) for reason, policies in found.items()]


@dataclass(frozen=True)
class _About:
    """The part of the advice that does not depend on what policies bring."""

    workload: str
    jobs: int
    warm_up: int
    span_s: float
    in_force: str
    by_user: bool
    problem: str | None

    @classmethod
    def of(cls, period: Period, in_force: str) -> _About:
        workload, first = period
        jobs = len(workload) - first
        span_s = float(workload.submit_s[-1] - workload.submit_s[first]) if jobs else 0.0
        problem = None
        if jobs < FEW_JOBS:
            there = "there is 1 job" if jobs == 1 else f"there are {jobs} jobs"
            problem = (
                f"{there} in the period, and fewer than {FEW_JOBS} say nothing about policies; give a longer "
                "period, or ask again later"
            )
        users = workload.user[first:]
        return cls(workload.name, jobs, first, span_s, in_force, len(_users(users)) > 1, problem)

    def advice(self, rows: Sequence[Row], worth: Sequence[Worth], left_out: Sequence[LeftOut]) -> Advice:
        return Advice(**self.__dict__, rows=tuple(rows), worth=tuple(worth), left_out=tuple(left_out))


def _judged(
    about: _About,
    period: Period,
    ordered: Sequence[Candidate],
    found: Mapping[str, _Outcome],
    left_out: Sequence[LeftOut],
) -> Advice:
    """Figures of the jobs that finish under every policy, each beside the policy in force, and the few to have."""
    users = period.workload.user[period.first :]
    done = np.logical_and.reduce([outcome.done for outcome in found.values()])
    rows, names = np.flatnonzero(done), _users(users[done])
    halves = np.array_split(rows, 2)
    whole = {name: _figures(outcome, rows, users, names) for name, outcome in found.items()}
    parts = {
        name: [_figures(outcome, half, users, names) for half in halves] for name, outcome in found.items()
    }
    now = ordered[0].name
    shown = [
        Row(
            policy=each.name,
            engine=each.engine,
            in_force=each.name == now,
            figures=whole[each.name],
            against={}
            if each.name == now
            else {
                key: _compared(key, whole[each.name], whole[now], parts[each.name], parts[now])
                for key in FIGURES
                if whole[each.name][key] is not None and whole[now][key] is not None
            },
            preemptions=found[each.name].preemptions,
            seconds=found[each.name].seconds,
        )
        for each in ordered
    ]
    about = replace(about, jobs=len(rows), by_user=len(names) > 1)
    return about.advice(shown, worth_having(shown), left_out)


def _users(users: Ints) -> Ints:
    """The users whose treatment can be compared; none: the jobs' is."""
    names, counts = np.unique(users[users >= 0], return_counts=True)
    names = names[counts >= JOBS_OF_A_USER]
    return names if len(names) > 1 else names[:0]


def _figures(outcome: _Outcome, rows: Ints, users: Ints, names: Ints) -> dict[str, float | None]:
    """The figures of some jobs."""
    slowdown, error = outcome.slowdown[rows], outcome.error_frac[rows]
    low_s, finish_s, high_s = (each[rows] for each in (outcome.low_s, outcome.finish_s, outcome.high_s))
    promised = ~np.isnan(low_s)
    kept = (low_s <= finish_s) & (finish_s <= high_s)
    treated = slowdown
    if len(names):
        of_users = [slowdown[users[rows] == name] for name in names]
        treated = np.array([metrics.mean(each) for each in of_users if len(each)])
    worst = np.sort(treated)[len(treated) - math.ceil(WORST * len(treated)) :]
    values = {
        "wait_s": metrics.mean(outcome.wait_s[rows]),
        "slowdown": metrics.mean(slowdown),
        "worst_off": metrics.mean(worst),
        "kept_frac": metrics.mean(kept[promised].astype(float)),
        "off_frac": metrics.percentile(error[~np.isnan(error)], 50),
        "cost_usd": math.nan if outcome.cost_usd is None else outcome.cost_usd,
    }
    return {key: value if math.isfinite(value) else None for key, value in values.items()}


def _compared(
    key: str,
    one: Mapping[str, float | None],
    other: Mapping[str, float | None],
    of_one: Sequence[Mapping[str, float | None]],
    of_other: Sequence[Mapping[str, float | None]],
) -> Compared:
    """A figure beside that of the policy in force: a difference is one if it is no small one, and in both halves."""
    value, before = one[key], other[key]
    assert value is not None
    assert before is not None
    if abs(value - before) <= max(SAME_FRAC * abs(before), SAME[FIGURES[key].unit]):
        return "equal"
    is_less = value < before
    if key != "cost_usd":  # which is of the whole run
        for half, half_before in zip(of_one, of_other, strict=True):
            here, there = half[key], half_before[key]
            if here is None or there is None or here == there or (here < there) != is_less:
                return "equal"
    return "better" if is_less != (key == "kept_frac") else "worse"


def worth_having(rows: Sequence[Row]) -> list[Worth]:
    """The best policy in each figure, and the balanced one, as far as they are better than the policy in force.

    rows: the policy in force first. The balanced policy has the least product of its figures. Of policies that are as
    good within noise it is the one by which fewest figures get worse, then the first. A policy that makes some figure
    worse than `MOST_WORSE` times is not worth having.
    """
    keys = [
        key
        for key, figure in FIGURES.items()
        if figure.purpose is not None and all(row.figures[key] is not None for row in rows)
    ]
    floors = np.array([SAME[FIGURES[key].unit] for key in keys])
    values = np.array([[row.figures[key] or 0.0 for key in keys] for row in rows]).reshape(len(rows), -1)
    costs = np.log(np.maximum(values, floors))
    possible = (costs - costs[0] <= math.log(MOST_WORSE)).all(axis=1)
    purposes = dict[int, list[str]]()

    def choose(by: Floats, purpose: str, key: str | None = None) -> None:
        near = np.flatnonzero(possible & (by <= by[possible].min() + math.log(1.0 + SAME_FRAC)))
        best = min(near.tolist(), key=lambda row: [*rows[row].against.values()].count("worse"))
        if (rows[best].against.get(key) if key else _gains(rows[best])) == "better":
            purposes.setdefault(best, []).append(purpose)

    choose(costs.sum(axis=1), BALANCED)
    for at, key in enumerate(keys):
        choose(costs[:, at], str(FIGURES[key].purpose), key)
    return [
        Worth(
            policy=rows[row].policy,
            purposes=tuple(found),
            better=tuple(key for key in FIGURES if rows[row].against.get(key) == "better"),
            worse=tuple(key for key in FIGURES if rows[row].against.get(key) == "worse"),
        )
        for row, found in purposes.items()
    ]


def _gains(row: Row) -> Compared:
    """Whether any figure gets better."""
    return "better" if "better" in row.against.values() else "equal"
