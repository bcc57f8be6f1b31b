"""The model's two ways in: a whole simulation, and one decision."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tests.reference.model import Cluster, Job, Kind
from tests.reference.policy import Number
from tests.reference.prediction import predict_finishes
from tests.reference.registry import make_policy


@dataclass(frozen=True)
class Decision:
    """What was decided after one event: the units of each active job, zeros included."""

    time: Number
    kind: Kind
    grants: dict[int, Number]


@dataclass(frozen=True)
class ReferenceResult:
    """What came of it. Lists have one item a job, in the order the jobs were given."""

    jobs: list[Job]
    units: int
    start: list[Number]  # the first instant with a grant, even one lost in the same instant
    finish: list[Number]
    preemptions: list[int]
    resizes: list[int]
    restart_lost_s: list[Number]
    units_s: list[Number]  # unit-seconds held, stalls included
    contention: list[tuple[int, int]]  # sum and count of the samples
    segments: list[tuple[int, Number, Number, Number]]  # job, start, end, units; by start, then job
    decisions: list[Decision]
    # Every promise made to each job: the first at its own arrival, then one at each later arrival it saw.
    predictions: list[list[Number]] = field(default_factory=list)

    @property
    def predicted(self) -> list[Number]:
        """The promise made to each job at its own arrival."""
        return [promises[0] for promises in self.predictions]

    @property
    def jct(self) -> list[Number]:
        return [finish - job.submit for job, finish in zip(self.jobs, self.finish, strict=True)]

    @property
    def predicted_jct(self) -> list[Number]:
        return [finish - job.submit for job, finish in zip(self.jobs, self.predicted, strict=True)]


def run(
    jobs: Sequence[Job],
    units: int,
    policy: str,
    *,
    fractional: bool = False,
    predict: bool = False,
    restart_s: Number = 0,
    sizes: str = "true",
    exact: bool = False,
    resize_interval: Number = 0,
    resize_gain: bool = False,
    nodes: tuple[tuple[int, int, int], ...] | None = None,
    switches: Sequence[tuple[int, int]] = (),
    watch: Callable[[Cluster], object] = lambda _: None,
) -> ReferenceResult:
    """Simulate the jobs, which must come in order of submission, until the last one ends.

    sizes: "true", "estimate" (each job's `estimate`) or "noise" (each job's `factor`).
    exact: compute in fractions, without any rounding, instead of floats.
    switches: (job, node): once the job has been submitted the node is drained, or up again. watch: is shown the
    cluster after every event.
    """
    cluster = make_cluster(jobs, units, policy, fractional, restart_s, sizes, exact)
    cluster.resize_interval = cluster.number(resize_interval)
    cluster.resize_gain = resize_gain
    cluster.nodes, cluster.up = nodes, [True for _ in nodes or ()]
    decisions: list[Decision] = []
    predictions: list[list[Number]] = [[] for _ in jobs]
    while (event := cluster.step()) is not None:
        decisions.append(Decision(cluster.now, event.kind, {job.index: job.grant for job in cluster.active}))
        if predict and event.kind is Kind.SUBMIT:
            for index, finish in predict_finishes(cluster).items():
                predictions[index].append(finish)
        watch(cluster)
        if event.kind is Kind.SUBMIT:
            for _, node in (switch for switch in switches if switch[0] == event.job_index):
                cluster.up[node] = not cluster.up[node]
    ended = sorted(cluster.ended, key=lambda job: job.index)
    return ReferenceResult(
        jobs=list(jobs),
        units=units,
        start=[job.start for job in ended],
        finish=[job.finish for job in ended],
        preemptions=[job.preemptions for job in ended],
        resizes=[job.resizes for job in ended],
        restart_lost_s=[job.stalled_s for job in ended],
        units_s=[job.attained_unit_s for job in ended],
        contention=[(int(job.seen_sum), int(job.seen_count)) for job in ended],
        segments=joined(cluster.steps),
        decisions=decisions,
        predictions=predictions if predict else [],
    )


def allocate_once(
    jobs: Sequence[Job], units: int, policy: str, *, fractional: bool = False, exact: bool = False
) -> list[Number]:
    """The units each job holds when all have just arrived, one after another, at one instant."""
    cluster = make_cluster(jobs, units, policy, fractional, 0, "true", exact)
    while cluster.future:
        cluster.step()
    return [job.grant for job in cluster.active]


def make_cluster(
    jobs: Sequence[Job], units: int, policy: str, fractional: bool, restart_s: Number, sizes: str, exact: bool
) -> Cluster:
    check_jobs(jobs, units, sizes)
    number = Fraction if exact else float
    return Cluster(
        list(jobs),
        units,
        make_policy(policy, number),
        fractional=fractional,
        restart_s=restart_s,
        sizes=sizes,
        number=number,
    )


def check_jobs(jobs: Sequence[Job], units: int, sizes: str) -> None:
    if sizes not in {"true", "estimate", "noise"}:
        raise ValueError(f"unknown sizes: {sizes}")
    for index, job in enumerate(jobs):
        if job.submit < 0 or job.work <= 0 or not 1 <= job.min_units <= min(job.max_units, units):
            raise ValueError(f"job {index} is not valid: {job}")
        if index > 0 and job.submit < jobs[index - 1].submit:
            raise ValueError(f"job {index} was submitted before the one in front of it")


def joined(steps: list[tuple[Number, Number, int, Number]]) -> list[tuple[int, Number, Number, Number]]:
    """Segments of constant units: neighbouring steps of one job with the same units become one."""
    segments: list[tuple[int, Number, Number, Number]] = []
    for start, end, index, units in sorted(steps, key=lambda step: (step[2], step[0])):
        if segments and (segments[-1][0], segments[-1][2], segments[-1][3]) == (index, start, units):
            segments[-1] = (index, segments[-1][1], end, units)
        else:
            segments.append((index, start, end, units))
    return sorted(segments, key=lambda segment: (segment[1], segment[0]))
