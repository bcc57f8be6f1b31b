"""The service's answers: the models that the API serves, the clients return and the command line prints.

Instants are seconds since 1970 (`_at`), durations seconds (`_s`), both floats; null: not known, or not yet. Promises
have the instants as datetimes, too (`_time`), in Python.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from betimes.service.scheduling.job_states import Status
from betimes.service.spec.family_demand import Amount
from betimes.service.spec.job_spec import (
    MOST_UNITS,
    WHOLE,
    Family,
    JobSpec,
    Label,
    NodeLabels,
    Seconds,
    in_schema,
)
from betimes.service.spec.users import User, UserName
from betimes.service.views.local_time import LocalTime, local_time

T = TypeVar("T")


class View(BaseModel):
    """A model of an answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Reason(View):
    """Why a job waits, or why nothing was done: a code for programs, a sentence for people, and the evidence."""

    code: str  # one of `service.scheduling.reasons.CODES`
    text: str  # "needs 2 GPUs; expected 2026-11-25T13:05:00Z, when job 41 ends": instants are in UTC
    evidence: dict[str, Any] = {}


class Estimate(View):
    """The expected start and finish of a job, as of an instant."""

    as_of_at: float
    start_at: float | None
    finish_at: float | None
    basis: str  # what the run time is taken from: estimate, limit, progress, last-two, alike, default, doubled, grace
    finish_low_at: float | None = None  # null, as the others of the interval: few jobs like it have finished
    finish_median_at: float | None = None
    finish_high_at: float | None = None
    start_low_at: float | None = None
    start_median_at: float | None = None
    start_high_at: float | None = None
    level: float | None = None  # probability of an end, and of a start, between low and high
    rests_on: str | None = None  # what the interval is from: "as 312 promises to this user's jobs turned out"


class QuoteOption(View):
    """A job's choice under a policy that rents: wait for the machines that are owned, or have one rented now."""

    what: Literal["wait", "rent now"]
    start_at: float
    finish_at: float
    finish_low_at: float | None = None  # as those of a quote, with its level
    finish_median_at: float | None = None
    finish_high_at: float | None = None
    cost_usd: float | None = None  # null: no price is known
    instance_type: str | None = None  # of the machine that is rented
    is_taken: bool = False
    why: str | None = None  # it is taken


class Quote(View):
    """The promise made at submission, or asked for without submitting."""

    quote_id: int | None = None  # null where nothing was stored
    job_id: int | None = None
    made_at: float
    earliest_at: float | None = None
    """Before that it certainly does not begin; null: the promise of a job that is there."""
    policy: str
    start_at: float | None  # null: the policy never starts it as things stand
    finish_at: float | None  # as played out, before what past promises were off by
    finish_low_at: float | None = None  # null, as the next three: few jobs like it have finished yet
    finish_median_at: float | None = None  # by when it is done as likely as not
    finish_high_at: float | None = None
    start_low_at: float | None = None  # of the start, likewise; null, as the next two: as above
    start_median_at: float | None = None
    start_high_at: float | None = None
    level: float | None = None  # probability of an end, and of a start, between low and high
    cost_usd: float | None = None  # null: no price is known
    run_s: float  # the run time on max_units that the quote rests on
    basis: str
    reason: Reason | None = None  # why it waits; null: it starts at once
    options: list[QuoteOption] = []  # where it would wait, or be rented a machine
    elements: int | None = None
    """Of an array: how many of its elements it is of, where these are not all of them."""
    note: str | None = None  # in the answer to a quote: as with `Submitted`
    not_run: str | None = None  # likewise

    @property
    def start_time(self) -> LocalTime | None:
        """`start_at` as a datetime in local time."""
        return local_time(self.start_at)

    @property
    def finish_time(self) -> LocalTime | None:
        """`finish_at` as a datetime in local time."""
        return local_time(self.finish_at)

    @property
    def finish_low_time(self) -> LocalTime | None:
        """`finish_low_at` as a datetime in local time."""
        return local_time(self.finish_low_at)

    @property
    def finish_high_time(self) -> LocalTime | None:
        """`finish_high_at` as a datetime in local time."""
        return local_time(self.finish_high_at)


