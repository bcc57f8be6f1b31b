"""Every request that a client makes: what is sent, whether it may be sent twice, and what its answer is."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Generic, TypedDict, TypeVar
from urllib.parse import quote as quoted

import httpx
from pydantic import BaseModel, ValidationError

from betimes.client import decode
from betimes.errors import Refused
from betimes.service.spec.job_spec import JobSpec
from betimes.service.spec.spec_errors import faults
from betimes.service.views.models import (
    EventView,
    FleetPlanView,
    FleetView,
    Health,
    JobStory,
    JobView,
    Lease,
    NodeSpec,
    NodeView,
    Page,
    PolicyView,
    PortfolioView,
    Quote,
    Status,
    Submitted,
    TuneSpec,
    UploadLimits,
    UploadView,
)

if TYPE_CHECKING:
    from betimes.service.tuning.view import TuningView

T = TypeVar("T")
API = "/api/v1"
WAIT_S = 30.0  # of one request that waits
COMPILE_S = 900.0  # until another policy is in force: its engine may have to be compiled first
READ_S = 60.0  # until an answer begins; several times the pause between signs of life of a stream


class Conditions(TypedDict, total=False):
    """Which jobs: all that are given hold at once."""

    status: Sequence[Status | str]
    user: str
    name: str
    array_id: int
    label: Mapping[str, str]
    after: int
    limit: int


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request and how to understand its answer."""

    method: str
    path: str
    answer: Callable[[httpx.Response], T]
    params: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    body: bytes | IO[bytes] | None = None  # an archive is a file, from its beginning
    headers: dict[str, str] = field(default_factory=dict[str, str])
    repeatable: bool = True  # doing it twice is as good as once
    read_s: float | None = READ_S


class _Many(BaseModel):
    jobs: list[Any] = []
    nodes: list[NodeView] = []


class _ManySubmitted(_Many):
    jobs: list[Submitted] = []


class _ManyJobs(_Many):
    jobs: list[JobView] = []


_submitted = decode.answer_of(Submitted)
_batch = decode.answer_of(_ManySubmitted)
_quote = decode.answer_of(Quote)
_page_of_jobs = decode.answer_of(Page[JobView])
_page_of_events = decode.answer_of(Page[EventView])
_story = decode.answer_of(JobStory)
_job = decode.answer_of(JobView)
_jobs = decode.answer_of(_ManyJobs)
_node = decode.answer_of(NodeView)
_nodes = decode.answer_of(_Many)
_lease = decode.answer_of(Lease)
_upload = decode.answer_of(UploadView)
_upload_limits = decode.answer_of(UploadLimits)
_policy = decode.answer_of(PolicyView)
_fleet = decode.answer_of(FleetView)
_fleet_plan = decode.answer_of(FleetPlanView)
_portfolio = decode.answer_of(PortfolioView)


def spec_of(spec: JobSpec | None, fields: dict[str, Any]) -> JobSpec:
    """A job from a specification or from keyword arguments; its working directory is this one. Raises Refused."""
    if spec is not None and fields:
        raise Refused("give either a JobSpec or keyword arguments", next(iter(fields)))
    if spec is None:
        try:
            spec = JobSpec(**fields)
        except ValidationError as error:
            first, *others = faults(error)
            more = f" (and {len(others)} more)" if others else ""
            raise Refused(first.text + more, first.field or None) from None
    in_copy = spec.upload is not None
    return (
        spec if spec.workdir is not None or in_copy else spec.model_copy(update={"workdir": str(Path.cwd())})
    )


def tune_spec_of(spec: TuneSpec | None, fields: dict[str, Any]) -> TuneSpec:
    """A search from a specification or from keyword arguments. Raises Refused."""
    if spec is not None and fields:
        raise Refused("give either a TuneSpec or keyword arguments", next(iter(fields)))
    try:
        return spec if spec is not None else TuneSpec(**fields)
    except ValidationError as error:
        first = faults(error)[0]
        raise Refused(first.text, first.field or None) from None


def submit(spec: JobSpec, key: str | None) -> Call[Submitted]:
    """Submit a job; the key makes sure that asking again does not submit it again."""
    return Call("POST", f"{API}/jobs", _submitted, body=_dump(spec), headers=_key(key))


def submit_all(specs: Iterable[JobSpec], key: str | None) -> Call[list[Submitted]]:
    """Submit all of several jobs, or none."""
    body = b'{"jobs":[%s]}' % b",".join(_dump(spec_of(spec, {})) for spec in specs)
    return Call("POST", f"{API}/jobs", lambda it: _batch(it).jobs, body=body, headers=_key(key))


def quote(spec: JobSpec) -> Call[Quote]:
    """Ask for a promise."""
    return Call("POST", f"{API}/quote", _quote, body=_dump(spec))


def upload_limits() -> Call[UploadLimits]:
    """How large a directory may be that is sent."""
    return Call("GET", f"{API}/uploads", _upload_limits)


def upload(sha256: str) -> Call[UploadView]:
    """Whether the service has a directory."""
    return Call("GET", f"{API}/uploads/{sha256}", _upload)


def send_upload(sha256: str, archive: IO[bytes]) -> Call[UploadView]:
    """Send a directory."""
    return Call("PUT", f"{API}/uploads/{sha256}", _upload, body=archive)


def jobs(conditions: Conditions) -> Call[Page[JobView]]:
    """A page of the list of jobs."""
    told = dict(conditions)
    params = [("status", str(Status(each))) for each in conditions.get("status", ())]
    params += [("label", f"{name}={value}") for name, value in conditions.get("label", {}).items()]
    params += [
        (name, str(value))
        for name, value in told.items()
        if name not in ("status", "label") and value is not None
    ]
    return Call("GET", f"{API}/jobs", _page_of_jobs, params=params)


