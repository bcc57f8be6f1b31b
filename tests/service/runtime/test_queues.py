"""Queues: sets of nodes by their labels, with defaults and limits for the jobs that go there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as drawn

from betimes.cluster import Cluster, NodeGroup
from betimes.errors import Conflict, Refused
from betimes.service.spec.queues import Queue, parse_queues
from betimes.service.spec.tables import MOST_TABLES
from betimes.service.startup.config import ServiceConfig, read_settings
from betimes.service.views.models import Submitted
from betimes.testing import InMemoryService
from tests.service.spec.any_tables import any_tables

BATCH = {
    "name": "batch",
    "default": True,
    "require": {"tier": "batch"},
    "default_time": "10m",
    "max_time": "1h",
}
DEBUG = {
    "name": "debug",
    "require": ["tier=debug"],
    "max_time": 60,
    "max_cpu": 2,
    "users": ["tester"],
    "priority": 50,
}
NODES = Cluster(
    "two tiers",
    groups=(
        NodeGroup("big", 1, 0, 4, 16, labels=(("tier", "batch"),)),
        NodeGroup("small", 2, 0, 2, 8, labels=(("tier", "debug"),)),
    ),
)


def serving(*queues: Mapping[str, Any], user: str = "tester") -> InMemoryService:
    return InMemoryService(NODES, policy="easy", queues=queues, user=user)


def finish(submitted: Submitted) -> float | None:
    assert submitted.quote is not None
    return submitted.quote.finish_at


def test_a_debug_queue_is_always_free_and_each_job_gets_what_its_queue_has() -> None:
    with serving(BATCH, DEBUG) as service:
        first, second = (service.submit(command=["x"], cpu=4, estimate_s=500.0) for _ in range(2))
        assert finish(first) == 500.0
        assert finish(second) == 1000.0
        assert service.quote(command=["x"], cpu=2, queue="debug").finish_at == 60.0, (
            "its limit is all that is known"
        )
        quick = service.submit(command=["x"], cpu=2, estimate_s=20.0, queue="debug")
        assert finish(quick) == 20.0
        specs = [service.job(one.job_id).spec for one in (first, quick)]
        assert [
            (one.queue, one.labels, one.require, one.time_limit_s, one.priority) for one in specs if one
        ] == [
            ("batch", {"partition": "batch"}, {"tier": "batch"}, 600.0, 0),
            ("debug", {"partition": "debug"}, {"tier": "debug"}, 60.0, 50),
        ]
        batch, debug = service.queues()
        assert (batch.nodes, batch.running_jobs, batch.waiting_jobs, batch.time_limit_s) == (
            ["big-0"],
            1,
            1,
            600.0,
        )
        assert (debug.nodes, debug.running_jobs, debug.waiting_jobs, debug.time_limit_s) == (
            ["small-0", "small-1"],
            1,
            0,
            60.0,
        )
        service.finish()
        assert service.job(quick.job_id).job.finished_at == 20.0
        assert service.job(second.job_id).job.finished_at == 1000.0


def test_a_job_of_a_queue_is_as_one_that_asks_for_all_that_itself() -> None:
    asked: list[dict[str, Any]] = [
        {"cpu": 3, "estimate_s": 300.0},
        {"cpu": 2, "estimate_s": 50.0, "queue": "debug", "array": "1-3"},
        {"cpu": 2, "estimate_s": 30.0, "labels": {"partition": "debug"}},
        {"cpu": 1, "estimate_s": 100.0, "array": "1-2"},
    ]
    found: list[list[float | None]] = []
    for queues in ((BATCH, DEBUG), ()):
        with serving(*queues) as service:
            for each in asked:
                if not queues:
                    is_debug = "queue" in each or "labels" in each
                    own = {name: value for name, value in each.items() if name != "queue"}
                    tier = "debug" if is_debug else "batch"
                    limits = {"time_limit_s": 60.0, "priority": 50} if is_debug else {"time_limit_s": 600.0}
                    each = {**own, "require": {"tier": tier}, **limits}  # noqa: PLW2901
                service.submit(command=["x"], **each)
            promised = [job.promised_finish_at for job in service.jobs().items]
            service.finish()
            found.append([*promised, *(job.finished_at for job in service.jobs().items)])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"queue": "long"}, "queue: there is no queue 'long'; the queues are batch, debug"),
        ({"labels": {"partition": "long"}}, "queue: there is no queue 'long'; the queues are batch, debug"),
        (
            {"queue": "debug", "time_limit_s": 61.0},
            "time_limit_s: jobs of queue debug may run for 60 s at most",
        ),
        (
            {"queue": "debug", "cpu": 1.5, "max_units": 2},
            "cpu: a job of queue debug may have 2 cores at most, and this one asks for 3",
        ),
        ({"queue": "debug", "priority": 51}, "priority: jobs of queue debug may have priority 50 at most"),
        (
            {"queue": "debug", "require": {"tier": "batch"}},
            "require: the nodes of queue debug have tier=debug; require another, or leave it out",
        ),
    ],
)
def test_what_a_queue_does_not_take_is_refused_however_it_is_asked(asked: dict[str, Any], said: str) -> None:
    with serving(BATCH, DEBUG) as service:
        for ask in (
            lambda: service.submit(command=["x"], **asked),
            lambda: service.quote(command=["x"], **asked),
            lambda: service.what_if(submit=[{"command": ["x"], **asked}]),
        ):
            with pytest.raises(Refused) as refused:
                ask()
            assert str(refused.value).removeprefix("jobs[0].") == said
        assert service.jobs().items == []


def test_one_core_is_named_as_one() -> None:
    said = "may have 1 core at most, and this one asks for 2"
    with serving(BATCH, {**DEBUG, "max_cpu": 1}) as service, pytest.raises(Refused, match=said):
        service.submit(command=["x"], queue="debug", cpu=2.0)


def test_a_queue_is_for_those_whom_it_names_and_a_service_without_queues_has_none() -> None:
    with serving(BATCH, DEBUG, user="eve") as service:
        with pytest.raises(Refused, match="queue debug is not for eve"):
            service.submit(command=["x"], queue="debug")
        assert service.submit(command=["x"]).quote is not None
    with serving() as service:
        with pytest.raises(Refused, match="there is no queue 'debug'; this service has no queues"):
            service.submit(command=["x"], queue="debug")
        job = service.submit(command=["x"], labels={"partition": "long"}).job_id
        assert service.job(job).job.labels == {"partition": "long"}, "as before there were queues"


def test_users_have_defaults_and_limits_of_time_and_arrays_beside_those_of_queues() -> None:
    with serving({**BATCH, "max_array": 5}, DEBUG) as service:
        service.add_user("tester", limits={"default_time_s": 300.0, "max_time_s": 900.0, "max_array": 3})
        longest = service.submit(command=["x"], array="1-3", time_limit_s=900.0)
        usual = service.submit(command=["x"])
        quick = service.submit(command=["x"], queue="debug")
        limits = [service.job(one.job_id).spec for one in (longest, usual, quick)]
        assert [spec.time_limit_s for spec in limits if spec] == [900.0, 300.0, 60.0], (
            "the shortest that is known"
        )
        refused: list[tuple[dict[str, Any], str]] = [
            ({"time_limit_s": 901.0}, "time_limit_s: jobs of tester may run for 15 min at most"),
            ({"array": "1-4"}, "array: arrays of tester may have 3 elements at most, and this one has 4"),
            (
                {"array": "1-6"},
                "array: arrays of queue batch may have 5 elements at most, and this one has 6",
            ),
        ]
        for asked, said in refused:
            with pytest.raises(Refused, match=f"^{re.escape(said)}"):
                service.submit(command=["x"], **asked)
        with pytest.raises(Refused, match="jobs of tester may run for 15 min at most"):
            service.edit([usual.job_id], time_limit_s=1000.0)
        service.change_user("tester", limits={"max_time_s": None})
        service.edit([usual.job_id], time_limit_s=1000.0)
    with serving() as service:
        service.add_user("tester", limits={"max_time_s": 900.0})
        job = service.submit(command=["x"]).job_id
        spec = service.job(job).spec
        assert spec is not None
        assert spec.time_limit_s == 900.0, "without queues, too"


def test_changes_keep_to_the_queue_waiting_or_running() -> None:
    with serving(BATCH, DEBUG) as service:
        runs, _, waits = (service.submit(command=["x"], cpu=2, queue="debug").job_id for _ in range(3))
        for job in (runs, waits):
            with pytest.raises(Refused, match="may run for 60 s at most"):
                service.edit([job], time_limit_s=90.0)
            with pytest.raises(Refused, match="may have priority 50 at most"):
                service.edit([job], priority=70)
            with pytest.raises(Conflict, match="a job stays in its queue"):
                service.edit([job], labels={"partition": "batch"})
            service.edit([job], time_limit_s=50.0, priority=3, labels={"for": "me"})
        assert service.job(waits).job.labels == {"partition": "debug", "for": "me"}


def test_a_job_that_is_submitted_again_stays_as_it_is() -> None:
    with serving(BATCH, DEBUG) as service:
        job = service.submit(command=["x"], queue="debug", priority=-3).job_id
        spec = service.job(job).spec
        assert spec is not None
        again = service.submit(spec).job_id
        assert service.job(again).spec == spec


def test_tables_in_a_file_of_settings_and_in_one_of_their_own(tmp_path: Path) -> None:
    text = '[[queues]]\nname = "debug"\nrequire = ["tier=debug"]\nmax_time = "1h"\n'
    (tmp_path / "queues.toml").write_text(text)
    (tmp_path / "config.toml").write_text('policy = "nodes:fifo"\n' + text)
    (tmp_path / "other.toml").write_text('queues = "queues.toml"\n')
    wanted = (Queue(name="debug", require={"tier": "debug"}, max_time=3600.0),)
    for given in (
        read_settings({"state": str(tmp_path)}, None, {}),
        read_settings({"state": str(tmp_path)}, tmp_path / "other.toml", {}),
        read_settings({"queues": str(tmp_path / "queues.toml")}, tmp_path / "other.toml", {}),
    ):
        assert ServiceConfig(**{at: each.value for at, each in given.items()}).queues == wanted


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ([{}], "table 1: field name: missing"),
        ([{"name": "a b"}], "queue a b: field name"),
        ([{"name": "a", "longest": "1h"}], "queue a: field longest: "),
        ([{"name": "a", "max_time": "soon"}], "queue a: field max_time: "),
        (
            [{"name": "a", "max_time": "1h", "default_time": "2h"}],
            "queue a: default_time is more than max_time",
        ),
        ([{"name": "a"}, {"name": "a"}], "queue a: stands twice; leave one of them out"),
        (
            [{"name": "a", "default": True}, {"name": "b", "default": True}],
            "queues a and b: only one of them",
        ),
        ("/nowhere/queues.toml", "/nowhere/queues.toml: cannot be read: No such file"),
        ([{"name": str(at)} for at in range(MOST_TABLES + 1)], "give at most 100 tables"),
    ],
)
def test_a_table_that_cannot_be_is_named(tables: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        parse_queues(tables)


@drawn(any_tables(Queue))
def test_any_tables_are_queues_or_refused(tables: Any) -> None:
    try:
        found = parse_queues(tables)
    except ValueError:
        return
    assert all(queue.max_time_s is None or queue.max_time_s > 0 for queue in found)