class Submitted(View):
    """A job that was accepted. An array is one of these with all of its elements."""

    job_id: int  # of the first element
    job_ids: list[int]
    quote: Quote | None  # the first start and the last end of those that may queue; null: `reason` says why
    reason: Reason | None = None  # why nothing can be promised yet
    note: str | None = None  # what to know of its run time, its promise, and what each of its units counts as
    not_run: str | None = None  # that its command is not run, as made-up machines can take it

    @property
    def start_time(self) -> LocalTime | None:
        """When it is promised to start, as a datetime in local time."""
        return None if self.quote is None else self.quote.start_time

    @property
    def finish_time(self) -> LocalTime | None:
        """When it is promised to be done, as a datetime in local time."""
        return None if self.quote is None else self.quote.finish_time


class UploadLimits(View):
    """Limits of a directory that is sent along with a job."""

    most_bytes: int  # of its files together
    most_files: int  # with directories and links


class UploadView(View):
    """A directory that the service has, as an archive."""

    sha256: str  # of the archive; what a job names in `upload`
    archive_bytes: int


class Uploaded(View):
    """The outcome of sending a directory."""

    folder: str
    sha256: str  # what a job names in `upload`
    files: int  # with directories and links
    bytes: int  # of its files together
    archive_bytes: int
    sent: bool  # False: the service had it already


class PlaceView(View):
    """Units of a run on a node."""

    node: str
    units: int


class RunView(View):
    """One time that a job's command was started."""

    number: int  # 1, 2, ... (BETIMES_ATTEMPT)
    units: int
    places: list[PlaceView]
    started_at: float
    ended_at: float | None = None
    ran_s: float  # so far, or until it ended; without the time for which it stood still
    outcome: str | None = None
    """One of: exited, preempted, resized, cancelled, time-limit, out-of-memory, prolog-failed, node-lost, start-failed,
    lost."""
    exit_code: int | None = None
    signal: int | None = None
    max_rss_gib: float | None = None
    cpu_s: float | None = None
    message: str | None = None
    memory_limit_gib: float | None = None  # of all of its processes together; null: none
    memory_limited_by: str | None = None
    """The enforcement of that limit: cgroup v2, or polling (and a limit of each process)."""
    log_lost_bytes: int | None = None  # of its output: dropped for newer, or no room was left for it


class JobView(View):
    """A job in a list."""

    job_id: int
    array_id: int | None = None
    array_index: int | None = None
    name: str
    user: str
    status: Status
    qos: str
    units: int  # held now
    min_units: int
    max_units: int
    cpu: float = 1.0  # cores of a unit
    submitted_at: float
    started_at: float | None = None
    finished_at: float | None = None
    ran_s: float | None = None
    """Its present run so far, or its last run; without the time for which that stood still."""
    attempt: int = 0  # runs so far
    preemptions: int = 0
    resizes: int = 0
    progress_frac: float | None = None
    reason: Reason | None = None  # why it waits, or why it failed
    estimate: Estimate | None = None  # null where none holds now
    promised_finish_at: float | None = None  # by the first quote, or the first since it was last held
    promised_low_at: float | None = None  # of that quote; null, as the next three: it had no interval
    promised_median_at: float | None = None
    promised_high_at: float | None = None
    promised_level: float | None = None  # probability of an end between low and high
    labels: dict[str, str] = {}
    spec: JobSpec | None = Field(
        default=None,
        exclude_if=lambda spec: spec is None,
        description="only where a list is asked for it, and of jobs that the caller may read",
    )

    @property
    def stated_at(self) -> float | None:
        """The end that was promised at first, as it is shown: the median where there is an interval."""
        return self.promised_finish_at if self.promised_median_at is None else self.promised_median_at


By = Literal["user", "name", "policy", "horizon", "partition"]


class UsageFigures(View):
    """The use by jobs, in hours of their units, and of cores and GPUs of these; null: not known.

    The wait is that of the jobs that started.
    """

    jobs: int
    unit_h: float
    core_h: float
    gpu_h: float
    cost_usd: float | None = Field(
        description="what rented machines cost, and the work on others at the prices of present nodes"
    )
    rented_usd: float | None = Field(
        default=None, description="of it, the cost of rented machines, by their leases, as budgets count it"
    )
    mean_wait_s: float | None


