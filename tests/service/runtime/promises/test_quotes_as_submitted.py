"""A job is quoted as it would be submitted: every field of a job file counts in a quote as it does in a submission."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from betimes.cluster import Cluster, NodeGroup
from betimes.errors import Refused
from betimes.foresight.past_errors import LEAST
from betimes.service.spec.job_spec import JobSpec
from betimes.testing import InMemoryService

T = TypeVar("T")

LONG = LEAST + 3  # the number of the job that runs
FIELDS: dict[str, dict[str, Any]] = {
    "command": {"command": ["other"]},
    "name": {"name": "known"},
    "workload": {"workload": "resnet18"},
    "workdir": {"workdir": "/tmp"},
    "env": {"env": {"A": "b"}},
    "conda": {"conda": "base"},
    "venv": {"venv": "/venv"},
    "image": {"image": "python:3.12"},
    "stdin": {"stdin": "1 2 3"},
    "output": {"output": "out"},
    "error": {"error": "err"},
    "cpu": {"cpu": 3.0},
    "memory_gib": {"memory_gib": 7.0},
    "gpu": {"gpu": 1.0},
    "demand": {"demand": {"n": {"cpu": 2.0}}},
    "min_units": {"min_units": 2, "max_units": 3},
    "max_units": {"max_units": 4},
    "units_per_task": {"max_units": 2, "units_per_task": "spread"},
    "curve": {"max_units": 4, "curve": "amdahl:0.5"},
    "qos": {"qos": "trial"},
    "rent": {"rent": "never"},
    "priority": {"priority": 7},
    "grace_s": {"grace_s": 1.0},
    "estimate_s": {"estimate_s": 55.0},
    "steps": {"steps": 10, "step_s": 7.0, "estimate_s": None},
    "step_s": {"steps": 20, "step_s": 7.0, "estimate_s": None},
    "time_limit_s": {"time_limit_s": 900.0},
    "warn_s": {"warn_s": 5.0, "time_limit_s": 900.0},
    "warn_signal": {"warn_signal": "TERM", "time_limit_s": 900.0},
    "checkpoint_dir": {"checkpoint_dir": "/checkpoints"},
    "array": {"array": "1-7%2"},
    "as_one": {"array": "1-7", "as_one": True},
    "after": {"after": [f"{LONG}"]},
    "begin_at": {"begin_at": 50_000.0},
    "singleton": {"name": "long", "singleton": True},
    "hold": {"hold": True},
    "retries": {"retries": 2},
    "backoff_s": {"retries": 2, "backoff_s": 1.0},
    "requeue": {"requeue": False},
    "notify": {"notify": "http://127.0.0.1:1/"},
    "mail_type": {"mail_type": ["END"]},
    "mail_user": {"mail_type": ["END"], "mail_user": "ann"},
    "labels": {"labels": {"project": "x"}},
    "resources": {"resources": {"licence": 1}},
    "require": {"require": {"zone": "b"}},
    "queue": {"queue": "short", "estimate_s": None},
}
QUEUE = {"name": "short", "default_time": "15m"}
ELSEWHERE = {"upload"}  # a quote sends no directory
ALL_OF_IT = (
    "policy", "start_at", "finish_at", "finish_low_at", "finish_median_at", "finish_high_at", "start_low_at",
    "start_median_at", "start_high_at", "level", "cost_usd", "run_s", "basis",
)  # fmt: skip


def test_the_table_has_every_field() -> None:
    assert {*FIELDS, *ELSEWHERE} == set(JobSpec.model_fields)


@pytest.fixture(scope="module", params=["pool", "nodes"])
def service(request: pytest.FixtureRequest) -> Iterator[InMemoryService]:
    """With a history; the only licence is taken, and one of the nodes."""
    machines = Cluster(
        "machines",
        (
            NodeGroup("a", 1, 1.0, 4.0, 8.0, labels=(("zone", "a"),), family="n", usd_per_h=1.0),
            NodeGroup("b", 1, 0.0, 4.0, 8.0, labels=(("zone", "b"),), family="m", usd_per_h=2.0),
        ),
    )
    is_pool = request.param == "pool"
    cluster, policy = (Cluster.pool(4), "fifo") if is_pool else (machines, "nodes:easy")
    with InMemoryService(cluster, policy=policy, resources={"licence": 1}, queues=[QUEUE]) as found:
        for _ in range(LEAST + 2):
            found.submit(command=["x"], workdir="/", estimate_s=100.0, work_s=30.0)
            found.finish()
        found.submit(command=["long"], max_units=3, estimate_s=5000.0, resources={"licence": 1})
        yield found


@pytest.mark.parametrize("field", sorted(FIELDS))
def test_a_quote_is_what_a_submission_is_promised(service: InMemoryService, field: str) -> None:
    fields = {"command": ["x"], "workdir": "/", "estimate_s": 100.0, **FIELDS[field]}
    spec = JobSpec(**{name: value for name, value in fields.items() if value is not None})
    asked, taken = answer(service.quote, spec), answer(service.submit, spec)
    if isinstance(taken, str) or isinstance(asked, str):
        assert asked == taken
        return
    service.cancel(taken.job_ids)
    promised = taken.quote
    if promised is None:
        assert (asked.start_at, asked.finish_at, asked.reason) == (None, None, taken.reason)
        return
    # Of an array a quote is of all of it, and the promise that of its last job to end.
    same = ("finish_at",) if spec.array and not spec.as_one else ALL_OF_IT
    for name in same:
        expected = getattr(promised, name)
        about = pytest.approx(expected, abs=1e-3) if isinstance(expected, float) else expected
        assert (name, getattr(asked, name)) == (name, about)
    if same == ALL_OF_IT:
        assert asked.reason == promised.reason


def answer(ask: Callable[[JobSpec], T], spec: JobSpec) -> T | str:
    """Or the words in which it is refused."""
    try:
        return ask(spec)
    except Refused as error:
        return str(error)


@pytest.mark.parametrize(
    ("policy", "noted"),
    [
        ("portfolio:members=widest+fifo", True),
        ("portfolio:members=widest+fifo,shadow=true", False),
        ("fifo", False),
    ],
)
def test_a_promise_names_the_member_that_it_is_made_under(policy: str, noted: bool) -> None:
    """Where another may be selected later; a job without a promise has no such note."""
    with InMemoryService(
        Cluster("two", (NodeGroup("n", 1, 0.0, 2.0, 8.0),)), policy=f"nodes:{policy}"
    ) as service:
        submitted = service.submit(command=["a"], cpu=1.0, estimate_s=60.0)
        quoted = service.quote(command=["a"], cpu=1.0, estimate_s=60.0)
        for note in (submitted.note or "", quoted.note or ""):
            assert ("promised under widest, the member of the portfolio in force now" in note) == noted
        assert "promised under" not in (service.submit(command=["a"], cpu=1.0, hold=True).note or "")
