"""Cancel, hold and release: single jobs, ranges of which some are over, and jobs that are chosen by what they are."""

from __future__ import annotations

import io
import json

import pytest

from betimes.errors import Refused
from betimes.service.scheduling.job_states import Status
from tests.cli.conftest import Call
from tests.cli.stand_in import Service, job


class Terminal(io.StringIO):
    """Somebody who types these lines."""

    def isatty(self) -> bool:
        return True


def test_one_that_is_over_is_refused(betimes: Call, service: Service) -> None:
    service.over = {41}
    said = betimes("cancel", "41")
    assert (said.code, said.out) == (2, "")
    assert "job 41 is finished" in said.err


@pytest.mark.parametrize(
    ("verb", "why"),
    [
        ("cancel", "they are already over"),
        ("hold", "they run, or are already over"),
        ("release", "they are not held"),
        ("requeue", "they do not run, or may not be started again"),
        ("suspend", "they do not run, or are suspended, or cannot be"),
        ("resume", "they are not suspended"),
    ],
)
def test_those_of_a_range_that_are_over_are_left_out_and_counted(
    betimes: Call, service: Service, verb: str, why: str
) -> None:
    service.over = {42, 44}
    said = betimes(verb, "41-45")
    assert said.code == 0
    assert [line.split(",")[0] for line in said.out.splitlines()[:3]] == ["Job 41", "Job 43", "Job 45"]
    assert said.out.splitlines()[3] == f"Skipped 2 of 5 jobs: {why}."
    said = betimes(verb, "41-45", "--json")
    assert [each["job_id"] for each in said.json()] == [41, 43, 45]
    assert said.err == f"betimes: note: skipped 2 of 5 jobs: {why}\n"


def test_nothing_is_left_of_a_range(betimes: Call, service: Service) -> None:
    service.over = {41, 42}
    said = betimes("cancel", "41-42")
    assert (said.code, said.out, said.err) == (
        2,
        "",
        "betimes: cancel: none of these 2 jobs can be cancelled: they are already over\n",
    )


def test_many_are_summed_up_and_asked_in_parts(betimes: Call, service: Service) -> None:
    said = betimes("cancel", "1-25000")
    assert said.out == "25,000 jobs: cancelled\n"
    assert [len(ids) for _, ids in service.asked] == [10_000, 10_000, 5_000]


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
    betimes: Call, service: Service, words: list[str], conditions: dict[str, object]
) -> None:
    service.known = [job(43), job(42), job(41)]
    assert betimes("cancel", *words).code == 0
    (_, asked), cancelled = service.asked
    live = [Status.HELD, Status.BLOCKED, Status.QUEUED, Status.RUNNING, Status.STOPPING]
    expected = {"status": live, "label": {}, **conditions}
    assert {name: asked[name] for name in expected} == expected
    assert not {"name", "user", "array_id"} - set(expected) & set(asked)
    assert cancelled == ("cancel", [41, 42, 43])


def test_only_those_to_which_it_can_be_done_are_chosen(betimes: Call, service: Service) -> None:
    service.known = [job(43, status=Status.HELD), job(42, status=Status.RUNNING), job(41)]
    betimes("hold", "--all")
    betimes("release", "--all")
    assert [what for verb, what in service.asked if verb != "jobs"] == [[41], [43]]


def test_a_terminal_is_asked_before_many_are_cancelled(
    betimes: Call, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("Yes\n"))
    service.known = [job(43, name="b"), job(42), job(41)]
    said = betimes("cancel", "--user", "ada")
    assert said.code == 0
    assert said.err == "Cancel 3 jobs (41 to 43) that wait or run, of user ada? [y/N]: "
    for words in (("cancel", "--all", "--yes"), ("hold", "--all"), ("cancel", "41-43")):
        assert betimes(*words).err == ""


def test_who_declines_cancels_nothing(
    betimes: Call, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("\n"))
    said = betimes("cancel", "--all")
    assert (said.code, said.out) == (1, "")
    assert said.err.endswith("[y/N]: betimes: nothing was cancelled\n")
    assert [verb for verb, _ in service.asked] == ["jobs"]


def test_no_such_job(betimes: Call, service: Service) -> None:
    service.known = []
    none = "betimes: cancel: there are no jobs of name x that wait or run; nothing was cancelled; "
    for more in ([], ["--json"]):
        said = betimes("cancel", "--name", "x", *more)
        assert (said.code, said.out) == (1, "")
        assert said.err == f"{none}`betimes jobs --all` lists all\n"
    assert (
        betimes("cancel", "--all").out == "No such jobs found. Only jobs that wait or run can be cancelled.\n"
    )
    assert json.loads(betimes("cancel", "--all", "--json").out) == []


def test_jobs_are_held_by_name_and_cancelled_by_number(betimes: Call, service: Service) -> None:
    assert betimes("hold", "train").out == "Job 41, train: held\n"
    assert betimes("cancel", "train").code == 2


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
def test_bad_choices(betimes: Call, service: Service, words: list[str], part: str) -> None:
    said = betimes(*words)
    assert (said.code, said.out, said.err.count("\n"), service.asked) == (2, "", 1, [])
    assert part in said.err


def test_a_job_is_changed(betimes: Call, service: Service) -> None:
    said = betimes(
        *("edit", "41", "--time-limit", "2h", "--units", "1-4", "--cpu", "2", "--memory", "4GiB"),
        *("--label", "team=a", "--after", "none", "--name", "other", "--begin", "now"),
    )
    assert (said.code, said.err) == (0, "")
    assert said.out == "Job 41, train: queued\n"
    (changes,) = [what for method, what in service.asked if method == "changes"]
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


def test_several_jobs_are_changed_and_those_that_are_over_left_out(betimes: Call, service: Service) -> None:
    service.over = {42}
    said = betimes("edit", "41-43", "--priority", "3")
    assert said.out.splitlines()[-1] == "Skipped 1 of 3 jobs: they run, or are over."
    service.over = {41, 42}
    assert betimes("edit", "41,42", "--priority", "3").err == (
        "betimes: edit: none of these 2 jobs can be changed so: they run, or are over\n"
    )


@pytest.mark.usefixtures("service")
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


def test_the_option_of_a_refused_change_is_named(betimes: Call, service: Service) -> None:
    service.fails = [Refused("the largest machine here has 8 cores; this job asks for 64", "cpu")]
    service.known = []
    assert betimes("edit", "41", "--cpu", "64").err.startswith("betimes: --cpu: the largest machine here")


def test_a_signal_is_sent_instead_of_a_cancel(betimes: Call, service: Service) -> None:
    assert betimes("cancel", "41", "--signal", "SIGUSR1").out == "Job 41, train: running\n"
    betimes("cancel", "--signal=10", "--to", "command", "41-43")
    assert service.asked[-2:] == [
        ("signal", ([41], "SIGUSR1", "steps")),
        ("signal", ([41, 42, 43], "10", "command")),
    ]
    refused = betimes("cancel", "41", "--to", "all")
    assert (refused.code, refused.err.split(":")[1]) == (2, " --to all")