class UsageGroup(View):
    """The use by the jobs of one user, name or label."""

    name: str
    figures: UsageFigures
    recent_frac: float | None = Field(
        default=None,
        description="of a user: the part of all that users have held of late, by the half-life of shares",
    )
    share_frac: float | None = Field(default=None, description="and the part that the user's weight gives")


class UsageView(View):
    """The use by the runs of a period within it, those that go on included; groups: the largest first.

    Of labels, a job counts in the group of each.
    """

    since_at: float  # 0: from the first job on
    until_at: float
    by: Literal["user", "group", "name", "label", "account"] | None = None
    total: UsageFigures
    unused_usd: float | None = Field(
        default=None,
        description="of the cost of rented machines, in the total alone: their boot, the time in which no job held "
        "them, and the rest of what was paid for; null: none were rented",
    )
    groups: list[UsageGroup] = []


class EfficiencyView(View):
    """The part that the ended runs of a job, or of all of an array, used of what they had; null: not recorded.

    Cores are in core seconds, over the runs of which their use is known; memory is that of the run that used most.
    """

    job_id: int
    jobs: int
    runs: int
    run_s: float
    core_asked_s: float | None
    core_used_s: float | None
    memory_asked_gib: float | None  # 0: no limit
    memory_used_gib: float | None
    gpu_asked_s: float
    longest_run_s: float | None
    time_limit_s: float | None
    advice: list[str]  # options for the next time; empty: it used what it asked for, or nothing is known
    notes: list[str]


class CurvePoint(View):
    """The use of a run up to an instant, since the point before."""

    at: float
    cores: float  # in the mean
    memory_gib: float  # at most
    gpus: float | None = None  # busy, in the mean; null: not measured
    gpu_memory_gib: float | None = None  # at most


class CurvesView(View):
    """The use of a run over its time, on one of its nodes, of what it has there.

    That of GPUs is of the whole boards, by NVIDIA's driver; null: it has none, or there was no answer.
    """

    job_id: int
    run: int
    started_at: float
    points: list[CurvePoint]  # at most 300; of a long run each stands for more time
    cores_asked: float
    memory_asked_gib: float  # 0: no limit
    cores_mean: float | None  # so far, or until it ended
    memory_most_gib: float | None
    gpus_asked: float = 0.0
    gpus_mean: float | None = None  # busy, while they were measured
    gpu_memory_most_gib: float | None = None
    gpu_memory_has_gib: float | None = None
    not_measured: str | None  # why there are no points


class AccuracyFigures(View):
    """The accuracy of promises; null: not known. Errors are of the JCT, counted from the promise, over the promised.

    Kept, early and late are promises with an interval, by where the truth fell.
    """

    promises: int
    kept: int
    early: int
    late: int
    cover_frac: float | None  # kept, of those with an interval
    level: float | None  # what that should be
    width_p50_frac: float | None  # of intervals, over the promised JCT
    score: float | None  # mean interval score of log JCT over promised JCT; smaller is better
    err_mean_frac: float | None  # of the absolute error, as the next three
    err_p50_frac: float | None
    err_p90_frac: float | None
    err_p99_frac: float | None
    bias_mean_frac: float | None  # of the signed error: positive where jobs came late
    bias_p50_frac: float | None
    err_p50_s: float | None  # median of the absolute error, in seconds
    bias_mean_s: float | None
    within_1min_frac: float | None  # done no further than this from what was promised
    within_10min_frac: float | None
    off_twice_frac: float | None  # that took twice as long as promised, or less than half
    far_late_frac: float | None  # that took over five times as long as promised, and over an hour longer
    far_early_frac: float | None  # that took under a fifth of what was promised, and over an hour less


class BesideSlurm(View):
    """Promises of a service that watches Slurm, beside what Slurm says of the same jobs."""

    promises: AccuracyFigures  # to jobs that Slurm planned a start for while they waited
    slurm: AccuracyFigures  # the same jobs: the first start that `squeue --start` showed, and the time limit
    limit: AccuracyFigures  # the same jobs: the instant of the promise, and the time limit


class AccuracyGroup(View):
    """The first promises of one user, name, policy, partition or class of horizons."""

    name: str
    figures: AccuracyFigures
    slurm: BesideSlurm | None = None  # null where no Slurm is watched


