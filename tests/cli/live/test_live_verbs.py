"""The other verbs of the live service: logs, events, wait, cancel, hold, release, nodes, policy."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path

import pytest

from betimes.cli.main import main
from betimes.client.plain import PlainClient
from betimes.errors import Unavailable
from betimes.service.access.address import Address
from betimes.service.api.examples import CURVES, FLEET, FLEET_PLAN, PORTFOLIO, WHAT_IF
from betimes.service.executors.log_files import LocalLog
from betimes.service.machines.machine import Machine
from betimes.service.scheduling.job_states import Status
from betimes.service.views.maintenance import MAINTENANCE as WINDOWS
from betimes.service.views.models import (
    FleetView,
    GiveBackSpec,
    MaintenanceSpec,
    MaintenanceView,
    NodeSpec,
    NodeView,
    Page,
    PolicyView,
    Reason,
    RunView,
)
from tests.cli.conftest import Call, Tell
from tests.cli.views import NOW, event, job, node, story
from tests.service.serving import Background

MAINTENANCE = WINDOWS.example
IN_FORCE = PolicyView(policy="fifo", engine="pool", since_at=NOW - 3600.0)


SERVES = {"machines": (Machine("here", "virtual", "n", 4.0, 16.0, 0.0),)}


def submit(betimes: Call, *words: str) -> None:
    assert betimes("submit", *words, "--", "x").code == 0


def test_logs_are_copied_byte_by_byte(live: Background, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(("submit", "--", "x")) == 0
    capfdbinary.readouterr()
    live.it.log(1).write_bytes(b"one\nzwei \xc3\xbc\n\xff\x00 no newline")
    assert main(("logs", "1")) == 0
    assert capfdbinary.readouterr().out == b"one\nzwei \xc3\xbc\n\xff\x00 no newline"


def test_logs(betimes: Call, live: Background) -> None:
    submit(betimes)
    said = betimes("logs", "1")
    assert (said.code, said.out) == (0, "")
    live.it.log(1).write_text("one\nzwei ü\nthree")
    assert betimes("logs", "1", "--attempt", "1", "--tail", "2").out == "zwei ü\nthree"
    live.it.end_run(1)
    said = betimes("logs", "-f", "1", "--rank", "0")
    assert (said.code, said.out, said.err) == (0, "one\nzwei ü\nthree", "")
    live.it.log(1).write_bytes(b"one\n\xff\x00")
    answer = {"job_id": 1, "attempt": None, "log": "one\n\ufffd\x00", "log_lost_bytes": 0}
    assert betimes("logs", "1", "--json").json() == answer
    assert betimes("logs", "1", "--attempt", "2").code == betimes("logs", "1", "--rank", "1").code == 2


def test_output_that_is_not_kept_is_mentioned_beside_what_is(
    betimes: Call, tell: Tell, tmp_path: Path
) -> None:
    (tmp_path / "log").write_text("one\ntwo\n")
    lost = RunView(number=1, units=1, places=[], started_at=NOW, ran_s=0.0, log_lost_bytes=67_108_864)
    runs = [lost, lost.model_copy(update={"number": 2, "log_lost_bytes": 3})]

    def opened(_number: int, _attempt: int | None, _rank: int, tail: int | None) -> LocalLog:
        return LocalLog(tmp_path / "log", tail)

    tell(job=story(job(status=Status.RUNNING, attempt=2), runs=runs), open_log=opened, curves=CURVES)
    said = betimes("logs", "41", "--attempt", "1")
    assert said.out == "one\ntwo\n"
    note = "67,108,864 bytes of its output are not kept; `betimes job 41` shows why"
    assert said.err == f"betimes: note: {note}\n"
    assert betimes("logs", "41", "--json").json()["log_lost_bytes"] == 3
    assert betimes("logs", "41", "--tail", "5").err == ""
    assert "67,108,864 bytes of its output are not kept" in betimes("job", "41").out
    tell.asked.clear()
    betimes("logs", "41", "--attempt", "2", "--tail", "5", "--rank", "1")
    assert ("open_log", 41, 2, 1, 5) in tell.asked


@pytest.mark.usefixtures("live")
def test_the_newest_events(betimes: Call) -> None:
    submit(betimes, "--array", "1-150")
    everything = betimes("events", "--json", "--after", "0", "--limit", "9999").json()
    numbers = [each["event_id"] for each in everything]
    assert numbers == list(range(1, len(numbers) + 1))
    assert betimes("events", "--json").json() == everything[-100:]
    listed = betimes("events", "--json", "--after", "5", "--limit", "2").json()
    assert [each["event_id"] for each in listed] == [6, 7]
    of_first = [each for each in everything if each["job_id"] == 1]
    assert betimes("events", "--json", "--job", "1", "--limit", "2").json() == of_first[-2:]
    assert [
        each["kind"] for each in betimes("events", "--json", "--job", "1", "--kind", "started").json()
    ] == ["started"]


def test_events_for_people(betimes: Call, tell: Tell) -> None:
    tell.happens(event())
    lines = betimes("events").out.splitlines()
    assert lines[0].split() == ["Event", "At", "Job", "What", "Because", "of", "Details"]
    assert lines[2].split() == ["7", "07:59:00", "41", "started", "policy", "on", "here", "units=4"]
    data = {
        "places": [["a", 3], ["b", 1]],
        "spec": {"command": ["x"]},
        "reason": {"text": "waits"},
        "x": None,
    }
    tell.happens(event(data={**data, "at_s": 1.23456789, "adopted": False}))
    assert "on here places=a:3,b:1 waits at_s=1.23457 adopted=false" in betimes("events").out
    tell(events=Page(items=[]))
    assert betimes("events").out == "No such events found.\n"
    assert betimes("events", "--json").json() == []


def test_a_belief_that_was_outrun_is_one_line(betimes: Call, tell: Tell) -> None:
    outran = event(
        7, kind="estimate-changed", data={"account": {"left_s": 4.0}, "basis": "doubled", "outran": True}
    )
    promise = {"basis": "doubled", "reason": None}
    again = event(8, kind="quoted", data={"quote": promise, "finish_at": NOW})
    first = event(9, kind="quoted", data={"quote": {**promise, "basis": "default"}, "finish_at": NOW})
    tell.happens(outran, again, first)
    shown = [line.split()[0] for line in betimes("events").out.splitlines()[2:]]
    assert shown == ["7", "9"]
    followed = betimes("events", "-f", "--after", "6", "--limit", "3").out
    assert [line.split()[0] for line in followed.splitlines()] == ["7", "9"]
    assert len(betimes("events", "--kind", "quoted").out.splitlines()) == 5
    assert len(betimes("events", "--json").json()) == 3


def test_following_events_an_object_a_line(betimes: Call, tell: Tell) -> None:
    tell.happens(*map(event, range(1, 31)))
    said = betimes("events", "-f", "--json", "--limit", "10")
    assert (said.code, said.err) == (0, "")
    assert [json.loads(line)["event_id"] for line in said.out.splitlines()] == list(range(21, 31))
    said = betimes("events", "-f", "--job", "41", "--after", "28", "--limit", "2")
    assert said.out.split()[:3] == ["29", "07:59:00", "job"]
    assert len(said.out.splitlines()) == 2


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(
    "words", [["x"], ["0"], ["-1"], ["45-41"], ["1-999999999"], ["41-"], ["1.5"], [""], ["41,,42"], []]
)
def test_ids_that_are_none(betimes: Call, words: list[str]) -> None:
    said = betimes("cancel", *words)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)


def test_jobs_are_named_by_ranges_and_names(betimes: Call, live: Background) -> None:
    for number, name in enumerate(("a-1", "b", "b"), 1):
        submit(betimes, "--name", name)
        live.it.log(number).write_text(f"of {number}\n")
        live.it.end_run(number)
    assert [each["job_id"] for each in betimes("wait", "b", "1", "--json").json()] == [3, 1]
    assert betimes("job", "a-1", "--json").json()["job"]["job_id"] == 1
    assert [each["job"]["job_id"] for each in betimes("job", "1-2", "b", "--json").json()] == [1, 2, 3]
    assert betimes("logs", "a-1").out == "of 1\n"
    assert betimes("logs", "1,3").out == "==> job 1 <==\nof 1\n==> job 3 <==\nof 3\n"
    assert [each["job_id"] for each in betimes("logs", "1-2", "--json").json()] == [1, 2]
    assert betimes("wait", "none").code == 2


def test_waiting_for_several(betimes: Call, tell: Tell) -> None:
    done = {"status": Status.FINISHED, "finished_at": NOW - 60.0}
    known = {41: job(41, **done, promised_finish_at=NOW - 60.5), 42: job(42, **done)}
    tell(job=lambda number, **_: story(known[number]))
    said = betimes("wait", "41-42")
    assert (said.code, said.err) == (0, "")
    assert said.out == (
        "Job 41, train: finished at 07:59:00, as promised\nJob 42, train: finished at 07:59:00\n"
    )
    known[42] = job(42, status=Status.CANCELLED, finished_at=NOW)
    said = betimes("wait", "41", "42", "--json")
    assert said.code == 1
    assert [each["status"] for each in json.loads(said.out)] == ["finished", "cancelled"]
    assert said.err == "betimes: job 42 was cancelled; `betimes job 42` shows more\n"


@pytest.mark.usefixtures("live")
def test_waiting_has_an_end(betimes: Call) -> None:
    submit(betimes)
    said = betimes("wait", "1", "--timeout", "0.1s")
    assert (said.code, said.out) == (3, "")
    assert "job 1 is not over yet" in said.err
    assert betimes("wait", "1", "--timeout", "soon").code == 2


@pytest.mark.usefixtures("tell")
def test_an_interrupted_wait_is_said(betimes: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PlainClient, "wait", interrupted)
    said = betimes("wait", "41")
    assert (said.code, said.err) == (130, "betimes: interrupted\n")


@pytest.mark.parametrize("words", [["nodes"], ["nodes", "list"]])
def test_nodes(betimes: Call, tell: Tell, words: list[str]) -> None:
    tell(nodes=[node(), node("a100-1", kind="fake-cloud", gpu=8, free_gpu=2.5, usd_per_h=32.77)])
    lines = betimes(*words).out.splitlines()
    assert "6 of 8" in lines[2]
    assert "2.5 of 8" in lines[3]
    assert "32.77" in lines[3]
    assert betimes(*words, "--json").json()[1]["name"] == "a100-1"
    tell(nodes=[])
    assert "betimes nodes add" in betimes(*words).out


@pytest.fixture
def adding(tell: Tell) -> Tell:
    """Nodes can be added."""

    def added(spec: NodeSpec, _: str) -> list[NodeView]:
        kind = spec.kind or "virtual"
        return [node(f"{spec.type}-{n}", kind=kind, jobs=[]) for n in range(1, spec.count + 1)]

    tell(add_nodes=added)
    return tell


def test_nodes_are_added(betimes: Call, adding: Tell) -> None:
    words = ("a100", "--cpu", "96", "--memory", "1TiB", "--gpu", "8", "--count", "2", "--usd-per-h", "3.5")
    said = betimes("nodes", "add", *words, "--json")
    assert [each["name"] for each in said.json()] == ["a100-1", "a100-2"]
    wanted = NodeSpec(type="a100", count=2, cpu=96, memory_gib=1024, gpu=8, usd_per_h=3.5)
    assert adding.asked == [("add_nodes", wanted, "ada")]


def test_nodes_are_added_with_labels(betimes: Call, adding: Tell) -> None:
    words = ("nodes", "add", "a100", "--cpu", "96", "--memory", "1TiB", "--label", "zone=a")
    assert betimes(*words, "--label", "kind=fast").code == 0
    wanted = NodeSpec(type="a100", cpu=96, memory_gib=1024, labels={"zone": "a", "kind": "fast"})
    assert adding.asked == [("add_nodes", wanted, "ada")]
    said = betimes(*words, "--label", "zone=b")
    assert (said.code, said.err) == (
        2,
        "betimes: --label: expected one value of zone, found a and b; leave one out\n",
    )
    rented = betimes("nodes", "add", "a100", "--kind", "fake-cloud", "--label", "zone=b")
    assert rented.code == 2
    assert "leave out labels: the cloud knows" in rented.err


def test_labels_of_nodes_are_listed_where_there_are_any(betimes: Call, tell: Tell) -> None:
    tell(nodes=[node(), node("a100-1", labels={"zone": "a", "kind": "fast"})])
    lines = betimes("nodes", "--output", "wide").out.splitlines()
    assert "Labels" in lines[0]
    assert "zone=a, kind=fast" in lines[3]
    assert betimes("nodes", "--json").json()[1]["labels"] == {"zone": "a", "kind": "fast"}
    tell(nodes=[node()])
    assert "Labels" not in betimes("nodes").out


def test_what_was_added_is_said(betimes: Call, adding: Tell) -> None:
    words = ("nodes", "add", "big", "--cpu", "4", "--memory", "4GiB")
    first = "virtual: a job there only takes time, and its command is not executed."
    assert betimes(*words).out.splitlines()[0] == f"Node big-1 is {first}"
    assert betimes(*words, "--count", "3").out.splitlines()[0] == (
        "Nodes big-1 to big-3 are virtual: a job there only takes time, and its command is not executed."
    )
    rented = betimes("nodes", "add", "big", "--kind", "fake-cloud").out.splitlines()[0]
    assert rented.startswith("Node big-1 is rented from a made-up cloud: a job there only takes time")


def test_nodes_are_rented(betimes: Call, adding: Tell) -> None:
    assert betimes("nodes", "add", "a100", "--kind", "fake-cloud", "--count", "2").code == 0
    assert adding.asked == [("add_nodes", NodeSpec(kind="fake-cloud", type="a100", count=2), "ada")]


@pytest.mark.usefixtures("live")
def test_nodes_are_drained_and_used_again(betimes: Call) -> None:
    added = betimes("nodes", "add", "big", "--cpu", "4", "--memory", "8GiB", "--count", "2", "--json").json()
    assert [each["name"] for each in added] == ["big-0", "big-1"]
    assert betimes("nodes", "drain", "big-0", "big-1").out.count(" drained ") == 2
    assert [each["name"] for each in betimes("nodes", "--json").json()] == ["here", "big-0", "big-1"]
    assert betimes("nodes", "undrain", "big-1", "--json").json()[0]["status"] == "up"
    assert "bad fan (by ada)" in betimes("nodes", "drain", "here", "--reason", "bad fan").out


@pytest.mark.parametrize("words", [["policy"], ["policy", "show"]])
def test_policy(betimes: Call, tell: Tell, words: list[str]) -> None:
    tell(policy=IN_FORCE)
    assert betimes(*words).out == "fifo (on a pool), since 07:00, 60 min ago\n"
    assert betimes(*words, "--json").json()["policy"] == "fifo"


def test_another_policy(betimes: Call, tell: Tell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tell(set_policy=IN_FORCE)
    assert betimes("policy", "set", "wfq:zeta_min=0.9").code == 0
    assert betimes("policy", "set", "./mine.py:best:x=1", "--json").code == 0
    several = "nodes:portfolio:members=fifo+a/mine.py:best+/b.py:worst/x=1,period=2"
    assert betimes("policy", "set", several).code == 0
    assert [text for _, text, _ in tell.asked] == [
        "wfq:zeta_min=0.9",
        f"{tmp_path}/mine.py:best:x=1",
        f"nodes:portfolio:members=fifo+{tmp_path}/a/mine.py:best+/b.py:worst/x=1,period=2",
    ]


@pytest.mark.usefixtures("tell")
@pytest.mark.parametrize(
    "words",
    [
        *(["nodes", "add"], ["nodes", "add", "a"], ["nodes", "add", "a", "--cpu", "4"], ["nodes", "drain"]),
        ["nodes", "add", "a", "--cpu", "nan", "--memory", "4GiB"],
        ["nodes", "add", "a", "--cpu", "4", "--memory", "4GB"],
        ["nodes", "add", "a", "--kind", "fake-cloud", "--cpu", "4"],
        ["nodes", "add", "a", "--cpu", "4", "--memory", "4GiB", "--count", "0"],
        ["nodes", "add", "a", "--cpu", "4", "--memory", "4GiB", "--usd-per-h", "-1"],
        *(["nodes", "--json", "list"], ["nodes", "remove"], ["policy", "set"], ["policy", "--json", "show"]),
        *(["events", "--after", "-1"], ["events", "--job", "x"], ["logs"], ["logs", "1-2", "-f"]),
        *(["logs", "1", "--attempt", "0"], ["logs", "1", "--tail", "-1"], ["logs", "1", "-f", "--json"]),
    ],
    ids=" ".join,
)
def test_bad_input(betimes: Call, words: list[str]) -> None:
    said = betimes(*words)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)


VERBS: list[list[str]] = [
    *(
        ["submit", "--", "x"],
        ["quote", "--", "x"],
        ["jobs"],
        ["job", "41"],
        ["logs", "41"],
        ["logs", "-f", "41"],
    ),
    *(
        ["wait", "41"],
        ["cancel", "41"],
        ["hold", "41"],
        ["release", "41"],
        ["nodes"],
        ["nodes", "drain", "a"],
    ),
    *(["policy"], ["policy", "set", "fifo"], ["events", "--after", "0"], ["events", "-f", "--after", "0"]),
]


@pytest.mark.usefixtures("tell")
@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_a_token_that_allows_nothing_is_one_line(
    betimes: Call, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("BETIMES_TOKEN", "wrong")
    said = betimes(*words)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert "token" in said.err


def test_a_service_that_is_not_ready_is_one_line(
    betimes: Call, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("betimes.client.calls.Way.pauses", lambda *_: iter(()))
    tell(jobs=Unavailable("the disk is full; make room"))
    said = betimes("jobs")
    assert (said.code, said.out, said.err) == (1, "", "betimes: the disk is full; make room\n")


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_without_a_service_every_verb_says_how_to_start_one(
    betimes: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    for name in ("BETIMES_URL", "BETIMES_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BETIMES_STATE", str(tmp_path / "nothing"))
    said = betimes(*words)
    assert (said.code, said.out, said.err.count("\n")) == (4 if words[0] == "wait" else 1, "", 1)
    assert "`betimes up`" in said.err
    assert str(tmp_path) in said.err


def test_policy_says_why_its_last_decision_started_nobody(betimes: Call, tell: Tell) -> None:
    why = Reason(code="no-room", text="job 5 is next: needs 2 GPUs")
    tell(policy=IN_FORCE.model_copy(update={"idle": why}))
    assert "Its last decision started no job: job 5 is next: needs 2 GPUs\n" in betimes("policy").out
    assert betimes("policy", "show", "--json").json()["idle"]["code"] == "no-room"


def test_fleet(betimes: Call, tell: Tell) -> None:
    tell(fleet=FLEET, fleet_plan=FLEET_PLAN)
    found = betimes("fleet")
    assert "c4-0" in found.out
    assert "1 rented, $0.2 an hour; a machine for each task would be $0.3" in found.out
    assert "Job 5 moves: expected to save $0.1 an hour for $0.004" in found.out
    assert "moves jobs 3, 5; ends 2 machines, rents 1; expected to save $0.15 an hour as a whole" in found.out
    assert "by eva, for all jobs" in betimes("fleet", "-o", "wide").out
    assert "Spent: $0.5 today, $2.00 this month" in found.out
    planned = betimes("fleet", "plan")
    assert "migrate" in planned.out
    assert "$0.1 an hour less, for $0.004 that the moves cost; the next round is at" in planned.out
    assert betimes("fleet", "--json").json()["saving_usd_per_h"] == 0.1
    assert betimes("fleet", "plan", "--json").json()["steps"][1]["machine"] == "c2-0"
    fleet, plan = ("fleet",), ("fleet_plan",)
    assert tell.asked == [fleet, fleet, plan, fleet, plan]


def given_back(spec: GiveBackSpec, _: str) -> FleetView:
    return FLEET.model_copy(update={"machines": []}) if spec.now else FLEET


def test_rented_machines_are_given_back(betimes: Call, tell: Tell) -> None:
    tell(give_back=given_back)
    assert "c4-0" in betimes("fleet", "release", "c4-0").out
    assert "Nothing is rented" in betimes("fleet", "release", "c4-0", "--now").out
    assert betimes("fleet", "release", "c4-0", "--json").json()["usd_per_h"] == 0.2
    assert [spec.model_dump() for _, spec, _ in tell.asked] == [
        {"machine": "c4-0", "now": at_once} for at_once in (False, True, False)
    ]


def test_maintenance_is_announced_and_called_off(betimes: Call, tell: Tell) -> None:
    def announced(spec: MaintenanceSpec, user: str) -> MaintenanceView:
        return MaintenanceView(number=1, user=user, running=[12, 13], **spec.model_dump())

    tell(add_maintenance=announced, listed=[])
    tell(remove_maintenance=lambda number, _: MAINTENANCE.model_copy(update={"number": number}))
    said = betimes("maintenance", "add", "--from", "2096-11-27T18:00", "--to", "20:00", "--nodes", "a, b")
    assert said.out == (
        "Maintenance 1 of a, b from 27 Nov 2096 18:00 to 27 Nov 2096 20:00 is announced: only jobs that are over by "
        "then start there.\nJobs 12, 13 may still run there when it begins, and go on then; `betimes requeue` or "
        "`betimes cancel` ends a run.\n"
    )
    from_at = datetime(2096, 11, 27, 18).timestamp()
    asked = MaintenanceSpec(from_at=from_at, to_at=from_at + 7200.0, nodes=["a", "b"])
    assert tell.asked == [("add_maintenance", asked, "ada")]
    said = betimes("maintenance", "add", "--from", "18:00", "--to", "20:00", "--for", "bob, eve")
    assert "is announced: but for those of bob, eve only jobs that are over by then start there." in said.out
    said = betimes("maintenance", "add", "--from", "18:00", "--to", "20:00", "--stop")
    assert "Jobs 12, 13 may still run there when it begins, and are stopped then, and requeued.\n" in said.out
    assert "Maintenance 3 of here from" in betimes("maintenance", "remove", "3").out
    assert betimes("maintenance").out == (
        "No maintenance is announced; `betimes maintenance add` announces some.\n"
    )
    tell(listed=[MAINTENANCE])
    assert "disks" in betimes("maintenance", "list").out
    assert "For" not in betimes("maintenance", "list").out
    tell(listed=[MAINTENANCE, MAINTENANCE.model_copy(update={"users": ["bob", "eve"]})])
    assert re.search(r"Nodes +For .*\n(.*\n){2}.* bob, eve +", betimes("maintenance", "list").out)
    assert betimes("maintenance", "--json").json()[0]["running"] == [40]
    tell(nodes=[node("here", maintenance=MAINTENANCE)])
    assert "Maintenance" in betimes("nodes").out


def test_maintenance_can_be_tried(betimes: Call, tell: Tell) -> None:
    tell(what_if=WHAT_IF)
    betimes(
        "what-if", "--maintenance", "2096-11-27T18:00..20:00@a,b", "--maintenance", "2096-11-28..2096-11-29"
    )
    windows = tell.asked[0][1].maintenance
    hours = [(each.to_at - each.from_at) / 3600.0 for each in windows]
    assert (hours, [each.nodes for each in windows]) == ([2.0, 24.0], [["a", "b"], []])
    said = betimes("what-if", "--maintenance", "18:00")
    assert said.code == 2
    assert "--maintenance 18:00: write two times, as in 18:00..20:00 or" in said.err


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--from", "18:00"), "--to: missing; write a time such as +2h"),
        (("--from", "soon", "--to", "20:00"), "--from: 'soon' is not an instant; write +2h"),
        (("--from", "18:00", "--to", "20:00", "--nodes", ","), "--nodes ',': give names such as A,B"),
        (("--from", "18:00", "--to", "20:00", "--for", ","), "--for ',': give names such as A,B"),
    ],
)
def test_what_is_no_window_is_refused(betimes: Call, given: tuple[str, ...], message: str) -> None:
    said = betimes("maintenance", "add", *given)
    assert (said.code, said.out) == (2, "")
    assert message in said.err


def test_the_best_other_member_is_the_one_with_the_best_score(betimes: Call, tell: Tell) -> None:
    scores: dict[str, float | None] = {"fifo": 20.0, "easy": 30.0, "sjf": 10.0, "lost": None}
    selection = PORTFOLIO.selections[0].model_copy(update={"member": "sjf", "score": 10.0, "scores": scores})
    tell(portfolio=PORTFOLIO.model_copy(update={"selections": [selection]}))
    assert "easy 30" in betimes("portfolio").out
    smallest = selection.model_copy(update={"smallest_wins": True})
    tell(portfolio=PORTFOLIO.model_copy(update={"selections": [smallest]}))
    assert "fifo 20" in betimes("portfolio").out


def test_portfolio(betimes: Call, tell: Tell) -> None:
    tell(portfolio=PORTFOLIO)
    found = betimes("portfolio", "--last", "5")
    assert "odb/unicef/best decides, of portfolio:period=8" in found.out
    assert "oda/fifo/first 38.2" in found.out, "the best other"
    assert "1.6 (3)" in found.out, "of the jobs that have finished"
    tell(portfolio=PORTFOLIO.model_copy(update={"policy": "fifo", "selections": []}))
    assert "has selected nothing yet: it is no portfolio; `betimes policy set" in betimes("portfolio").out
    tell(portfolio=PORTFOLIO)
    assert betimes("portfolio", "--json").json()["selections"][0]["score"] == 41.5
    assert tell.asked == [("portfolio", 5), ("portfolio", 20), ("portfolio", 20)]


def test_what_was_given_back_at_the_end_and_what_it_has_cost_is_said(
    betimes: Call, tell: Tell, standing: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No process has this number.
    here = Address(standing.url, 2**22 + 1)
    monkeypatch.setattr("betimes.service.access.address.read_address", lambda _: here)
    tell(fleet=FLEET, give_back=given_back)
    first, *_ = betimes("down", "--release-all").out.splitlines()
    assert first == "Given back: c4-0 ($0.03); together $0.03. All machines of today: $0.5."
    assert ("give_back", GiveBackSpec(now=True), "ada") in tell.asked
