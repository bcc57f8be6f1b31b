"""Bodies and errors of the API that are neither a job's specification nor a view."""

from __future__ import annotations

from collections.abc import Sequence
from signal import Signals
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from betimes.service.api.limits import (
    MOST_EVENT_NUMBER,
    MOST_JOB_NUMBER,
    MOST_PAGE,
    MOST_TAIL,
    MOST_WAIT_S,
)
from betimes.service.scheduling.events import Signalled
from betimes.service.scheduling.job_states import Status
from betimes.service.spec.job_changes import JobChanges
from betimes.service.spec.job_spec import WHOLE, JobSpec, in_schema
from betimes.service.spec.spelling import signal_name
from betimes.service.views.models import (
    By,
    JobFilter,
    JobView,
    NodeView,
    Submitted,
    TokenView,
    UserView,
    View,
)

JobNumber = Annotated[int, Field(ge=1, le=MOST_JOB_NUMBER), WHOLE]
EventNumber = Annotated[int, Field(ge=0, le=MOST_EVENT_NUMBER)]
Age = Annotated[float, Field(ge=0, le=1e10, allow_inf_nan=False)]
Word = Annotated[str, Field(min_length=1, max_length=200)]


_SIGNALS = f"^((SIG)?({'|'.join(each.name[3:] for each in Signals)})|[1-9]|[1-5][0-9]|6[0-4])$"


class Asked(BaseModel):
    """A model of a request."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class JobBatch(Asked):
    """Jobs to submit: all are taken, or none."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"jobs": [{"command": ["python", "train.py"]}, {"command": ["python", "test.py"]}]}]
        }
    )

    jobs: list[JobSpec] = Field(min_length=1)


class JobNumbers(Asked):
    """Jobs that something is to be done to: to all, or to none."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"jobs": [41, 42]}]})

    jobs: list[JobNumber] = Field(min_length=1, max_length=10_000)
    where_possible: bool = Field(
        default=False,
        description="leave out those to which it cannot be done as they are now, instead of refusing all; "
        "the answer has the others",
    )


class JobEdits(JobNumbers):
    """Jobs that are to be changed, all or none, and how."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"jobs": [41, 42], "changes": {"time_limit_s": 7200, "priority": 3}}]}
    )

    changes: JobChanges


class JobSignals(JobNumbers):
    """Jobs to whose runs a signal is sent, all or none: what becomes of a job is what its run does with it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"jobs": [41], "signal": "USR1"}]})

    signal: Annotated[str, AfterValidator(signal_name), in_schema(pattern=_SIGNALS)]
    to: Signalled = Field(
        default="steps",
        description="steps: the tasks that `srun` has started, or without any the processes that handle the signal; "
        "command: the first process alone; all: each process",
    )


class ProgressReport(Asked):
    """The progress of a run, in any unit."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"done": 100, "total": 300}]})

    done: float = Field(ge=0, allow_inf_nan=False)
    total: float = Field(gt=0, allow_inf_nan=False)
    attempt: Annotated[int, Field(ge=1, le=2**31 - 1), WHOLE] | None = None
    """BETIMES_ATTEMPT; the token's by default."""