class JudgedPromise(View):
    """A job's first promise, and when it was done."""

    job_id: int
    user: str
    name: str
    policy: str
    basis: str
    made_at: float
    finish_at: float  # as played out
    finish_low_at: float | None
    finish_median_at: float | None
    finish_high_at: float | None
    level: float | None
    finished_at: float


class AccuracyView(View):
    """The accuracy of promises to jobs that finished in a period, next to users' estimates and a simple baseline."""

    since_at: float
    until_at: float
    level: float  # probability of intervals that are given now
    first: AccuracyFigures  # promises made at submission
    latest: AccuracyFigures  # of each job the last one: made again where it outran its estimate
    estimate: AccuracyFigures
    """The promised start, and the user's own estimate or time limit, where one was given."""
    ratio: AccuracyFigures  # the end as played out, times one ratio for all: the median so far
    by: By | None = None
    groups: list[AccuracyGroup] = []
    beside_slurm: list[AccuracyGroup] = []
    """In a service that watches Slurm: all first promises, and those to jobs that waited over five minutes."""
    promises: list[JudgedPromise] = []  # where asked for: those of the last 10,000 jobs, oldest first


class EventView(View):
    """One line of the event log."""

    event_id: int
    at: float
    kind: str
    cause: str  # what brought it about: user:NAME, executor, timer, policy, operator, recovery, or event:ID
    job_id: int | None = None
    node: str | None = None
    text: str | None = None  # its details in words, instants in UTC; null: `data` say all, or are not shown
    data: dict[str, Any] = {}


class PreemptionView(View):
    """A run that made room for other jobs, and what that cost in node-seconds; null: not known yet, or never to be.

    A node-second is a whole node for a second: of a node a job counts for the largest share of any resource.
    """

    job_id: int  # that made room
    run: int
    by: list[int]  # the jobs that took what it gave up
    policy: str
    told_at: float
    grace_s: float
    nodes: float  # that the run held
    left_at: float | None = None
    resumed_at: float | None = None
    vacating_node_s: float | None = None  # held from the request to leave until it had left
    restart_node_s: float | None = None  # held by the next run before its work went on
    lost_node_s: float | None = None  # of work that had to be done again; known where progress is reported
    cost_node_s: float  # what is known of these three
    waiting_s: float | None = None  # from having left until the next run; it holds nothing then


class JobStory(View):
    """Everything about a job."""

    job: JobView
    spec: JobSpec
    runs: list[RunView]
    quotes: list[Quote]
    no_quote: Reason | None = None  # why there is none
    events: list[EventView]
    preempted: list[PreemptionView] = []  # its own runs that made room for others
    displaced: list[PreemptionView] = []  # the runs of others that made room for it
    trials: list[JobView] = []  # of a set: its trials, the first 1,000
    quote_error_s: float | None = None
    """Seconds its quote was off by, once it has finished: truth less promise."""


class MaintenanceView(View):
    """A window in which no job starts on some nodes; before it only those that are over by then."""

    number: int
    from_at: float
    to_at: float
    nodes: list[str] = []  # empty: all that are owned
    reason: str = ""
    user: str  # who has announced it
    stop: bool = False  # runs that are there are stopped in time, and requeued
    users: list[str] = []  # for whom the nodes are reserved: it does not concern their jobs
    running: list[int] = []  # jobs that run there and may not be over by then, or that still run there


