"""`betimes jobs` and `betimes job`: lists, filters, widths, and everything about one job."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from betimes.errors import Conflict, Unavailable, Unknown
from betimes.service.api.examples import CURVES
from betimes.service.scheduling.job_states import Status
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import (
    Estimate,
    Help,
    HelpsView,
    JobFilter,
    JobStory,
    JobView,
    Page,
    PlaceView,
    PreemptionView,
    Reason,
    RunView,
    WhatIfSpec,
)
from tests.cli.conftest import Call, Said, Tell
from tests.cli.views import NOW, event, health, job, listed, node, quote
from tests.cli.views import story as brief
from tests.service.serving import Background, Serving

WAITS = Reason(code="resources", text="needs 2 GPUs; expected 2027-01-15T14:05:00Z, when job 40 ends")
WAITS_HERE = "needs 2 GPUs; expected 14:05, when job 40 ends"
QUEUED = job(
    43,
    name="sweep",
    array_id=43,
    array_index=3,
    max_units=8,
    reason=WAITS,
    estimate=Estimate(as_of_at=NOW, start_at=NOW + 600, finish_at=NOW + 90_000, basis="default"),
)
RUNNING = job(
    42,
    status=Status.RUNNING,
    units=4,
    max_units=8,
    started_at=NOW - 900,
    ran_s=300.0,
    progress_frac=0.62,
    estimate=Estimate(as_of_at=NOW, start_at=None, finish_at=NOW + 540, basis="progress"),
)
FAILED = job(
    41,
    status=Status.FAILED,
    user="eve",
    qos="trial",
    started_at=NOW - 700,
    ran_s=600.0,
    finished_at=NOW - 100,
    reason=Reason(code="failed", text="exited with 3"),
)


@pytest.fixture
def tell(tell: Tell) -> Tell:
    """Nothing would help any job that waits."""
    tell(helps=HelpsView(made_at=NOW))
    return tell


def test_the_list_says_what_waits_and_runs(betimes: Call, tell: Tell) -> None:
    tell(jobs=listed(QUEUED, RUNNING))
    lines = betimes("jobs").out.splitlines()
    assert [line.split() for line in lines] == [
        ["Job", "Name", "Status", "Units", "For", "Done", "Why"],
        ["─" * len(lines[1].strip())],
        ["43", "sweep[3]", "queued", "1-8", "12", "min", "Sat", "09:00,", "in", "25", "h", *WAITS_HERE.split()],
        ["42", "train", "running", "62%", "4", "of", "1-8", "5", "min", "08:09:00,", "in", "9", "min"],
    ]  # fmt: skip
    tell(jobs=listed(QUEUED, RUNNING, FAILED))
    everything = betimes("jobs", "--all").out
    assert everything.splitlines()[0].split()[2:4] == ["User", "Class"]
    assert "07:58:20, 100 s ago  exited with 3" in everything


def test_filters_reach_the_service(betimes: Call, tell: Tell) -> None:
    tell(jobs=listed())
    words = ("--status", "queued,running", "--status", "held", "--user", "ada", "--name", "train")
    betimes("jobs", *words, "--label", "a=b", "--array", "43", "--limit", "7", "--json")
    [(_, which)] = tell.asked
    assert which.status == [Status.QUEUED, Status.RUNNING, Status.HELD]
    assert (which.user, which.name, which.label, which.array_id) == ("ada", "train", {"a": "b"}, 43)
    assert (which.limit, which.intervals) == (7, True)
    betimes("jobs")
    assert tell.asked[-1][1].status == ["held", "blocked", "queued", "running", "stopping"]
    betimes("jobs", "--all")
    assert tell.asked[-1][1].status == []


@pytest.mark.parametrize("words", [("--state", "running,held"), ("--state=running,held",)], ids=" ".join)
def test_a_state_is_that_of_jobs(betimes: Call, tell: Tell, words: tuple[str, ...]) -> None:
    tell(jobs=listed())
    assert betimes("jobs", *words).code == 0
    assert tell.asked[-1][1].status == ["running", "held"]
    said = betimes("jobs", "--state", "pending")
    assert said.code == 2
    assert said.err.startswith("betimes: --status pending: not known; ")


def page_of(newest: int, which: JobFilter) -> Page[JobView]:
    """A page of the jobs that have the numbers up to this."""
    first = newest if which.after is None else which.after - 1
    last = max(1, first - which.limit + 1)
    return listed(*map(job, range(first, last - 1, -1)), following=last if last > 1 else None)


def test_json_is_an_array_and_what_is_left_out_is_noted(betimes: Call, tell: Tell) -> None:
    tell(jobs=lambda which: page_of(1200, which))
    said = betimes("jobs", "--limit", "1100", "--json")
    assert [each["job_id"] for each in said.json()] == list(range(1200, 100, -1))
    assert said.json()[0]["reason"] is None
    assert said.err == "betimes: note: the newest 1100 are listed; --limit N lists more\n"
    assert betimes("jobs", "--limit", "1200").err == ""
    tell(jobs=listed())
    assert betimes("jobs", "--json").json() == []
    none = "are queued or running. `betimes jobs --all` shows finished ones.\n"
    assert betimes("jobs").out == f"No jobs {none}"
    assert betimes("jobs", "--name", "x").out == f"No such jobs {none}"
    assert betimes("jobs", "--all").out == "No jobs found.\n"
    assert betimes("jobs", "--all", "--user", "ada").out == "No such jobs found.\n"


@pytest.mark.parametrize("width", [60, 80, 100, 120])
@pytest.mark.parametrize("words", [("jobs", "--all"), ("job", "42"), ("nodes",), ("events",)], ids=" ".join)
def test_nothing_wraps(
    betimes: Call, tell: Tell, monkeypatch: pytest.MonkeyPatch, width: int, words: tuple[str, ...]
) -> None:
    long = FAILED.model_copy(update={"name": "名前" * 30})
    tell(jobs=listed(QUEUED, RUNNING, long))
    tell(job=story(), nodes=[node()], events=Page(items=[event()]))
    monkeypatch.setenv("COLUMNS", str(width))
    lines = betimes(*words).out.splitlines()
    assert [line for line in lines if cell_len(line) > width] == []
    if words[0] == "jobs":
        if len(lines) > 5:
            assert lines.pop().endswith("left out; -o wide shows all.")
        assert len(lines) == 5
        assert lines[3].split()[:2] == ["42", "train"]
        assert " running 62% " in lines[3]
        assert "…" in lines[4]


def test_a_reason_that_is_cut_can_be_had_whole(
    betimes: Call, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "waits for 2 more cores; " + ", ".join(f"job {number}" for number in range(60))
    waiting = job(41, reason=Reason(code="no-room", text=text))
    tell(jobs=listed(waiting), job=story(job=waiting), nodes=[node()])
    tell(events=Page(items=[event(kind="blocked", data={"reason": {"text": text}})]))
    monkeypatch.setenv("COLUMNS", "80")
    assert text not in betimes("jobs").out
    assert text in betimes("jobs", "-o", "wide").out
    assert text in betimes("jobs", "--output", "wide").out
    assert text not in betimes("events").out
    assert text in betimes("events", "-o", "wide").out
    assert betimes("nodes", "-o", "wide").out == betimes("nodes", "list", "-o", "wide").out
    assert betimes("job", "41", "-o", "wide").code == 0
    assert betimes("jobs", "-o", "narrow").code == 2
    assert betimes("jobs", "-o", "wide", "--watch").code == 2


@pytest.mark.parametrize(
    "words",
    [
        *(("jobs", "--all"), ("job", "42"), ("wait", "42"), ("events",), ("events", "-f", "--limit", "1")),
        ("jobs", "--all", "--json"),
    ],
    ids=" ".join,
)
def test_a_name_cannot_command_the_terminal(betimes: Call, tell: Tell, words: tuple[str, ...]) -> None:
    evil = "\x1b[2J\r\nboo\u202e\x9b2J\x7f"
    done = job(42, name=evil, status=Status.FINISHED, reason=Reason(code="x", text=evil))
    tell(jobs=listed(done), job=story(job=done))
    tell.happens(event(data={"command": evil}))
    out = betimes(*words).out
    assert "boo" in out
    assert [each for each in "\x1b\r\u202e\x9b\x7f" if each in out] == []
    assert "\nboo" not in out


def test_a_message_of_the_service_cannot_command_the_terminal(betimes: Call, tell: Tell) -> None:
    tell(steer=Conflict("job 7 (\x1b[2J\nbetimes: all is well\x9b) waits"))
    said = betimes("cancel", "41").err
    assert "job 7" in said
    assert [each for each in "\x1b\x9b" if each in said] == []
    assert said.count("\n") == 1


def test_an_encoding_that_lacks_a_letter_is_no_failure(
    betimes: Call, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io
    import sys

    tell(jobs=listed(job(name="größe")))
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    assert betimes("jobs").code == 0
    assert b"gr\\xf6\\xdfe" in raw.getvalue()


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["jobs", "--status", "done"], ["--status done", "finished"]),
        (["jobs", "--status", "held", "--all"], ["--all"]),
        (["jobs", "--label", "fast"], ["--label", "NAME=VALUE"]),
        (["jobs", "--limit", "0"], ["--limit"]),
        (["jobs", "--watch", "--json"], ["--watch", "--json"]),
        (["jobs", "--watch", "--every", "0"], ["--every", "0.1"]),
        (["jobs", "--watch", "--every", "often"], ["--every", "often"]),
        (["job"], ["JOB"]),
        (["job", "nobody"], ["'nobody'", "no job has this name"]),
        (["job", "45-41"], ["empty range"]),
        (["job", "0"], ["'0'"]),
        (["job", "77"], ["no job 77", "betimes jobs --all"]),
    ],
    ids=lambda value: " ".join(value)[:40],
)
@pytest.mark.usefixtures("tell")
def test_bad_input(betimes: Call, words: list[str], parts: list[str]) -> None:
    said = betimes(*words)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert [part for part in parts if part not in said.err] == [], said.err


def story(**fields: Any) -> JobStory:
    runs = [
        RunView(
            number=1,
            units=4,
            places=[PlaceView(node="here", units=3), PlaceView(node="there", units=1)],
            started_at=NOW - 700,
            ended_at=NOW - 400,
            ran_s=300.0,
            outcome="preempted",
            signal=15,
            max_rss_gib=1.2345,
            cpu_s=1000.0,
            message="made room for trial job 44",
        ),
        RunView(
            number=2, units=4, places=[PlaceView(node="here", units=4)], started_at=NOW - 300, ran_s=300.0
        ),
    ]
    given: dict[str, Any] = {
        "job": RUNNING.model_copy(update={"preemptions": 1, "promised_finish_at": NOW + 400}),
        "spec": JobSpec(
            command=["python", "train.py", "--lr", "0.1 x"],
            workdir="/srv/ada",
            gpu=1,
            memory_gib=4,
            max_units=8,
            estimate_s=4500,
            after=["40:any"],
            labels={"team": "a"},
            require={"zone": "a", "kind": "fast"},
        ),
        "runs": runs,
        "quotes": [quote(quote_id=1, cost_usd=0.0123, finish_at=NOW + 400)],
        "events": [event(3, kind="submitted", cause="user:ada", node=None, data={}), event()],
    }
    return JobStory(**{**given, **fields})


def test_the_story_tells_the_memory_limit_how_it_is_enforced_and_whether_it_was_exceeded(
    betimes: Call, tell: Tell
) -> None:
    limited: dict[str, Any] = {"memory_limit_gib": 4.0, "memory_limited_by": "cgroup v2"}
    run = story().runs[0].model_copy(update=limited)
    tell(job=story(runs=[run]))
    says = "  memory     at most 4 GiB for all of its processes, by cgroup v2"
    assert says in betimes("job", "42").out.splitlines()
    tell(job=story(runs=[run.model_copy(update={"outcome": "out-of-memory"})]))
    assert f"{says}; exceeded" in betimes("job", "42").out.splitlines()
    tell(job=story())
    assert "at most" not in betimes("job", "42").out


def test_the_story_of_a_job(betimes: Call, tell: Tell) -> None:
    tell(job=story())
    out = betimes("job", "42").out
    for line in (
        "Job 42, train: running on 4 units, 62% done",
        "  done       08:09:00, in 9 min (by the progress that it reports)",
        "  promised   08:06:40",
        "  moved      preempted once, resized never",
        "  command    python train.py --lr '0.1 x'",
        "  asks for   1-8 units, each of 1 core, 4 GiB, 1 GPU",
        "  requires   kind=fast, zone=a",
        "  after      40:any",
    ):
        assert line in out.splitlines()
    for text in (
        "preempted by signal 15",
        "here: 3, there: 1",
        "made room for trial job 44",
        "user:ada",
        "$0.012",
    ):
        assert text in out
    assert betimes("job", "42", "--json").json()["spec"]["command"][0] == "python"


def test_the_use_of_the_last_run_is_a_line(betimes: Call, tell: Tell) -> None:
    run = RunView(number=2, units=1, places=[PlaceView(node="here", units=1)], started_at=NOW, ran_s=4.0)
    tell(job=brief(job(status=Status.RUNNING, attempt=2), runs=[run]), curves=CURVES)
    line = "2.4 of 8 cores in the mean, 3.6 at most; 3.1 GiB of 16 GiB of memory at most"
    assert line in betimes("job", "41").out
    assert ("curves", 41, None, 0) in tell.asked
    tell(curves=CURVES.model_copy(update={"memory_asked_gib": 0.0}))
    assert "3.6 at most; 3.1 GiB of memory at most" in betimes("job", "41").out
    gpus = {"gpus_asked": 2.0, "gpus_mean": 1.5, "gpu_memory_most_gib": 30.0, "gpu_memory_has_gib": 160.0}
    tell(curves=CURVES.model_copy(update=gpus))
    told = " ".join(betimes("job", "41").out.split())
    assert "; 1.5 of 2 GPUs busy in the mean, 30 GiB of 160 GiB of their memory at most" in told
    both = [PlaceView(node=name, units=1) for name in ("here", "there")]
    wide = run.model_copy(update={"places": both})
    tell(job=brief(job(status=Status.RUNNING, attempt=2), runs=[wide]))
    assert "on here, its first node: 2.4 of 8 cores in the mean" in re.sub(
        r"\s+", " ", betimes("job", "41").out
    )
    nothing = {"points": [], "cores_mean": None, "memory_most_gib": None, "not_measured": "it is too short"}
    tell(curves=CURVES.model_copy(update=nothing))
    assert "cores in the mean" not in betimes("job", "41").out
    tell.asked.clear()
    assert betimes("job", "41", "--json").json()["job"]["job_id"] == 41
    assert not [name for name, *_ in tell.asked if name == "curves"]


def test_a_service_that_knows_no_curves_is_asked_for_the_rest(betimes: Call, tell: Tell) -> None:
    run = RunView(number=1, units=1, places=[PlaceView(node="here", units=1)], started_at=NOW, ran_s=4.0)
    tell(
        job=brief(job(status=Status.RUNNING, attempt=1), runs=[run]), curves=Unknown("there is no such path")
    )
    said = betimes("job", "41")
    assert (said.code, said.err, "Job 41, train" in said.out) == (0, "", True)
    assert "cores in the mean" not in said.out
    tell(curves=Unavailable("the store is locked"))
    said = betimes("job", "41")
    assert (said.code, said.out, "the store is locked" in said.err) == (1, "", True)


def test_what_would_help_a_job_that_waits(betimes: Call, tell: Tell) -> None:
    change = WhatIfSpec(add_nodes={"big": 1})
    helps = [
        Help(text="one more node of type big", change=change, start_at=NOW, finish_at=NOW, earlier_s=3600.0),
        Help(text="cancelling job 7", change=change, start_at=NOW, finish_at=NOW, earlier_s=None),
    ]
    tell(helps=HelpsView(made_at=NOW, helps=helps, not_tried=["renting one c4"]))
    statuses = {41: Status.QUEUED, 42: Status.RUNNING, 43: Status.QUEUED}
    tell(job=lambda number, **_: brief(job(number, status=statuses[number])))
    out = betimes("job", "41").out
    assert "What would help\none more node of type big: done 60 min earlier\n" in out
    assert "cancelling job 7: done instead of never\nnot tried: renting one c4\n" in out
    assert ("helps", 41, 0.5) in tell.asked
    tell.asked.clear()
    assert "What would help" not in betimes("job", "42").out + betimes("job", "41-43").out
    assert "helps" not in betimes("job", "41", "--json").json()
    assert [name for name, *_ in tell.asked if name == "helps"] == []
    found = betimes("job", "41", "42", "--helps", "--json").json()
    assert (found[0]["helps"]["helps"][0]["change"]["add_nodes"], found[1]["helps"]) == ({"big": 1}, None)
    assert ("helps", 41, 10.0) in tell.asked


def test_the_truth_stands_beside_what_was_promised(betimes: Call, tell: Tell) -> None:
    done = job(
        42, status=Status.FINISHED, finished_at=NOW - 60, promised_finish_at=NOW - 180, started_at=NOW - 600
    )
    tell(job=story(job=done, quote_error_s=120.0, quotes=[quote(finish_at=NOW - 180)]))
    out = betimes("job", "42").out
    assert "Job 42, train: finished at 07:59:00, 60 s ago" in out
    assert "  promised   07:57:00; it was done 2 min later than promised" in out
    assert "2 min later than promised" in out.partition("Promises")[2]


@pytest.mark.parametrize(
    ("finished_at", "words"),
    [
        (NOW - 60, "; was done 07:59:00: kept"),
        (NOW - 1500, "; was done 07:35: earlier than that"),
        (NOW - 30, "; was done 07:59:30: later than that"),
        (None, ""),
    ],
)
def test_a_promise_with_its_interval_was_kept_or_not(
    betimes: Call, tell: Tell, finished_at: float | None, words: str
) -> None:
    status = Status.FINISHED if finished_at is not None else Status.RUNNING
    within = {"promised_low_at": NOW - 1200, "promised_median_at": NOW - 900, "promised_high_at": NOW - 45}
    made_at = NOW - 1800
    one = job(
        42, status=status, submitted_at=made_at, finished_at=finished_at, promised_finish_at=NOW - 960,
        promised_level=0.8, **within,
    )  # fmt: skip
    ends = {
        "finish_low_at": NOW - 1200,
        "finish_median_at": NOW - 900,
        "finish_high_at": NOW - 45,
        "start_low_at": NOW - 1500,
        "start_median_at": NOW - 1380,
        "start_high_at": NOW - 1200,
        "level": 0.8,
    }
    tell(job=story(job=one, quotes=[quote(made_at=made_at, finish_at=NOW - 960, **ends)]))
    out = betimes("job", "42").out
    assert f"  promised   07:45 (07:40 to 07:59:15){words}\n" in out
    assert "07:45 (07:40 to 07:59:15)" in out.partition("Promises")[2]
    assert "07:37 (07:35 to 07:40)" in out.partition("Promises")[2]


def test_an_interval_as_of_now_stands_in_the_list_and_the_story(betimes: Call, tell: Tell) -> None:
    ends = {"finish_low_at": NOW + 60, "finish_median_at": NOW + 900, "finish_high_at": NOW + 7200}
    estimate = Estimate(
        as_of_at=NOW, start_at=NOW, finish_at=NOW + 540, basis="limit", level=0.8,
        rests_on="as 312 promises to jobs of this user and command turned out", **ends,
    )  # fmt: skip
    one = job(42, status=Status.RUNNING, started_at=NOW - 60, estimate=estimate)
    tell(jobs=listed(one), job=story(job=one))
    assert "  by 10:00 (90 % sure)" in betimes("jobs", "--output", "wide").out
    out = betimes("job", "42").out
    assert "  done       08:15, in 15 min; by 10:00 (90 % sure) (its time limit)\n" in out
    assert "  interval   as 312 promises to jobs of this user and command turned out\n" in out


def test_the_start_of_a_job_that_waits_stands_with_its_interval(betimes: Call, tell: Tell) -> None:
    starts: dict[str, Any] = {
        "start_low_at": NOW + 600, "start_median_at": NOW + 900, "start_high_at": NOW + 3600,
    }  # fmt: skip
    estimate = Estimate(
        as_of_at=NOW, start_at=NOW + 700, finish_at=NOW + 800, basis="limit", level=0.8, **starts
    )
    tell(job=story(job=job(42, estimate=estimate)))
    assert "  starts     08:15, in 15 min (08:10 to 09:00)\n" in betimes("job", "42").out
    at_once = estimate.model_copy(update=dict.fromkeys(starts, NOW))
    tell(job=story(job=job(42, estimate=at_once)))
    assert "  starts     08:00:00, now\n" in betimes("job", "42").out


def test_a_promise_of_before_a_hold_is_void(betimes: Call, tell: Tell) -> None:
    done = job(42, status=Status.FINISHED, finished_at=NOW - 60, promised_finish_at=NOW - 60)
    quotes = [quote(made_at=NOW - 300, finish_at=NOW - 180), quote(made_at=NOW - 120, finish_at=NOW - 60)]
    held = event(4, kind="held", at_s=NOW - 250, node=None, data={})
    tell(job=story(job=done, quote_error_s=0.0, quotes=quotes, events=[held]))
    promises = betimes("job", "42").out.partition("Promises")[2].splitlines()
    assert "void: the job was held" in promises[3]
    assert "as promised" in promises[4]


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colours_only_where_they_are_wanted(
    betimes: Call, tell: Tell, monkeypatch: pytest.MonkeyPatch, no_color: str, coloured: bool
) -> None:
    tell(jobs=listed(RUNNING))
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b" not in betimes("jobs").out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert ("\x1b[32m" in betimes("jobs").out) is coloured


def watch(betimes: Call, tell: Tell, monkeypatch: pytest.MonkeyPatch, *looks: list[JobView]) -> Said:
    """Watch the list, which is another at each look, until Ctrl-C after the last."""
    left = [*looks]

    def pause(_: float) -> None:
        if not left:
            raise KeyboardInterrupt

    monkeypatch.setattr("betimes.cli.live.following.pause", pause)
    tell(jobs=lambda _: listed(*left.pop(0)))
    return betimes("jobs", "--watch")


def test_watching_prints_what_has_changed_and_ends_quietly(
    betimes: Call, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = watch(betimes, tell, monkeypatch, [QUEUED], [QUEUED], [RUNNING, QUEUED], [])
    assert (said.code, said.err) == (130, "")
    heads = [line for line in said.out.splitlines() if line.endswith((" job", " jobs"))]
    assert heads == ["08:00:00  1 job", "08:00:00  2 jobs", "08:00:00  0 jobs"]


def test_watching_outlives_a_restart_of_the_service(
    betimes: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = Serving(tmp_path / "service")
    served = Background(it, tmp_path / "state")
    monkeypatch.setenv("BETIMES_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("BETIMES_URL", raising=False)
    with ExitStack() as up, monkeypatch.context() as patch:
        up.enter_context(served())
        betimes("submit", "--", "x")
        steps: list[Callable[[], object]] = [up.close, lambda: up.enter_context(served())]

        def pause(_: float) -> None:
            if not steps:
                raise KeyboardInterrupt
            steps.pop(0)()

        patch.setattr("betimes.cli.live.following.pause", pause)
        patch.setattr("betimes.client.calls.Way.pauses", lambda *_: iter(()))
        said = betimes("jobs", "--watch")
    it.close()
    assert said.code == 130
    assert said.out.count("as it was before") == 1
    assert "running" in said.out.rpartition("as it was before")[2]


@pytest.mark.usefixtures("nowhere")
def test_watching_says_at_once_that_nothing_is_there(betimes: Call) -> None:
    said = betimes("jobs", "--watch")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert "`betimes up`" in said.err


def test_watching_redraws_on_a_terminal(betimes: Call, tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    said = watch(betimes, tell, monkeypatch, [QUEUED], [RUNNING])
    assert said.code == 130
    assert "\x1b[" in said.out
    assert "sweep[3]" in said.out


def test_a_story_says_what_preemptions_have_cost(betimes: Call, tell: Tell) -> None:
    one = PreemptionView(
        job_id=42,
        run=1,
        by=[44, 45],
        policy="fitgpp",
        told_at=NOW - 430,
        grace_s=30.0,
        nodes=0.5,
        left_at=NOW - 400,
        resumed_at=NOW - 300,
        vacating_node_s=15.0,
        restart_node_s=3.5,
        cost_node_s=18.5,
        waiting_s=100.0,
    )
    other = one.model_copy(update={"job_id": 40, "by": [42], "left_at": None, "vacating_node_s": None})
    tell(job=story(preempted=[one], displaced=[other]))
    out = betimes("job", "42").out
    lines = [line.split() for line in out.splitlines()]
    after = out.splitlines().index("Preempted (an empty cell: not known yet)")
    assert lines[after + 1][:6] == ["Told", "Job", "Run", "Made", "room", "for"]
    assert lines[after + 3] == [
        *("07:52:50", "42", "1", "44,", "45", "30", "s", "18.5", "node-s", "15", "node-s", "3.5", "node-s"),
        *("100", "s", "fitgpp"),
    ]  # fmt: skip
    assert "Jobs preempted for it" in out
    assert betimes("job", "42", "--json").json()["preempted"][0]["cost_node_s"] == 18.5


def test_events_say_what_a_preemption_has_cost(betimes: Call, tell: Tell) -> None:
    cost = {"vacating_node_s": 15.0, "restart_node_s": None, "lost_node_s": None}
    ended = {"number": 1, "outcome": "preempted", "signal": 15, "preemption": cost}
    launched = {
        "number": 2,
        "units": 1,
        "places": [["here", 1]],
        "preemption": {**cost, "restart_node_s": 250.4},
    }
    goes_on = {"number": 2, "frac": 0.4, "preemption": {**cost, "lost_node_s": 0.125}}
    tell(
        events=Page(
            items=[
                event(1, kind="ended", data=ended),
                event(2, kind="preempts", data={"victim": 42, "run": 1}),
                event(3, kind="launched", data=launched),
                event(4, kind="work-lost", data=goes_on),
            ]
        )
    )
    out = betimes("events").out
    for text in (
        "run 1, preempted, signal 15; making room cost 15 node-s",
        "job 42 makes room for it",
        "run 2, 1 unit on here; its restart cost 250 node-s",
        "run 2 goes on at 40%; doing again cost 0.125 node-s",
    ):
        assert text in out, out


def test_the_story_says_how_units_are_kept_together_where_the_job_has_a_choice(
    betimes: Call, tell: Tell
) -> None:
    plain = story()
    tell(job=plain)
    assert "  tasks " not in betimes("job", "42").out
    for choice, text in (("spread", "one unit each, on any nodes"), (4, "4 units each, together on a node")):
        spec = plain.spec.model_copy(update={"units_per_task": choice})
        tell(job=plain.model_copy(update={"spec": spec}))
        assert f"  tasks      {text}" in betimes("job", "42").out.splitlines()


def test_all_instants_are_in_the_zone_of_the_reader(
    betimes: Call, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"text": "needs 2 GPUs; expected 2027-01-15T14:05:00Z, when job 40 ends"}
    tell(jobs=listed(QUEUED))
    tell(job=story(job=QUEUED))
    tell(
        events=Page(
            items=[
                event(kind="blocked", data={"reason": told}),
                event(kind="quoted", data={"finish_at": NOW + 3600, "quote": {"reason": told}}),
                event(kind="idle", data={"reason": told}),
            ]
        )
    )
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()  # the fixture `still` undoes it
    for words in (("jobs",), ("job", "43"), ("events",)):
        out = betimes(*words).out
        assert "expected 09:05, when job 40 ends" in out
        assert "14:05" not in out


def test_what_starts_now_by_a_service_whose_clock_was_put_back_starts_now(betimes: Call, tell: Tell) -> None:
    now_s = NOW + 7200.0
    tell(
        health=health(notes=["The system clock went back 7200 s."], clock_ahead_s=7200.0),
        jobs=listed(
            job(44, status=Status.RUNNING, units=1, submitted_at=now_s - 60.0, ran_s=60.0),
            job(45, status=Status.FINISHED, submitted_at=now_s - 60.0, ran_s=60.0, finished_at=now_s),
        ),
    )
    said = betimes("jobs", "--all")
    assert "betimes: note: The system clock went back 7200 s." in said.err
    assert "now" in said.out
    assert "in 2 h" not in said.out
    assert " 60 s " in said.out
    tell(jobs=listed())
    assert "note" not in betimes("jobs", "--status", "held").err