class PolicyChoice(Asked):
    """The policy to decide by, as in `wfq:T=2.46,W=2.25`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"policy": "srsf"}, {"policy": "wfq:T=2.46,W=2.25"}, {"policy": "front:3"}]
        }
    )

    policy: str = Field(min_length=1, max_length=65_536)


class JobQuery(Asked):
    """Conditions on the jobs to list; all hold at once."""

    status: list[Status] = []
    user: Word | None = None
    name: Word | None = None
    array_id: JobNumber | None = None
    label: list[Annotated[str, Field(min_length=2, max_length=65_536), in_schema(pattern="^[^=]+=")]] = Field(
        default=[], max_length=100, description="NAME=VALUE"
    )
    after: JobNumber | None = Field(default=None, description="jobs before this one: a page's `following`")
    limit: Annotated[int, Field(ge=1, le=MOST_PAGE)] = 100
    spec: bool = Field(default=False, description="with what was submitted, of jobs that the caller may read")
    intervals: bool = Field(default=False, description="with the intervals of starts and ends, as of now")

    @field_validator("label")
    @classmethod
    def _pairs(cls, label: list[str]) -> list[str]:
        for one in label:
            if not one.partition("=")[0] or "=" not in one:
                raise ValueError(f"{one!r}: write a label as NAME=VALUE")
        return label

    def which(self) -> JobFilter:
        """The same, as the controller takes it."""
        pairs = (one.partition("=") for one in self.label)
        given = self.model_dump(exclude={"label"})
        return JobFilter(**given, label={name: value for name, _, value in pairs})


class AccuracyQuery(Asked):
    """The promises to judge: those of jobs that finished in a period."""

    since_s: Age | None = Field(default=None, description="from so many seconds ago; null: from the first")
    until_s: Age = Field(default=0.0, description="until so many seconds ago")
    by: By | None = Field(default=None, description="figures of groups, too")
    promises: bool = Field(default=False, description="list the promises, too")


class UsageQuery(Asked):
    """A period, and groups, of figures of use."""

    since_s: Age | None = Field(default=None, description="from so many seconds ago; null: from the first")
    until_s: Age = Field(default=0.0, description="until so many seconds ago")
    by: Literal["user", "group", "name", "label", "account"] | None = Field(
        default=None, description="figures of groups, too"
    )


class HelpsQuery(Asked):
    """The processor time that the tries may take, s."""

    within_s: float = Field(default=2.0, gt=0, le=30, allow_inf_nan=False)


class WaitQuery(Asked):
    """The longest wait for a job, s."""

    timeout_s: float = Field(default=30.0, ge=0, le=MOST_WAIT_S, allow_inf_nan=False)


class RunQuery(Asked):
    """The run that is meant."""

    attempt: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = Field(
        default=None, description="of a run; the latest by default"
    )
    rank: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(
        default=0, description="of a run on several nodes of a cluster: which of them"
    )


class LogQuery(RunQuery):
    """The part of a job's output to return."""

    follow: bool = Field(default=False, description="go on until the run is over")
    tail: Annotated[int, Field(ge=0, le=MOST_TAIL)] | None = Field(
        default=None, description="only so many lines of what is there"
    )


class TokenQuery(Asked):
    """Conditions on the tokens to list."""

    user: Word | None = Field(default=None, description="of this user; null: of all")


class EventQuery(Asked):
    """Conditions on events; only those past `after` are returned."""

    after: EventNumber = Field(
        default=0, description="events past this one; 0: the oldest that are not archived"
    )
    limit: Annotated[int, Field(ge=1, le=MOST_PAGE)] = Field(
        default=100, description="of a page; streams have no end"
    )
    job: JobNumber | None = None
    kind: Annotated[list[Word], Field(max_length=100)] = []
    by: Word | None = Field(
        default=None, description="what this user brought about: the events of the cause user:NAME"
    )


class SubmittedBatch(View):
    """Answers for the jobs of a batch, in its order."""

    jobs: list[Submitted]


class JobList(View):
    """Jobs, in the order in which they were asked for."""

    jobs: list[JobView]


class NodeList(View):
    """Nodes."""

    nodes: list[NodeView]


class UserList(View):
    """Users, by name."""

    users: list[UserView]


class TokenList(View):
    """Tokens of users."""

    tokens: list[TokenView]


class Alive(View):
    """The process answers."""

    status: Literal["alive"] = "alive"


class Fault(View):
    """One thing that is wrong with a request."""

    field: str | None
    message: str


class Failure(View):
    """A code for programs, a message for people, and the faults of the request."""

    code: str  # refused, bad-json, too-large, unknown, conflict, not-allowed, unavailable, ... : for programs
    message: str  # names the object, its state and the next step
    field: str | None = None  # of the request, where one is at fault: jobs[3].cpu
    details: Sequence[Fault] = ()  # all that is wrong, where it is more than one thing


class ErrorBody(View):
    """The body of every answer that is not a success."""

    error: Failure