class MaintenanceSpec(BaseModel):
    """Maintenance to announce."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "examples": [
                {"from_at": 1_795_716_000, "to_at": 1_795_723_200, "nodes": ["big-0"], "reason": "new disks"}
            ]
        },
    )

    from_at: float = Field(ge=0, le=1e11, allow_inf_nan=False, description="seconds since 1970, not past")
    to_at: float = Field(ge=0, le=1e11, allow_inf_nan=False, description="after from_at")
    nodes: list[Label] = Field(default=[], max_length=10_000, description="by name; none: all that are owned")
    reason: Annotated[str, in_schema(pattern=r"^[^\x00]*$")] = Field(
        default="", max_length=200, description="shown to those who wait"
    )
    stop: bool = Field(
        default=False, description="stop runs that are there in time, and requeue them; else they go on"
    )
    users: list[UserName] = Field(
        default=[],
        max_length=1000,
        description="reserve the nodes for them: their jobs start there nevertheless",
    )


class NodeView(View):
    """A machine."""

    name: str
    kind: Literal["local", "ray", "virtual", "fake-cloud", "rented", "cloud", "slurm"]
    status: Literal["booting", "up", "draining", "drained", "lost", "gone"]
    cpu: float
    memory_gib: float
    gpu: float
    free_cpu: float
    free_memory_gib: float
    free_gpu: float
    usd_per_h: float | None = None
    last_seen_at: float | None = None
    since_at: float | None = None  # since when it drains, has drained, or is lost
    drained_by: str | None = None  # the user who has it drained
    drain_reason: str = ""  # that user's words
    jobs: list[int] = []
    labels: dict[str, str] = {}  # which jobs may require of their nodes
    family: str = ""  # of machines on which a unit of a job needs the same
    maintenance: MaintenanceView | None = None  # that goes on there, or comes next


class Me(View):
    """The user who asks, by the token or the Unix socket."""

    user: str
    role: str  # user, viewer, operator, ...


class HeldView(View):
    """The holdings of a user's jobs now."""

    running_jobs: int = 0
    queued_jobs: int = 0
    units: int = 0
    memory_gib: float = 0.0


class SpentView(View):
    """The cost of rented machines for a user's jobs in the present day or month (UTC), so far."""

    period: Literal["day", "month"]
    spent_usd: float
    budget_usd: float | None  # the most that it may be; null: any amount
    is_spent: bool = False  # it has come to its end, and holds until the period is over or it is raised


class UserView(User):
    """A user, and what that user has of each limit and budget."""

    held: HeldView = HeldView()
    spent: tuple[SpentView, ...] = ()
    note: str | None = Field(
        default=None, description="why this user's jobs would be refused, where they would"
    )


class TokenView(View):
    """A user's token, without its text."""

    user: str
    name: str
    made_at: float
    expires_at: float | None  # null: never
    used_at: float | None  # last, to a minute or so
    revoked_at: float | None  # null: it is not


class NewToken(View):
    """A token that was made: its text, which is shown this once, and what is kept of it."""

    token: str
    kept: TokenView
    note: str | None = None  # why this user's jobs would be refused, where they would


class Lease(View):
    """By when a node must send another sign of life, or it is lost."""

    node: str
    lease_s: float
    until_at: float


class NodeSpec(BaseModel):
    """Nodes to add: virtual ones of a size, or of a type that the cloud offers, which knows size and price."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": [{"type": "big", "count": 4, "cpu": 64, "memory_gib": 512, "gpu": 8}]},
    )

    kind: Literal["virtual", "fake-cloud", "rented", "cloud"] | None = Field(
        default=None,
        description="null: virtual; a service that runs commands has virtual nodes only if they are named",
    )
    type: Label
    count: Annotated[int, Field(ge=1, le=10_000), WHOLE] = 1
    cpu: Amount | None = None
    memory_gib: Amount | None = None
    gpu: Amount | None = None
    usd_per_h: Amount | None = None
    labels: NodeLabels = Field(default_factory=dict, description="which jobs may require of their nodes")
    family: Family | None = Field(
        default=None,
        description="of machines on which a unit of a job needs the same; null: what the type has before its dot",
    )

    @property
    def is_rented(self) -> bool:
        """Whether the cloud provides them."""
        return self.kind in ("fake-cloud", "rented", "cloud")

    @model_validator(mode="after")
    def _sized_once(self) -> Self:
        amounts = {
            "cpu": self.cpu,
            "memory_gib": self.memory_gib,
            "gpu": self.gpu,
            "usd_per_h": self.usd_per_h,
        }
        given = [name for name, amount in amounts.items() if amount is not None]
        if not self.is_rented and not {"cpu", "memory_gib"} <= set(given):
            raise ValueError(
                "virtual nodes need cpu and memory_gib, of each; with `betimes nodes add`: --cpu and --memory"
            )
        given += ["labels"] if self.labels else []
        given += ["family"] if self.family is not None else []
        if self.is_rented and given:
            raise ValueError(
                f"leave out {', '.join(given)}: the cloud knows what its {self.type} has and costs"
            )
        return self


class WhatIfEdit(BaseModel):
    """Another request of a job; fields that are left out, or null, stay as they are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    job_id: Annotated[int, Field(ge=1, le=2**53 - 1), WHOLE]
    time_limit_s: Seconds | None = None
    units: Annotated[int, Field(ge=1, le=MOST_UNITS), WHOLE] | None = None  # in Slurm: CPUs, in all
    nodes: Annotated[int, Field(ge=1, le=MOST_UNITS), WHOLE] | None = None
    """Of a job in Slurm, as the next one; with as many CPUs of each as before, unless units are given."""
    partition: Label | None = None


