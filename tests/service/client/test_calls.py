"""The clients, blocking and not, ask the same and get the same."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from betimes import AsyncClient, JobSpec
from betimes.client.sse import EventReader
from betimes.errors import (
    BetimesError,
    Conflict,
    NotAllowed,
    Refused,
    ServiceError,
    Unavailable,
    Unknown,
)
from betimes.service.executors.virtual import DEFAULT_WORK_S, EXIT_CODE
from betimes.service.scheduling.job_states import Status
from betimes.service.startup.in_memory import DEFAULT_RUN_S
from betimes.service.views.models import EventView, NodeSpec, TuneSpec
from tests.service.client.both import TRUE, Both, events_in
from tests.service.serving import Background, Serving, until
from tests.service.tuning.fronts import front
from tests.service.tuning.living import Searches


def test_a_client_loads_nothing_of_the_server() -> None:
    program = (
        "import betimes, sys; betimes.Client; print([m for m in sys.modules if m in ('fastapi', 'numba')])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_jobs_are_submitted_and_listed(running: Background, call: Both) -> None:
    one = call("submit", JobSpec(command=["true"], labels={"team": "vision"}, estimate_s=60))
    assert (one.job_id, one.quote.finish_at - one.quote.start_at) == (1, 60)
    assert call("submit", command=["sleep", "1"], max_units=4).job_id == 2
    assert [each.job_id for each in call("submit", [TRUE, TRUE])] == [3, 4]
    first, second, *_ = [job.spec for job in running.it.jobs()]
    assert first is not None
    assert second is not None
    assert (first.workdir, second.max_units) == (str(Path.cwd()), 4)
    assert [job.job_id for job in call("jobs", limit=3).items] == [4, 3, 2]
    assert [job.job_id for job in call("jobs", label={"team": "vision"}).items] == [1]
    assert [job.job_id for job in call("iterate_jobs", limit=1)] == [4, 3, 2, 1]
    assert call("jobs", status=["finished", Status.FAILED], user="ada", name="x", array_id=3).items == []
    assert call("quote", TRUE).run_s == call("quote", command=["true"]).run_s == DEFAULT_RUN_S
    assert call("job", 2).spec.command == ["sleep", "1"]
    assert len(running.it.jobs()) == 4


def test_what_is_no_specification_is_refused_before_it_is_sent(running: Background, call: Both) -> None:
    for wrong, found in (("sleep 5", "str"), (["sleep", "5"], "str"), ({"command": ["true"]}, "dict")):
        said = f"give a JobSpec, or its fields as keyword arguments, instead of a {found}"
        with pytest.raises(Refused, match=said):
            call("submit", wrong)
    with pytest.raises(Refused, match="instead of a list"):
        call("quote", ["sleep", "5"])
    with pytest.raises(Refused, match="give a TuneSpec"):
        call("tune", {"seed": 5})
    with pytest.raises(Refused, match="name: give either a JobSpec or keyword arguments"):
        call("submit", [TRUE, TRUE], name="both")
    assert running.it.jobs() == []


def test_jobs_are_steered(running: Background, call: Both) -> None:
    call("submit", [JobSpec(command=["true"], cpu=4), TRUE, TRUE, TRUE])
    assert call("hold", 2).status == "held"
    assert call("release", 2).status == "queued"
    assert call("suspend", 1).reason.code == "suspended"
    assert call("resume", 1).reason is None
    assert [job.job_id for job in call("signal", 1, "sigusr1", to="command")] == [1]
    (sent,) = call("events", kinds=["signalled"])
    assert (sent.job_id, sent.data["signal"], sent.data["to"]) == (1, "USR1", "command")
    with pytest.raises(Refused, match="no signal"):
        call("signal", 1, "USR9")
    assert call("requeue", 1).status == "stopping"
    assert call("edit", 2, name="other", labels={"team": "a"}).labels == {"team": "a"}
    assert [job.name for job in call("edit", [2, 3], name="third")] == ["third"] * 2
    assert [job.status for job in call("cancel", [2, 3])] == ["cancelled"] * 2
    assert call("cancel", [2, 3], where_possible=True) == []
    assert call("edit", [2, 3], where_possible=True, name="x") == []
    assert [job.job_id for job in call("hold", [1, 2, 3, 4], where_possible=True)] == [4]


def test_the_cluster_is_run(running: Background, call: Both) -> None:
    added = call("add_nodes", NodeSpec(type="big /1", count=2, cpu=4, memory_gib=8))
    assert [node.name for node in added] == ["big /1-0", "big /1-1"]
    assert len(call("nodes")) == 3
    assert call("drain", "here").status == "drained"
    assert call("undrain", "here").status == "up"
    assert call("heartbeat", "here").lease_s == 30.0
    assert call("set_policy", "srsf").policy == call("policy").policy == "srsf"


def test_users_are_added_and_changed(running: Background, call: Both) -> None:
    assert call("add_user", "ada", weight=2.0, limits={"max_units": 8}).limits.max_units == 8
    assert call("change_user", "ada", limits={"max_units": None}).limits.max_units is None
    assert [(user.name, user.weight) for user in call("users")] == [("ada", 2.0)]
    with pytest.raises(Conflict):
        call("add_user", "ada")


def test_a_front_is_searched_for(running: Background, call: Both) -> None:
    searches = running.it.assembly.tuner.search = Searches()
    with pytest.raises(Conflict, match="no search is going on"):
        call("stop_tuning")
    call("submit", [JobSpec(command=["true"], estimate_s=seconds) for seconds in (10, 20, 30)])
    running.it.pass_time(60.0)
    search = call("tune", objectives=["jct:avg", "pred_err:p99"], evaluations=50, seed=4).search
    assert (search.spec.objectives, search.spec.seed, search.of) == (["jct:avg", "pred_err:p99"], 4, 50)
    assert not call("tuning").search.stopping
    assert call("stop_tuning").search.stopping
    running.it.do(searches.end(front()))
    running.it.do(until(lambda: running.it.assembly.tuner.going is None))
    found = call("tuning")
    assert (found.search, found.front, found.in_force.policy) == (None, front(), "fifo")
    assert call("set_policy", "front:1").policy == found.front.named("PCS-balanced").policy
    with pytest.raises(Refused, match=r"objectives: .*write METRIC:MEASURE"):
        call("tune", objectives=["jct"])
    with pytest.raises(Refused, match="jobs: "):
        call("tune", jobs=1)
    with pytest.raises(Refused, match="either a TuneSpec or keyword arguments"):
        call("tune", TuneSpec(), jobs=5)
    assert call("tune", TuneSpec(seed=5)).search.spec.seed == 5


def test_health_is_told_well_or_not(running: Background, call: Both) -> None:
    assert call("health").ready
    running.it.assembly.controller.problem = "the disk is full"
    assert call("health").problems == ["the disk is full"]
    running.it.do(running.it.assembly.controller.stop())
    with pytest.raises(Unavailable, match="the service is stopping"):
        call("submit", TRUE)


@pytest.mark.parametrize(
    ("kind", "words", "ask"),
    [
        (
            Refused,
            "The largest machine here has 4 cores",
            lambda call: call("submit", command=["true"], cpu=100),
        ),
        (Refused, "gpu: ", lambda call: call("submit", command=["true"], gpu=-1)),
        (Refused, "limit: ", lambda call: call("jobs", limit=0)),
        (Refused, "policy: ", lambda call: call("set_policy", "magic")),
        (Unknown, "there is no job 9", lambda call: call("job", 9)),
        (Unknown, "there is no job 9", lambda call: call("wait", 9)),
        (Unknown, "there is no job 9", lambda call: call("logs", 9)),
        (Unknown, "there is no node", lambda call: call("drain", "there/else")),
        (
            Conflict,
            "job 1 is stopping and cannot be held",
            lambda call: (call("submit", TRUE), call("cancel", 1), call("hold", 1)),
        ),
        (
            Conflict,
            "the key 'k' was used for other jobs",
            lambda call: (call("submit", TRUE, key="k"), call("submit", [TRUE] * 2, key="k")),
        ),
        (Refused, "Last-Event-ID: ", lambda call: call("events", -1, follow=True)),
    ],
)
def test_errors_are_those_of_the_service(
    running: Background, call: Both, kind: type[BetimesError], words: str, ask: Callable[[Both], object]
) -> None:
    with pytest.raises(kind, match=words) as caught:
        ask(call)
    assert type(caught.value) is kind
    if isinstance(caught.value, Refused) and caught.value.field:
        assert str(caught.value).count(f"{caught.value.field}: ") == 1


def test_a_wrong_or_missing_token(running: Background, call: Both) -> None:
    for options in (
        {"url": running.url, "token": "wrong"},
        {"url": running.url, "state": running.state.parent},
    ):
        with pytest.raises(NotAllowed, match="token"):
            Both(call.kind, **options)("jobs")


def test_a_specification_and_fields_do_not_go_together(call: Both) -> None:
    with pytest.raises(Refused, match="either"):
        call("submit", TRUE, cpu=2)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"error": 1}', b'{"items": 7}'])
@pytest.mark.parametrize("status", [200, 502])
def test_another_program_at_the_address(kind_of_client: str, body: bytes, status: int) -> None:
    def other(request: httpx.Request) -> httpx.Response:
        return httpx.Response(status, content=body)

    options = {"url": "http://127.0.0.1:1", "transport": httpx.MockTransport(other)}
    with pytest.raises(ServiceError, match=r"http://127\.0\.0\.1:1/api/v1/jobs.* answered"):
        Both(kind_of_client, **options)("jobs")


def test_waiting_for_a_job(running: Background, call: Both) -> None:
    call("submit", JobSpec(command=["true"], env={EXIT_CODE: "1"}))
    with pytest.raises(TimeoutError, match="job 1 is still running"):
        call("wait", 1, timeout=0.05)
    timer = threading.Timer(0.2, running.it.pass_time, [DEFAULT_WORK_S])
    timer.start()
    assert call("wait", 1).status == "failed"
    timer.join()


def test_logged_events_are_read_page_by_page(running: Background, call: Both) -> None:
    jobs = 600  # a page is of 1,000 events
    call("submit", [JobSpec(command=["true"], hold=True)] * jobs)
    events = call("events")
    assert [event.event_id for event in events] == list(range(1, len(events) + 1))
    assert [event.job_id for event in events if event.kind == "held"] == list(range(1, jobs + 1))
    some = call("events", len(events) - 100, kinds=["held"])
    assert {event.kind for event in some} == {"held"}
    assert min(event.event_id for event in some) > len(events) - 100
    assert [event.kind for event in call("events", job=7)] == ["submitted", "held"]


def test_logs(running: Background, call: Both) -> None:
    call("submit", TRUE)
    running.it.log(1).write_bytes(b"one\ntwo\xff\n")
    assert b"".join(call("logs", 1)) == b"one\ntwo\xff\n"
    assert b"".join(call("logs", 1, attempt=1, tail=1)) == b"two\xff\n"
    timer = threading.Timer(0.2, running.it.pass_time, [DEFAULT_WORK_S])
    timer.start()
    assert b"".join(call("logs", 1, follow=True)) == b"one\ntwo\xff\n"
    timer.join()


def test_answers_of_a_later_version_are_understood(kind_of_client: str) -> None:
    def later(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"policy": "x", "engine": "pool", "since_at": 1.0, "by": "ada"})

    options = {"url": "http://127.0.0.1:1", "transport": httpx.MockTransport(later)}
    assert Both(kind_of_client, **options)("policy").policy == "x"


def test_events_are_read_from_pieces_of_any_size() -> None:
    events = [EventView(event_id=n, at=0, kind="x", cause="y", data={"t": "a\nb"}) for n in (1, 2, 3)]
    wire = b": hello\nretry: 5\n\n" + b"".join(
        b"id: %d\r\ndata: %s\r\n\r\n" % (event.event_id, event.model_dump_json().encode()) for event in events
    )
    wire += b": alive\nid: 9\n\n" + b"data: {}\n"
    for size in (1, 2, 7, len(wire)):
        reader = EventReader()
        pieces = [wire[start : start + size] for start in range(0, len(wire), size)]
        assert [event for piece in pieces for event in events_in(reader, piece)] == events
        assert reader.last == 9
    reader = EventReader(2)
    assert events_in(reader, wire) == events[2:]
    with pytest.raises(ServiceError, match="does not understand"):
        events_in(EventReader(), b"data: {}\n\n")


def test_a_service_in_process_serves_an_async_client(tmp_path: Path) -> None:
    async def run() -> None:
        async with Serving(tmp_path) as it:
            transport = httpx.ASGITransport(it.app)
            async with AsyncClient("http://127.0.0.1", it.token, transport=transport) as client:
                assert (await client.submit(TRUE)).job_id == 1

    asyncio.run(run())
