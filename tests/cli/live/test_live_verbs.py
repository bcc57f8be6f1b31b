"""The other verbs of the live service: logs, events, wait, cancel, hold, release, nodes, policy."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from betimes.cli.main import main
from betimes.errors import NotAllowed, NotReachable, Unavailable
from betimes.service.access.address import Address, Found
from betimes.service.api.examples import MAINTENANCE, PORTFOLIO
from betimes.service.scheduling.job_states import Status
from betimes.service.views.models import JobView, NodeSpec, Reason, RunView
from tests.cli.conftest import Call
from tests.cli.stand_in import NOW, Service, event, job, node, ran


def test_logs_are_copied_byte_by_byte(service: Service, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    service.printed = [b"one\n", "zwei ü\n", b"\xff\x00 no newline"]
    assert main(("logs", "41")) == 0
    assert capfdbinary.readouterr().out == b"one\nzwei \xc3\xbc\n\xff\x00 no newline"
    assert main(("logs", "41", "--attempt", "2", "--tail", "5", "--rank", "1")) == 0
    assert service.asked[-1] == ("logs", (41, 2, False, 5, 1))


def test_a_log_as_json(betimes: Call, service: Service) -> None:
    service.printed = ["zwei ü\n", b"\xff\x00 no newline"]
    answer = {"job_id": 41, "attempt": None, "log": "zwei ü\n\ufffd\x00 no newline", "log_lost_bytes": 0}
    assert betimes("logs", "41", "--json").json() == answer


def test_output_that_is_not_kept_is_mentioned_beside_what_is(betimes: Call, service: Service) -> None:
    lost = RunView(number=1, units=1, places=[], started_at=NOW, ran_s=0.0, log_lost_bytes=67_108_864)
    service.stories[41] = ran(lost, lost.model_copy(update={"number": 2, "log_lost_bytes": 3}))
    said = betimes("logs", "41", "--attempt", "1")
    assert said.out == "one\ntwo\n"
    note = "67,108,864 bytes of its output are not kept; `betimes job 41` shows why"
    assert said.err == f"betimes: note: {note}\n"
    assert betimes("logs", "41", "--json").json()["log_lost_bytes"] == 3
    assert betimes("logs", "41", "--tail", "5").err == ""
    assert "67,108,864 bytes of its output are not kept" in betimes("job", "41").out


def test_following_a_log_ends_with_it_or_quietly(betimes: Call, service: Service) -> None:
    said = betimes("logs", "-f", "41")
    assert (said.code, said.out, said.err) == (0, "one\ntwo\n", "")
    assert ("logs", (41, None, True, None, None)) in service.asked
    service.printed = [b"one\n", KeyboardInterrupt()]
    said = betimes("logs", "-f", "41")
    assert (said.code, said.out, said.err) == (130, "one\n", "")


def test_the_newest_events(betimes: Call, service: Service) -> None:
    service.log = [event(number) for number in range(1, 301)]
    listed = betimes("events", "--json").json()
    assert [each["event_id"] for each in listed] == list(range(201, 301))
    assert service.asked[-1] == ("events", (200, False, None, ()))
    listed = betimes("events", "--json", "--after", "5", "--limit", "2").json()
    assert [each["event_id"] for each in listed] == [6, 7]
    listed = betimes("events", "--json", "--job", "41", "--kind", "started", "--limit", "3").json()
    assert [each["event_id"] for each in listed] == [298, 299, 300]
    assert service.asked[-1] == ("events", (0, False, 41, ("started",)))


def test_events_for_people(betimes: Call, service: Service) -> None:
    lines = betimes("events").out.splitlines()
    assert lines[0].split() == ["Event", "At", "Job", "What", "Because", "of", "Details"]
    assert lines[2].split() == ["7", "07:59:00", "41", "started", "policy", "on", "here", "units=4"]
    data = {
        "places": [["a", 3], ["b", 1]],
        "spec": {"command": ["x"]},
        "reason": {"text": "waits"},
        "x": None,
    }
    service.log = [event(data={**data, "at_s": 1.23456789, "adopted": False})]
    assert "on here places=a:3,b:1 waits at_s=1.23457 adopted=false" in betimes("events").out
    service.log = []
    assert betimes("events").out == "No such events found.\n"
    assert betimes("events", "--json").json() == []


def test_a_belief_that_was_outrun_is_one_line(betimes: Call, service: Service) -> None:
    outran = event(
        7, kind="estimate-changed", data={"account": {"left_s": 4.0}, "basis": "doubled", "outran": True}
    )
    promise = {"basis": "doubled", "reason": None}
    again = event(8, kind="quoted", data={"quote": promise, "finish_at": NOW})
    first = event(9, kind="quoted", data={"quote": {**promise, "basis": "default"}, "finish_at": NOW})
    service.log = [outran, again, first]
    shown = [line.split()[0] for line in betimes("events").out.splitlines()[2:]]
    assert shown == ["7", "9"]
    assert [line.split()[0] for line in betimes("events", "-f").out.splitlines()] == ["7", "9"]
    assert len(betimes("events", "--kind", "quoted").out.splitlines()) == 5
    assert len(betimes("events", "--json").json()) == 3


def test_following_events_an_object_a_line_and_ends_quietly(betimes: Call, service: Service) -> None:
    service.log = [event(number) for number in range(1, 31)]
    said = betimes("events", "-f", "--json")
    assert (said.code, said.err) == (130, "")
    assert [json.loads(line)["event_id"] for line in said.out.splitlines()] == list(range(21, 31))
    said = betimes("events", "-f", "--job", "41", "--after", "28")
    assert said.out.split()[:3] == ["29", "07:59:00", "job"]
    assert len(said.out.splitlines()) == 2
    assert service.asked[-1] == ("events", (28, True, 41, ()))
    assert betimes("events", "-f", "--limit", "3").code == 0


@pytest.mark.parametrize("verb", ["cancel", "hold", "release"])
def test_several_jobs_and_ranges_of_them(betimes: Call, service: Service, verb: str) -> None:
    said = betimes(verb, "41-43", "50", "42,60")
    status = {"cancel": "cancelled", "hold": "held", "release": "queued"}[verb]
    assert said.out.splitlines()[0] == f"Job 41, train: {status}"
    assert service.asked == [(verb, [41, 42, 43, 50, 60])]
    assert [each["job_id"] for each in betimes(verb, "7", "--json").json()] == [7]


@pytest.mark.parametrize(
    "words", [["x"], ["0"], ["-1"], ["45-41"], ["1-999999999"], ["41-"], ["1.5"], [""], ["41,,42"], []]
)
def test_ids_that_are_none(betimes: Call, service: Service, words: list[str]) -> None:
    said = betimes("cancel", *words)
    assert (said.code, said.out, said.err.count("\n"), service.asked) == (2, "", 1, [])


def test_jobs_are_named_by_ranges_and_names(betimes: Call, service: Service) -> None:
    over = {"status": Status.FINISHED, "finished_at": NOW}
    service.known = [job(43, name="b", **over), job(42, name="b", **over), job(41, name="a-1", **over)]
    service.stories = {number: ran(job_id=number) for number in (41, 42, 43)}
    assert [each["job_id"] for each in betimes("wait", "b", "41", "--json").json()] == [43, 41]
    assert betimes("job", "a-1", "--json").json()["job"]["job_id"] == 41
    assert [each["job"]["job_id"] for each in betimes("job", "41-42", "b", "--json").json()] == [41, 42, 43]
    assert betimes("logs", "a-1").out == "one\ntwo\n"
    assert betimes("logs", "41,43").out == "==> job 41 <==\none\ntwo\n==> job 43 <==\none\ntwo\n"
    assert [each["job_id"] for each in betimes("logs", "41-42", "--json").json()] == [41, 42]
    assert betimes("wait", "none").code == 2


def test_waiting_for_several(betimes: Call, service: Service) -> None:
    done = {"status": Status.FINISHED, "finished_at": NOW - 60.0}
    service.known = [job(41, **done, promised_finish_at=NOW - 60.5), job(42, **done)]
    said = betimes("wait", "41-42")
    assert (said.code, said.err) == (0, "")
    assert said.out == (
        "Job 41, train: finished at 07:59:00, as promised\nJob 42, train: finished at 07:59:00\n"
    )
    service.known[1] = job(42, status=Status.CANCELLED, finished_at=NOW)
    said = betimes("wait", "41", "42", "--json")
    assert said.code == 1
    assert [each["status"] for each in json.loads(said.out)] == ["finished", "cancelled"]
    assert said.err == "betimes: job 42 was cancelled; `betimes job 42` shows more\n"


def test_waiting_has_an_end(betimes: Call, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(number: int, timeout: float | None = None) -> JobView:
        assert timeout is not None
        assert 0.0 <= timeout <= 60.0
        raise TimeoutError

    monkeypatch.setattr(service, "wait", late)
    said = betimes("wait", "41", "--timeout", "1m")
    assert (said.code, said.out) == (3, "")
    assert "job 41 is not over yet" in said.err
    assert betimes("wait", "41", "--timeout", "soon").code == 2


def test_an_interrupted_wait_is_said(betimes: Call, service: Service) -> None:
    service.fails = [KeyboardInterrupt()]
    said = betimes("wait", "41")
    assert (said.code, said.err) == (130, "betimes: interrupted\n")


@pytest.mark.parametrize("words", [["nodes"], ["nodes", "list"]])
def test_nodes(betimes: Call, service: Service, words: list[str]) -> None:
    service.machines = [node(), node("a100-1", kind="fake-cloud", gpu=8, free_gpu=2.5, usd_per_h=32.77)]
    lines = betimes(*words).out.splitlines()
    assert "6 of 8" in lines[2]
    assert "2.5 of 8" in lines[3]
    assert "32.77" in lines[3]
    assert betimes(*words, "--json").json()[1]["name"] == "a100-1"
    service.machines = []
    assert "betimes nodes add" in betimes(*words).out


def test_nodes_are_added(betimes: Call, service: Service) -> None:
    words = ("a100", "--cpu", "96", "--memory", "1TiB", "--gpu", "8", "--count", "2", "--usd-per-h", "3.5")
    said = betimes("nodes", "add", *words, "--json")
    assert [each["name"] for each in said.json()] == ["a100-1", "a100-2"]
    wanted = NodeSpec(type="a100", count=2, cpu=96, memory_gib=1024, gpu=8, usd_per_h=3.5)
    assert service.asked == [("add_nodes", wanted)]


def test_nodes_are_added_with_labels(betimes: Call, service: Service) -> None:
    words = ("nodes", "add", "a100", "--cpu", "96", "--memory", "1TiB", "--label", "zone=a")
    assert betimes(*words, "--label", "kind=fast").code == 0
    wanted = NodeSpec(type="a100", cpu=96, memory_gib=1024, labels={"zone": "a", "kind": "fast"})
    assert service.asked == [("add_nodes", wanted)]
    said = betimes(*words, "--label", "zone=b")
    assert (said.code, said.err) == (
        2,
        "betimes: --label: expected one value of zone, found a and b; leave one out\n",
    )
    rented = betimes("nodes", "add", "a100", "--kind", "fake-cloud", "--label", "zone=b")
    assert rented.code == 2
    assert "leave out labels: the cloud knows" in rented.err


def test_labels_of_nodes_are_listed_where_there_are_any(betimes: Call, service: Service) -> None:
    service.machines = [node(), node("a100-1", labels={"zone": "a", "kind": "fast"})]
    lines = betimes("nodes", "--output", "wide").out.splitlines()
    assert "Labels" in lines[0]
    assert "zone=a, kind=fast" in lines[3]
    assert betimes("nodes", "--json").json()[1]["labels"] == {"zone": "a", "kind": "fast"}
    service.machines = [node()]
    assert "Labels" not in betimes("nodes").out


def test_what_was_added_is_said(betimes: Call, service: Service) -> None:
    words = ("nodes", "add", "big", "--cpu", "4", "--memory", "4GiB")
    first = "virtual: a job there only takes time, and its command is not executed."
    assert betimes(*words).out.splitlines()[0] == f"Node big-1 is {first}"
    assert betimes(*words, "--count", "3").out.splitlines()[0] == (
        "Nodes big-1 to big-3 are virtual: a job there only takes time, and its command is not executed."
    )
    rented = betimes("nodes", "add", "big", "--kind", "fake-cloud").out.splitlines()[0]
    assert rented.startswith("Node big-1 is rented from a made-up cloud: a job there only takes time")


def test_nodes_are_rented(betimes: Call, service: Service) -> None:
    assert betimes("nodes", "add", "a100", "--kind", "fake-cloud", "--count", "2").code == 0
    assert service.asked == [("add_nodes", NodeSpec(kind="fake-cloud", type="a100", count=2))]


def test_nodes_are_drained_and_used_again(betimes: Call, service: Service) -> None:
    assert "draining" in betimes("nodes", "drain", "here", "there").out
    assert betimes("nodes", "undrain", "here", "--json").json()[0]["status"] == "up"
    assert service.asked == [("drain", "here"), ("drain", "there"), ("undrain", "here")]
    assert "bad fan (by ada)" in betimes("nodes", "drain", "here", "--reason", "bad fan").out
    assert service.asked[-1] == ("drain", ("here", "bad fan"))


@pytest.mark.parametrize("words", [["policy"], ["policy", "show"]])
def test_policy(betimes: Call, service: Service, words: list[str]) -> None:
    assert betimes(*words).out == "fifo (on a pool), since 07:00, 60 min ago\n"
    assert betimes(*words, "--json").json()["policy"] == "fifo"


def test_another_policy(
    betimes: Call, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert betimes("policy", "set", "wfq:zeta_min=0.9").code == 0
    assert betimes("policy", "set", "./mine.py:best:x=1", "--json").code == 0
    several = "nodes:portfolio:members=fifo+a/mine.py:best+/b.py:worst/x=1,period=2"
    assert betimes("policy", "set", several).code == 0
    assert service.asked == [
        ("set_policy", "wfq:zeta_min=0.9"),
        ("set_policy", f"{tmp_path}/mine.py:best:x=1"),
        ("set_policy", f"nodes:portfolio:members=fifo+{tmp_path}/a/mine.py:best+/b.py:worst/x=1,period=2"),
    ]


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
def test_bad_input(betimes: Call, service: Service, words: list[str]) -> None:
    said = betimes(*words)
    assert (said.code, said.out, said.err.count("\n"), service.asked) == (2, "", 1, [])


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


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotReachable("no service answers at http://127.0.0.1:1; start one with `betimes up`"), 1),
        (Unavailable("the disk is full; make room"), 1),
        (NotAllowed("the token allows nothing; ask for another"), 2),
    ],
    ids=["away", "unavailable", "not-allowed"],
)
@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_trouble_with_the_service_is_one_line(
    betimes: Call, service: Service, words: list[str], error: Exception, code: int
) -> None:
    service.fails = [error]
    said = betimes(*words)
    if words[0] == "wait" and isinstance(error, NotReachable):
        code = 4  # 1 is that a job failed
    assert (said.code, said.out, said.err) == (code, "", f"betimes: {error}\n")
    assert not service.is_open


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


def test_policy_says_why_its_last_decision_started_nobody(betimes: Call, service: Service) -> None:
    why = Reason(code="no-room", text="job 5 is next: needs 2 GPUs")
    service.in_force = service.in_force.model_copy(update={"idle": why})
    assert "Its last decision started no job: job 5 is next: needs 2 GPUs\n" in betimes("policy").out
    assert betimes("policy", "show", "--json").json()["idle"]["code"] == "no-room"


def test_fleet(betimes: Call, service: Service) -> None:
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
    fleet, plan = ("fleet", None), ("fleet_plan", None)
    assert service.asked == [fleet, fleet, plan, fleet, plan]


def test_rented_machines_are_given_back(betimes: Call, service: Service) -> None:
    assert "c4-0" in betimes("fleet", "release", "c4-0").out
    assert "Nothing is rented" in betimes("fleet", "release", "c4-0", "--now").out
    assert betimes("fleet", "release", "c4-0", "--json").json()["usd_per_h"] == 0.2
    assert service.asked == [("give_back", ("c4-0", each)) for each in (False, True, False)]


def test_maintenance_is_announced_and_called_off(betimes: Call, service: Service) -> None:
    said = betimes("maintenance", "add", "--from", "2096-11-27T18:00", "--to", "20:00", "--nodes", "a, b")
    assert said.out == (
        "Maintenance 1 of a, b from 27 Nov 2096 18:00 to 27 Nov 2096 20:00 is announced: only jobs that are over by "
        "then start there.\nJobs 12, 13 may still run there when it begins, and go on then; `betimes requeue` or "
        "`betimes cancel` ends a run.\n"
    )
    from_at = datetime(2096, 11, 27, 18).timestamp()
    assert service.asked == [("add_maintenance", (from_at, from_at + 7200.0, ["a", "b"], "", False))]
    said = betimes("maintenance", "add", "--from", "18:00", "--to", "20:00", "--stop")
    assert "Jobs 12, 13 may still run there when it begins, and are stopped then, and requeued.\n" in said.out
    assert "Maintenance 3 of here from" in betimes("maintenance", "remove", "3").out
    assert betimes("maintenance").out == (
        "No maintenance is announced; `betimes maintenance add` announces some.\n"
    )
    service.windows = [MAINTENANCE]
    assert "disks" in betimes("maintenance", "list").out
    assert betimes("maintenance", "--json").json()[0]["running"] == [40]
    service.machines = [node("here").model_copy(update={"maintenance": MAINTENANCE})]
    assert "Maintenance" in betimes("nodes").out


def test_maintenance_can_be_tried(betimes: Call, service: Service) -> None:
    betimes(
        "what-if", "--maintenance", "2096-11-27T18:00..20:00@a,b", "--maintenance", "2096-11-28..2096-11-29"
    )
    (_, asked) = service.asked[0]
    hours = [(each["to_at"] - each["from_at"]) / 3600.0 for each in asked["maintenance"]]
    assert (hours, [each["nodes"] for each in asked["maintenance"]]) == ([2.0, 24.0], [["a", "b"], []])
    said = betimes("what-if", "--maintenance", "18:00")
    assert said.code == 2
    assert "--maintenance 18:00: write two times, as in 18:00..20:00 or" in said.err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--from", "18:00"), "--to: missing; write a time such as +2h"),
        (("--from", "soon", "--to", "20:00"), "--from: 'soon' is not an instant; write +2h"),
        (("--from", "18:00", "--to", "20:00", "--nodes", ","), "--nodes ',': give names such as A,B"),
    ],
)
def test_what_is_no_window_is_refused(
    betimes: Call, service: Service, given: tuple[str, ...], message: str
) -> None:
    said = betimes("maintenance", "add", *given)
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert service.asked == []


def test_the_best_other_member_is_the_one_with_the_best_score(betimes: Call, service: Service) -> None:
    scores: dict[str, float | None] = {"fifo": 20.0, "easy": 30.0, "sjf": 10.0, "lost": None}
    selection = PORTFOLIO.selections[0].model_copy(update={"member": "sjf", "score": 10.0, "scores": scores})
    service.selections = [selection]
    assert "easy 30" in betimes("portfolio").out
    service.selections = [selection.model_copy(update={"smallest_wins": True})]
    assert "fifo 20" in betimes("portfolio").out


def test_portfolio(betimes: Call, service: Service) -> None:
    found = betimes("portfolio", "--last", "5")
    assert "odb/unicef/best decides, of portfolio:period=8" in found.out
    assert "oda/fifo/first 38.2" in found.out, "the best other"
    assert "1.6 (3)" in found.out, "of the jobs that have finished"
    service.selections = []
    assert "has selected nothing yet: it is no portfolio; `betimes policy set" in betimes("portfolio").out
    service.selections = PORTFOLIO.selections
    assert betimes("portfolio", "--json").json()["selections"][0]["score"] == 41.5
    assert service.asked == [("portfolio", 5), ("portfolio", 20), ("portfolio", 20)]


def test_what_was_given_back_at_the_end_and_what_it_has_cost_is_said(
    betimes: Call, service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found, here = (
        Found("http://x", "", tmp_path),
        Address("http://x", 2**22 + 1),
    )  # no process has this number
    monkeypatch.setattr("betimes.service.access.address.find_service", lambda **_: found)
    monkeypatch.setattr("betimes.service.access.address.read_address", lambda _: here)
    first, *_ = betimes("down", "--release-all").out.splitlines()
    assert first == "Given back: c4-0 ($0.03); together $0.03. All machines of today: $0.5."
    assert ("give_back", (None, True)) in service.asked