class WhatIfSpec(BaseModel):
    """Changes to try, all at once: they are made at this instant, and nothing else is submitted after."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": [{"add_nodes": {"big": 2}}, {"cancel": [41]}]},
    )

    submit: list[JobSpec] = Field(default=[], max_length=1000, description="these jobs")
    add_nodes: dict[Label, Annotated[int, Field(ge=1, le=1000), WHOLE]] = Field(
        default={}, max_length=100, description="so many more nodes of each of these types"
    )
    remove_nodes: list[Label] = Field(
        default=[], max_length=1000, description="start nothing more on these nodes, as with drain"
    )
    undrain_nodes: list[Label] = Field(
        default=[], max_length=1000, description="use these nodes again, as with undrain"
    )
    policy: Label | None = Field(default=None, description="decide by this policy")
    cancel: list[Annotated[int, Field(ge=1, le=2**53 - 1), WHOLE]] = Field(
        default=[], max_length=10_000, description="cancel these jobs"
    )
    edit: list[WhatIfEdit] = Field(default=[], max_length=1000, description="change what these jobs ask for")
    rent: list[Label] = Field(
        default=[],
        max_length=1000,
        description="a machine of each of these types of the cloud, after its boot",
    )
    maintenance: list[MaintenanceSpec] = Field(
        default=[], max_length=100, description="announce these windows"
    )
    load: Annotated[float, Field(gt=0, le=10)] | None = Field(
        default=None,
        description="jobs go on arriving: without the changes as those of late did, with them so many times as fast",
    )


class WhatIfJob(View):
    """The first start and the end of a job, as things stand (`_before_at`) and after the changes; null: never."""

    job_id: int
    name: str
    user: str
    is_new: bool = False  # submitted by the change; of the number that it would have
    start_before_at: float | None
    finish_before_at: float | None
    start_at: float | None
    finish_at: float | None
    finish_low_at: float | None = None
    """Null, as the next three: it is not new, or few jobs like it have finished."""
    finish_median_at: float | None = None
    finish_high_at: float | None = None
    level: float | None = None


class WhatIfSums(View):
    """The sums of a play, over the jobs that finish both ways, and the arrivals that `load` brings."""

    jobs: int
    arrivals: int  # of `jobs`
    never: int  # jobs, arrivals among them, that are never done, as things stand; they do not count below
    mean_jct_s: float | None  # from submission to end; null: no job finishes both ways
    p99_jct_s: float | None
    mean_wait_s: float | None  # from submission to the first start
    cost_usd: float | None  # of all machines, from now until the last job is done; null: no price is known


class WhatIfView(View):
    """The ends of jobs, if every run took as long as believed and nothing more were submitted."""

    made_at: float
    jobs: list[WhatIfJob]  # all that are not over, by number
    before: WhatIfSums | None = None
    after: WhatIfSums | None = None
    arrivals_of_s: float | None = None  # the arrivals of `load` are those of so long until now; null: none
    refused: int = 0  # arrivals that the cluster cannot hold after the changes


class Help(View):
    """A change with which a waiting job would be done earlier."""

    text: str
    change: WhatIfSpec
    """The same, as `what_if` takes it; a job in `submit` takes the place of the waiting one."""
    start_at: float | None
    finish_at: float
    earlier_s: float | None  # than as things stand; null: it would never be done


class HelpsView(View):
    """The changes that would help a waiting job; empty for one that does not wait for room."""

    made_at: float
    start_at: float | None = None  # as things stand; null: never, or not known
    finish_at: float | None = None
    helps: list[Help] = []
    not_tried: list[str] = []
    """Changes for which there was no time, and those that cannot be made, with the reason."""


OBJECTIVE = "^(jct|pred_err|unfairness|slowdown|wait|makespan|utilisation):(avg|p50|p90|p95|p99|max)$"
"""As `foresight.tuning` has them, which must not be loaded for it."""


class AdviceSpec(BaseModel):
    """A question which policies would have been better for the service's own last jobs."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, json_schema_extra={"examples": [{"last_s": 86_400.0}, {}]}
    )

    last_s: Seconds = Field(default=604_800.0, ge=60.0, description="the jobs submitted in so long until now")
    budget_s: Seconds = Field(
        default=120.0,
        ge=1.0,
        le=3600.0,
        description="policies share so long; one that takes longer is left out",
    )


