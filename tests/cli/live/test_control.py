"""Cancel, hold and release: single jobs, ranges of which some are over, and jobs that are chosen by what they are."""

from __future__ import annotations

import io
import json

import pytest

from betimes.service.machines.machine import Machine
from betimes.service.scheduling.job_states import Status
from betimes.service.views.models import JobView
from tests.cli.conftest import Call, Tell
from tests.cli.views import job, listed


class Terminal(io.StringIO):
    """Somebody who types these lines."""

    def isatty(self) -> bool:
        return True


SERVES = {"machines": (Machine("here", "virtual", "n", 8.0, 16.0, 0.0),)}
BECOMES = {"cancel": Status.CANCELLED, "hold": Status.HELD, "release": Status.QUEUED}


@pytest.fixture
def steered(tell: Tell) -> Tell:
    """Every job can be cancelled, held and released; jobs 41 to 43 wait."""

    def steer(action: str, ids: list[int], *_: object) -> list[JobView]:
        return [job(number, status=BECOMES[action]) for number in ids]

    tell(steer=steer, jobs=listed(job(43), job(42), job(41)))
    return tell


def numbers(tell: Tell) -> list[list[int]]:
    """The jobs to which something was done, call by call."""
    return [asked[2] for asked in tell.asked if asked[0] == "steer"]


def submit(betimes: Call, *words: str, count: int = 5) -> None:
    for _ in range(count):
        assert betimes("submit", "--name", "train", *words, "--", "x").code == 0


