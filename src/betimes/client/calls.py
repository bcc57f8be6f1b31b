"""Every request that a client makes: what is sent, whether it may be sent twice, and what its answer is.

This module and those that carry requests out without httpx (`protocol`, `way`, `plain`, `synchronous`) import the
standard library alone: the command line has no time for more.
"""

from __future__ import annotations

import json
import os
from typing import IO, TYPE_CHECKING, NamedTuple, TypedDict
from urllib.parse import quote as quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from betimes.service.scheduling.job_states import Status

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


class Call(NamedTuple):
    """A request, and what its answer is: a model of the service by its name, `Page of ...`, or nothing but success.

    within: the field of the answer that holds a list of them. repeatable: doing it twice is as good as once. read_s:
    until the answer begins; None: for ever.
    """

    method: str
    path: str
    answer: str | None
    within: str = ""
    params: list[tuple[str, str]] = []  # noqa: RUF012 (never changed)
    body: bytes | IO[bytes] | None = None  # an archive is a file, from its beginning
    headers: dict[str, str] = {}  # noqa: RUF012 (never changed)
    repeatable: bool = True
    read_s: float | None = READ_S


def submit(spec: bytes, key: str | None) -> Call:
    """Submit a job, as JSON; the key makes sure that asking again does not submit it again."""
    return Call("POST", f"{API}/jobs", "Submitted", body=spec, headers=_key(key))


def submit_all(specs: Iterable[bytes], key: str | None) -> Call:
    """Submit all of several jobs, each as JSON, or none."""
    body = b'{"jobs":[%s]}' % b",".join(specs)
    return Call("POST", f"{API}/jobs", "Submitted", "jobs", body=body, headers=_key(key))


def quote(spec: bytes) -> Call:
    """Ask for a promise."""
    return Call("POST", f"{API}/quote", "Quote", body=spec)


def upload_limits() -> Call:
    """How large a directory may be that is sent."""
    return Call("GET", f"{API}/uploads", "UploadLimits")


def upload(sha256: str) -> Call:
    """Whether the service has a directory."""
    return Call("GET", f"{API}/uploads/{sha256}", "UploadView")


def send_upload(sha256: str, archive: IO[bytes]) -> Call:
    """Send a directory."""
    return Call("PUT", f"{API}/uploads/{sha256}", "UploadView", body=archive)


def jobs(conditions: Conditions) -> Call:
    """A page of the list of jobs."""
    told = dict(conditions)
    params = [("status", str(each)) for each in conditions.get("status", ())]
    params += [("label", f"{name}={value}") for name, value in conditions.get("label", {}).items()]
    params += [
        (name, str(value))
        for name, value in told.items()
        if name not in ("status", "label") and value is not None
    ]
    return Call("GET", f"{API}/jobs", "Page of JobView", params=params)


def job(number: int) -> Call:
    """A job's story."""
    return Call("GET", f"{API}/jobs/{int(number)}", "JobStory")


def wait(number: int, timeout_s: float) -> Call:
    """The job when it is over, or when the time is up."""
    params = [("timeout_s", f"{timeout_s:.3f}")]
    return Call("GET", f"{API}/jobs/{int(number)}/wait", "JobView", params=params, read_s=timeout_s + READ_S)


def steer(verb: str, number: int) -> Call:
    """Cancel, hold or release a job."""
    return Call("POST", f"{API}/jobs/{int(number)}/{verb}", "JobView", repeatable=False)


def steer_all(verb: str, numbers: Iterable[int], where_possible: bool) -> Call:
    """Cancel, hold or release all of several jobs, or none; or, where_possible, those to which it can be done."""
    more = b',"where_possible":true' if where_possible else b""
    body = b'{"jobs":[%s]%s}' % (b",".join(b"%d" % number for number in numbers), more)
    return Call("POST", f"{API}/jobs/{verb}", "JobView", "jobs", body=body, repeatable=False)


def log(number: int, attempt: int | None, follow: bool, tail: int | None, rank: int | None = None) -> Call:
    """A run's output, as a stream."""
    params = [("follow", str(follow).lower())]
    given = (("attempt", attempt), ("tail", tail), ("rank", rank))
    params += [(name, str(value)) for name, value in given if value is not None]
    # A run may be silent for as long as it likes.
    read_s = None if follow else READ_S
    return Call("GET", f"{API}/jobs/{int(number)}/log", None, params=params, read_s=read_s)


def nodes() -> Call:
    """Every node."""
    return Call("GET", f"{API}/nodes", "NodeView", "nodes")


def add_nodes(spec: bytes) -> Call:
    """Add nodes."""
    return Call("POST", f"{API}/nodes", "NodeView", "nodes", body=spec, repeatable=False)


def drain(name: str, back: bool = False) -> Call:
    """Drain a node, or use it again."""
    verb = "undrain" if back else "drain"
    return Call("POST", f"{API}/nodes/{quoted(name, safe='')}/{verb}", "NodeView", repeatable=False)


def heartbeat(name: str) -> Call:
    """Say that a node lives."""
    return Call("POST", f"{API}/nodes/{quoted(name, safe='')}/heartbeat", "Lease")


def policy() -> Call:
    """The policy in force."""
    return Call("GET", f"{API}/policy", "PolicyView")


def fleet() -> Call:
    """What is rented, and what it costs."""
    return Call("GET", f"{API}/fleet", "FleetView")


def fleet_plan() -> Call:
    """What the policy would change now."""
    return Call("GET", f"{API}/fleet/plan", "FleetPlanView")


def portfolio(last: int) -> Call:
    """What the portfolio has chosen."""
    return Call("GET", f"{API}/portfolio?last={last}", "PortfolioView")


def set_policy(text: str) -> Call:
    """Decide by another policy."""
    body = json.dumps({"policy": text}).encode()
    return Call("PUT", f"{API}/policy", "PolicyView", body=body, read_s=COMPILE_S)


def tune(spec: bytes) -> Call:
    """Begin a search."""
    return Call("POST", f"{API}/tune", "TuningView", body=spec, repeatable=False)


def tuning() -> Call:
    """How far it is, and the latest front."""
    return Call("GET", f"{API}/tune", "TuningView")


def stop_tuning() -> Call:
    """Let it end with the front so far."""
    return Call("DELETE", f"{API}/tune", "TuningView", repeatable=False)


def events(after: int, job: int | None, kinds: Sequence[str], limit: int = 1000) -> Call:
    """A page of the event log."""
    params = [("after", str(after)), ("limit", str(limit)), *_which(job, kinds)]
    return Call("GET", f"{API}/events", "Page of EventView", params=params)


def event_stream(after: int, job: int | None, kinds: Sequence[str]) -> Call:
    """Events past `after` as they happen, as a stream."""
    headers = {"Last-Event-ID": str(after), "Accept": "text/event-stream"}
    return Call("GET", f"{API}/events/stream", None, params=_which(job, kinds), headers=headers)


def health() -> Call:
    """Whether the service can take work."""
    return Call("GET", "/readyz", "Health")


def _which(job: int | None, kinds: Sequence[str]) -> list[tuple[str, str]]:
    return [("job", str(job))] * (job is not None) + [("kind", kind) for kind in kinds]


def _key(key: str | None) -> dict[str, str]:
    return {"Idempotency-Key": key if key is not None else os.urandom(16).hex()}