class TuneSpec(BaseModel):
    """A search for the Pareto front of weighted fair queueing on the service's own recent workload."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": [{"objectives": ["jct:avg", "pred_err:p99"], "budget_s": 60.0}, {}]},
    )

    objectives: list[Annotated[Label, in_schema(pattern=OBJECTIVE)]] = Field(
        default=["jct:avg", "pred_err:avg"],
        min_length=1,
        max_length=20,
        description="METRIC:MEASURE, each once",
        json_schema_extra={"uniqueItems": True},
    )
    evaluations: Annotated[int, WHOLE] = Field(
        default=1000, ge=1, le=1_000_000, description="configurations to try at most"
    )
    budget_s: Seconds | None = Field(default=None, description="for so long at most")
    jobs: Annotated[int, WHOLE] = Field(
        default=1000, ge=2, le=100_000, description="to search on, and as many after them to report on"
    )
    seed: Annotated[int, WHOLE] = Field(default=0, ge=0, le=2**32 - 1)
    solver: Literal["spea2", "nsga2", "random"] = "spea2"
    sizes: Literal["estimate", "true"] = Field(
        default="estimate",
        description="what the policy knows: what was believed of each job, or what it took",
    )


class Proposal(View):
    """A point of a front, beside the policy in force when it was searched for, on the same recent workload."""

    point: int
    names: list[str]
    policy: str
    before: str = ""  # the policy in force then
    at: float
    reason: Reason  # why it was searched for
    units: dict[str, str]  # of each objective: s, frac, ratio
    in_force: dict[str, float] | None  # null: under the policy in force some job would never finish
    proposed: dict[str, float]
    not_applied: str | None = None  # why it was not put in force by itself


class PolicyView(View):
    """The policy in force."""

    policy: str
    engine: Literal["pool", "nodes"]
    since_at: float
    idle: Reason | None = None  # why its last decision started and stopped no job; null: it did
    proposal: Proposal | None = None  # what another search has found; null: nothing that is still news
    chosen: Proposal | None = None  # the point of the latest front that is in force; null: none is
    unused: str | None = None  # where a policy for a pool leaves offers unused: what is said of that


class SelectionView(View):
    """A selection of a portfolio: what was chosen and expected, and what has come of the jobs that waited then."""

    event_id: int
    at: float
    from_at: float  # of the state that it looked at
    member: str | None  # that was chosen; null: none was (`problem`)
    before: str | None  # that decided until then; null: the first
    in_force: bool  # false: it was refused, or is only reported
    problem: str | None = None
    waiting: int = 0  # jobs
    score: float | None = None  # of the member that was chosen
    scores: dict[str, float | None] = {}  # of all that were simulated; null: it failed
    smallest_wins: bool = False  # scores are values of an objective, else utilities
    slowdown: float | None = None  # expected of the jobs that waited: mean, bounded
    machine_s: float | None = None  # expected to be paid for
    took_s: float | None = None
    finished: int = 0  # of the jobs that waited, by now
    slowdown_since: float | None = None  # theirs; null: none has finished


class PortfolioView(View):
    """The portfolio in force, and its newest selections, newest first."""

    policy: str
    member: str | None  # that decides; null: the first, or the policy is no portfolio
    selections: list[SelectionView]


class FleetMachine(View):
    """A rented machine, and the jobs that run on it."""

    name: str
    type: str
    status: str
    usd_per_h: float
    rented_at: float
    jobs: list[int]
    why: str = ""  # who has it rented, and for whom
    paid_until_at: float | None = None  # null: nothing is charged for it yet
    cost_usd: float = 0.0  # until then


class FleetMove(View):
    """A job's last move to other machines: the part of their price that it saves, as planned and as it came."""

    job: int
    decided_at: float
    expected_saving_usd_per_h: float
    expected_cost_usd: float  # of the pause, and of the boot of new machines
    saving_usd_per_h: float | None = None  # null: it does not run there yet
    cost_usd: float | None = None  # of the pause; null: it is not over