def job(number: int) -> Call[JobStory]:
    """A job's story."""
    return Call("GET", f"{API}/jobs/{int(number)}", _story)


def wait(number: int, timeout_s: float) -> Call[JobView]:
    """The job when it is over, or when the time is up."""
    params = [("timeout_s", f"{timeout_s:.3f}")]
    return Call("GET", f"{API}/jobs/{int(number)}/wait", _job, params=params, read_s=timeout_s + READ_S)


def steer(verb: str, number: int) -> Call[JobView]:
    """Cancel, hold or release a job."""
    return Call("POST", f"{API}/jobs/{int(number)}/{verb}", _job, repeatable=False)


def steer_all(verb: str, numbers: Iterable[int], where_possible: bool) -> Call[list[JobView]]:
    """Cancel, hold or release all of several jobs, or none; or, where_possible, those to which it can be done."""
    more = b',"where_possible":true' if where_possible else b""
    body = b'{"jobs":[%s]%s}' % (b",".join(b"%d" % number for number in numbers), more)
    return Call("POST", f"{API}/jobs/{verb}", lambda it: _jobs(it).jobs, body=body, repeatable=False)


def log(
    number: int, attempt: int | None, follow: bool, tail: int | None, rank: int | None = None
) -> Call[None]:
    """A run's output, as a stream."""
    params = [("follow", str(follow).lower())]
    given = (("attempt", attempt), ("tail", tail), ("rank", rank))
    params += [(name, str(value)) for name, value in given if value is not None]
    # A run may be silent for as long as it likes.
    read_s = None if follow else READ_S
    return Call("GET", f"{API}/jobs/{int(number)}/log", decode.nothing, params=params, read_s=read_s)


def nodes() -> Call[list[NodeView]]:
    """Every node."""
    return Call("GET", f"{API}/nodes", lambda it: _nodes(it).nodes)


def add_nodes(spec: NodeSpec) -> Call[list[NodeView]]:
    """Add nodes."""
    return Call("POST", f"{API}/nodes", lambda it: _nodes(it).nodes, body=_dump(spec), repeatable=False)


def drain(name: str, back: bool = False) -> Call[NodeView]:
    """Drain a node, or use it again."""
    verb = "undrain" if back else "drain"
    return Call("POST", f"{API}/nodes/{quoted(name, safe='')}/{verb}", _node, repeatable=False)


def heartbeat(name: str) -> Call[Lease]:
    """Say that a node lives."""
    return Call("POST", f"{API}/nodes/{quoted(name, safe='')}/heartbeat", _lease)


def policy() -> Call[PolicyView]:
    """The policy in force."""
    return Call("GET", f"{API}/policy", _policy)


def fleet() -> Call[FleetView]:
    """What is rented, and what it costs."""
    return Call("GET", f"{API}/fleet", _fleet)


def fleet_plan() -> Call[FleetPlanView]:
    """What the policy would change now."""
    return Call("GET", f"{API}/fleet/plan", _fleet_plan)


def portfolio(last: int) -> Call[PortfolioView]:
    """What the portfolio has chosen."""
    return Call("GET", f"{API}/portfolio?last={last}", _portfolio)


def set_policy(text: str) -> Call[PolicyView]:
    """Decide by another policy."""
    body = _Choice(policy=text).model_dump_json().encode()
    return Call("PUT", f"{API}/policy", _policy, body=body, read_s=COMPILE_S)


@cache
def _tuning() -> Callable[[httpx.Response], TuningView]:
    """A front's model needs most of Betimes, which no other call does."""
    from betimes.service.tuning.view import TuningView

    return decode.answer_of(TuningView)


def tune(spec: TuneSpec) -> Call[TuningView]:
    """Begin a search."""
    return Call("POST", f"{API}/tune", _tuning(), body=_dump(spec), repeatable=False)


def tuning() -> Call[TuningView]:
    """How far it is, and the latest front."""
    return Call("GET", f"{API}/tune", _tuning())


def stop_tuning() -> Call[TuningView]:
    """Let it end with the front so far."""
    return Call("DELETE", f"{API}/tune", _tuning(), repeatable=False)


def events(after: int, job: int | None, kinds: Sequence[str], limit: int = 1000) -> Call[Page[EventView]]:
    """A page of the event log."""
    params = [("after", str(after)), ("limit", str(limit)), *_which(job, kinds)]
    return Call("GET", f"{API}/events", _page_of_events, params=params)


def event_stream(after: int, job: int | None, kinds: Sequence[str]) -> Call[None]:
    """Events past `after` as they happen, as a stream."""
    headers = {"Last-Event-ID": str(after), "Accept": "text/event-stream"}
    return Call("GET", f"{API}/events/stream", decode.nothing, params=_which(job, kinds), headers=headers)


def health() -> Call[Health]:
    """Whether the service can take work."""
    return Call("GET", "/readyz", decode.health)


class _Choice(BaseModel):
    policy: str


def _which(job: int | None, kinds: Sequence[str]) -> list[tuple[str, str]]:
    return [("job", str(job))] * (job is not None) + [("kind", kind) for kind in kinds]


def _dump(model: BaseModel) -> bytes:
    return model.model_dump_json(exclude_defaults=True).encode()


def _key(key: str | None) -> dict[str, str]:
    return {"Idempotency-Key": key if key is not None else secrets.token_urlsafe(16)}