@pytest.mark.usefixtures("live")
def test_one_that_is_over_is_refused(betimes: Call) -> None:
    submit(betimes, "--hold", count=2)
    betimes("cancel", "1,2")
    said = betimes("cancel", "1")
    assert (said.code, said.out) == (2, "")
    assert "job 1 is cancelled" in said.err
    said = betimes("cancel", "1-2")
    assert (said.code, said.out, said.err) == (
        2,
        "",
        "betimes: cancel: none of these 2 jobs can be cancelled: they are already over\n",
    )


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize(
    ("submitted", "before", "verb", "done", "why"),
    [
        ("--hold", "cancel 2,4", "cancel", [1, 3, 5], "they are already over"),
        # The first takes the whole machine.
        ("--units=8", "cancel 4", "hold", [2, 3, 5], "they run, or are already over"),
        ("--hold", "release 2,4", "release", [1, 3, 5], "they are not held"),
        ("--cpu=1", "cancel 2,4", "requeue", [1, 3, 5], "they do not run, or may not be started again"),
        ("--cpu=1", "suspend 2,4", "suspend", [1, 3, 5], "they do not run, or are suspended, or cannot be"),
        ("--cpu=1", "suspend 1,3,5", "resume", [1, 3, 5], "they are not suspended"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isalpha() else "",
)
def test_those_of_a_range_to_which_it_cannot_be_done_are_left_out_and_counted(
    betimes: Call, submitted: str, before: str, verb: str, done: list[int], why: str
) -> None:
    submit(betimes, submitted)
    assert betimes(*before.split()).code == 0
    if verb in ("hold", "resume"):
        said = betimes(verb, "1-5", "--json")
        assert [each["job_id"] for each in said.json()] == done
        assert said.err == f"betimes: note: skipped 2 of 5 jobs: {why}\n"
    else:
        said = betimes(verb, "1-5")
        assert said.code == 0
        assert [line.split(",")[0] for line in said.out.splitlines()[:3]] == [f"Job {n}" for n in done]
        assert said.out.splitlines()[3] == f"Skipped 2 of 5 jobs: {why}."


@pytest.mark.parametrize("verb", ["cancel", "hold", "release"])
def test_several_jobs_and_ranges_of_them(betimes: Call, steered: Tell, verb: str) -> None:
    said = betimes(verb, "41-43", "50", "42,60")
    assert said.out.splitlines()[0] == f"Job 41, train: {BECOMES[verb].value}"
    assert numbers(steered) == [[41, 42, 43, 50, 60]]
    assert [each["job_id"] for each in betimes(verb, "7", "--json").json()] == [7]


def test_many_are_summed_up_and_asked_in_parts(
    betimes: Call, steered: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("betimes.cli.live.jobs.control.MOST_A_REQUEST", 400)
    assert betimes("cancel", "1-1000").out == "1,000 jobs: cancelled\n"
    assert [len(ids) for ids in numbers(steered)] == [400, 400, 200]


@pytest.mark.parametrize(
    ("words", "conditions"),
    [
        (["--name", "train"], {"name": "train"}),
        (["--user", "ada"], {"user": "ada"}),
        (["--label", "team=vision"], {"label": {"team": "vision"}}),
        (["--array", "7"], {"array_id": 7}),
        (["--status", "queued"], {"status": [Status.QUEUED]}),
        (["--all"], {}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_jobs_chosen_by_what_they_are(
    betimes: Call, steered: Tell, words: list[str], conditions: dict[str, object]
) -> None:
    assert betimes("cancel", *words).code == 0
    (_, which), cancelled = steered.asked
    active = [Status.HELD, Status.BLOCKED, Status.QUEUED, Status.RUNNING, Status.STOPPING]
    expected = {"status": active, "label": {}, "name": None, "user": None, "array_id": None, **conditions}
    assert {name: getattr(which, name) for name in expected} == expected
    assert cancelled == ("steer", "cancel", [41, 42, 43], "ada", True)


def test_only_those_to_which_it_can_be_done_are_chosen(betimes: Call, steered: Tell) -> None:
    known = [job(43, status=Status.HELD), job(42, status=Status.RUNNING), job(41)]
    steered(jobs=lambda which: listed(*(each for each in known if each.status in which.status)))
    betimes("hold", "--all")
    betimes("release", "--all")
    assert numbers(steered) == [[41], [43]]


def test_a_terminal_is_asked_before_many_are_cancelled(
    betimes: Call, steered: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("Yes\n"))
    said = betimes("cancel", "--user", "ada")
    assert said.code == 0
    assert said.err == "Cancel 3 jobs (41 to 43) that wait or run, of user ada? [y/N]: "
    for words in (("cancel", "--all", "--yes"), ("hold", "--all"), ("cancel", "41-43")):
        assert betimes(*words).err == ""


def test_who_declines_cancels_nothing(betimes: Call, steered: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("\n"))
    said = betimes("cancel", "--all")
    assert (said.code, said.out) == (1, "")
    assert said.err.endswith("[y/N]: betimes: nothing was cancelled\n")
    assert [method for method, *_ in steered.asked] == ["jobs"]


def test_no_such_job(betimes: Call, steered: Tell) -> None:
    steered(jobs=listed())
    none = "betimes: cancel: there are no jobs of name x that wait or run; nothing was cancelled; "
    for more in ([], ["--json"]):
        said = betimes("cancel", "--name", "x", *more)
        assert (said.code, said.out) == (1, "")
        assert said.err == f"{none}`betimes jobs --all` lists all\n"
    assert (
        betimes("cancel", "--all").out == "No such jobs found. Only jobs that wait or run can be cancelled.\n"
    )
    assert json.loads(betimes("cancel", "--all", "--json").out) == []


def test_jobs_are_held_by_name_and_cancelled_by_number(betimes: Call, steered: Tell) -> None:
    steered(jobs=listed(job(41)))
    assert betimes("hold", "train").out == "Job 41, train: held\n"
    assert betimes("cancel", "train").code == 2


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(
    ("words", "part"),
    [
        (
            ["cancel"],
            "no job is named; give their numbers, choose them (--name, --user, --label, --status, --array), or --all",
        ),
        (["cancel", "41", "--name", "x"], "--name"),
        (["cancel", "41", "--all"], "--all"),
        (["cancel", "--status", "finished"], "--status finished: such jobs cannot be cancelled"),
        (["hold", "--status", "running"], "--status running: such jobs cannot be held"),
        (["release", "--status", "queued"], "--status queued: such jobs cannot be released"),
        (["cancel", "--status", "soon"], "--status soon"),
        (["cancel", "--label", "x"], "--label"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_choices(betimes: Call, words: list[str], part: str) -> None:
    said = betimes(*words)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert part in said.err


def test_a_job_is_changed(betimes: Call, tell: Tell) -> None:
    tell(edit=[job(41)])
    said = betimes(
        *("edit", "41", "--time-limit", "2h", "--units", "1-4", "--cpu", "2", "--memory", "4GiB"),
        *("--label", "team=a", "--after", "none", "--name", "other", "--begin", "now"),
    )
    assert (said.code, said.err) == (0, "")
    assert said.out == "Job 41, train: queued\n"
    [(_, ids, changes, *_)] = tell.asked
    assert ids == [41]
    assert changes.given == {
        "time_limit_s": 7200.0,
        "min_units": 1,
        "max_units": 4,
        "cpu": 2.0,
        "memory_gib": 4.0,
        "labels": {"team": "a"},
        "after": [],
        "singleton": False,
        "name": "other",
        "begin_at": changes.begin_at,
    }


@pytest.mark.usefixtures("live")
def test_several_jobs_are_changed_and_those_that_are_over_left_out(betimes: Call) -> None:
    submit(betimes, "--hold", count=3)
    betimes("cancel", "2")
    said = betimes("edit", "1-3", "--priority", "3")
    assert said.out.splitlines()[-1] == "Skipped 1 of 3 jobs: they run, or are over."
    assert [each["spec"]["priority"] for each in betimes("job", "1-3", "--json").json()] == [3, 0, 3]
    betimes("cancel", "1")
    assert betimes("edit", "1,2", "--priority", "3").err == (
        "betimes: edit: none of these 2 jobs can be changed so: they run, or are over\n"
    )
    assert betimes("edit", "3", "--cpu", "64").err.startswith(
        "betimes: --cpu: The largest machine here has 8 cores"
    )
    assert betimes("edit", "3", "--time-limit", "0").err.startswith("betimes: --time-limit: 0 is too small")


@pytest.mark.usefixtures("tell")
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["41"], "edit: no change is given; `betimes edit --help` lists what can be changed"),
        (["41", "--estimate", "soon"], "--estimate: "),
        (["nothing", "--priority", "1"], "'nothing': no job has this name"),
    ],
)
def test_a_change_that_is_none(betimes: Call, words: list[str], why: str) -> None:
    said = betimes("edit", *words)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"betimes: {why}")


def test_a_signal_is_sent_instead_of_a_cancel(betimes: Call, tell: Tell) -> None:
    tell(signal=[job(41, status=Status.RUNNING)])
    assert betimes("cancel", "41", "--signal", "SIGUSR1").out == "Job 41, train: running\n"
    betimes("cancel", "--signal=10", "--to", "command", "41-43")
    assert [asked[1:4] for asked in tell.asked] == [
        ([41], "USR1", "steps"),
        ([41, 42, 43], "USR1", "command"),
    ]
    refused = betimes("cancel", "41", "--to", "all")
    assert (refused.code, refused.err.split(":")[1]) == (2, " --to all")