class FleetReconfiguration(View):
    """A planner's last round that moved jobs from or to rented machines, and what all its moves save as planned."""

    decided_at: float
    jobs: list[int]
    ended: int  # machines given back as these jobs leave them
    rented: int  # new ones that they go to
    expected_saving_usd_per_h: float  # the moves' own parts count a machine that several leave each time
    expected_cost_usd: float  # of the pauses, and of the boot of new machines


class FleetView(View):
    """The rented fleet, USD an hour; beside a machine for each task, null: the policy rents none that tasks share."""

    policy: str
    machines: list[FleetMachine]
    usd_per_h: float
    no_packing_usd_per_h: float | None
    saving_usd_per_h: float | None
    moves: list[FleetMove] = []  # of jobs that are not over
    reconfiguration: FleetReconfiguration | None = None  # null: none, or all its jobs are over
    today_usd: float = 0.0  # all machines rented today (UTC), and this month
    month_usd: float = 0.0
    going: int = 0  # machines that the cloud is still being asked to take back
    no_more: str | None = None  # why nothing more is rented now: a limit of the operator's
    plans_at: float | None = None
    """The policy's next round; null: it does not plan in rounds, or there is nothing to plan."""


class GiveBackSpec(BaseModel):
    """Rented machines to give back."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, json_schema_extra={"examples": [{"machine": "c4-0"}, {"now": True}]}
    )

    machine: Label | None = Field(
        default=None,
        description="null: all of them, and nothing more is rented until the service starts again",
    )
    now: bool = Field(
        default=False, description="with what runs there, which is requeued; else once nothing runs there"
    )


class FleetStep(View):
    """One step of a plan: rent, release, start, migrate or preempt."""

    kind: str
    reason: str
    type: str | None = None  # of a machine to be rented
    machine: str | None = None
    job: int | None = None


class FleetPlanView(View):
    """The changes that the policy would make now; `at`: its next round, null: none is due before a job comes."""

    policy: str
    at: float | None
    steps: list[FleetStep]
    usd_per_h_change: float  # of the whole fleet once all is done
    moves_usd: float = 0.0  # what its moves cost once


class PageLink(View):
    """A link that signs a browser in once."""

    path: str  # below the service's URL


class Page(View, Generic[T]):
    """Some of many; `following` asks for the next ones (as `after`), null: there are no more."""

    items: list[T]
    following: int | None = None


class JobFilter(BaseModel):
    """Conditions on jobs; all hold at once."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    status: list[Status] = []  # none: any
    user: str | None = None
    name: str | None = None
    array_id: int | None = None
    label: dict[str, str] = {}
    search: str | None = None  # part of the name or user in any case, or the number
    after: int | None = None  # jobs are listed newest first; those with smaller numbers than this
    limit: int = 100
    spec: bool = False  # with what was submitted
    intervals: bool = False  # with the intervals of starts and ends, as of now


class Health(View):
    """Whether the service can take work."""

    ready: bool
    version: str
    uptime_s: float
    recovery_s: float
    replayed_events: int
    jobs_active: int
    last_event_id: int = 0  # the newest in the log
    archived_upto: int = 0  # the newest that is kept in a file only
    compiling: str | None = None  # the policy that is being compiled, in force or to be
    watches: Literal["slurm"] | None = None  # what decides in its place, and takes the jobs
    problems: list[str] = []  # "the disk is full: ..."
    notes: list[str] = []  # what is no problem, and good to know
    clock_ahead_s: float = 0.0
    """Of the machine's clock, which was put back; the service's own never goes back."""
