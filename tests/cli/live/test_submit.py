"""`betimes submit` and `betimes quote`: what is sent, what is printed, what is refused before anything is sent."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from betimes.client.plain import PlainClient
from betimes.errors import Refused
from betimes.service.api.examples import WHAT_IF
from betimes.service.scheduling.job_states import Status
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import Quote, Reason, Submitted, WhatIfJob, WhatIfView
from tests.cli.conftest import Call, Tell
from tests.cli.views import NOW, job, listed, quote, story
from tests.service.serving import Background

INTERVAL = {
    "finish_low_at": NOW + 3600.0,
    "finish_median_at": NOW + 4800.0,
    "finish_high_at": NOW + 7200.0,
    "level": 0.8,
}
STARTS = {"start_low_at": NOW + 600.0, "start_median_at": NOW + 1200.0, "start_high_at": NOW + 1800.0}
WAITS = Reason(code="resources", text="needs 2 GPUs; expected 2027-01-15T08:12:00Z, when job 40 ends")


def tell_promise(tell: Tell, promise: Quote | None, reason: Reason | None = None) -> None:
    """Have every job promised this; those that are submitted are 42 and on."""

    def taken(specs: list[JobSpec], user: str, key: str) -> list[Submitted]:
        numbers = range(42, 42 + len(specs))
        return [Submitted(job_id=n, job_ids=[n], quote=promise, reason=reason) for n in numbers]

    tell(submit=taken, quote=promise)


@pytest.fixture
def promised(tell: Tell) -> Tell:
    """Every job is promised to end in 75 minutes."""
    tell_promise(tell, quote())
    return tell


def submitted(tell: Tell) -> list[JobSpec]:
    """The jobs of the one submission."""
    [(_, specs, *_)] = [each for each in tell.asked if each[0] == "submit"]
    return specs


def sent(tell: Tell) -> JobSpec:
    """The one job that was submitted."""
    [spec] = submitted(tell)
    return spec


def test_every_option_reaches_its_field(
    betimes: Call, promised: Tell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOKEN_OF_MINE", "s3")
    said = betimes(
        *("submit", "--name", "train", "--workdir", "runs", "--env", "SEED=7", "--env", "TOKEN_OF_MINE"),
        *("--cpu", "2", "--memory", "512MiB", "--gpu", "1", "--units", "1-8", "--curve", "amdahl:0.1"),
        *("--units-per-task", "4"),
        *("--trial", "--priority", "5", "--grace", "1m", "--estimate", "1h30m", "--time-limit", "1-00:00:00"),
        *("--warn", "90", "--checkpoint-dir", "kept", "--array", "1-100%10", "--after", "40:any"),
        *(
            "--after",
            "41",
            "--hold",
            "--retries",
            "3",
            "--backoff",
            "5s",
            "--label",
            "team=a",
            "--label",
            "x=y=z",
        ),
        *("--require", "zone=a", "--require", "kind=fast", "--notify", "https://example.org/hook"),
        *("--output", "%j.out", "--error", "%j.err", "--begin", "2030-01-01T08:00", "--warn-signal", "USR2"),
        *("--", "python", "train.py", "--lr", "0.1", "--", "--help"),
    )
    assert said.code == 0, said.err
    assert sent(promised) == JobSpec(
        command=["python", "train.py", "--lr", "0.1", "--", "--help"],
        name="train",
        workdir=str(tmp_path / "runs"),
        env={"SEED": "7", "TOKEN_OF_MINE": "s3"},
        cpu=2.0,
        memory_gib=0.5,
        gpu=1.0,
        min_units=1,
        max_units=8,
        units_per_task=4,
        curve="amdahl:0.1",
        qos="trial",
        priority=5,
        grace_s=60.0,
        estimate_s=5400.0,
        time_limit_s=86_400.0,
        warn_s=90.0,
        warn_signal="USR2",
        output="%j.out",
        error="%j.err",
        begin_at=datetime(2030, 1, 1, 8).timestamp(),
        checkpoint_dir=str(tmp_path / "kept"),
        notify="https://example.org/hook",
        array="1-100%10",
        after=["40:any", "41"],
        hold=True,
        retries=3,
        backoff_s=5.0,
        labels={"team": "a", "x": "y=z"},
        require={"zone": "a", "kind": "fast"},
    )


def test_what_is_not_given_is_the_default_and_the_folder_is_this_one(
    betimes: Call, promised: Tell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert betimes("submit", "--", "true").code == 0
    assert sent(promised) == JobSpec(command=["true"], workdir=str(tmp_path))
    [(*_, key)] = promised.asked
    assert len(key) == 32, "one is made up"


def test_steps_and_a_measured_curve(betimes: Call, promised: Tell) -> None:
    words = ("--steps", "1000", "--step-s", "0.8", "--curve", "1=1,2=1.9", "--units", "4", "--key", "k-1")
    assert betimes("submit", *words, "--", "a").code == 0
    spec = sent(promised)
    assert spec.runtime_estimate_s == pytest.approx(800.0)
    assert not isinstance(spec.curve, str)
    assert spec.curve.speedup == {1: 1.0, 2: 1.9}
    assert (spec.min_units, spec.max_units) == (4, 4)
    [(*_, key)] = promised.asked
    assert key == "k-1"


def test_the_promise_in_words(betimes: Call, tell: Tell) -> None:
    tell_promise(tell, quote(start_at=NOW + 720.0, reason=WAITS, cost_usd=1.2))
    assert betimes("submit", "--units", "4", "--", "/usr/bin/python", "x").out == (
        "Job 42, python\n"
        "  starts    08:12, in 12 min\n"
        "  why       needs 2 GPUs; expected 08:12, when job 40 ends\n"
        "  done      09:15, in 75 min (few jobs like this one yet)\n"
        "  run time  75 min on 4 units: as you estimated\n"
        "  cost      $1.20\n"
    )


@pytest.mark.parametrize(
    ("promise", "lines"),
    [
        (quote(), ["starts    now", "done      09:15, in 75 min"]),
        (
            quote(start_at=None, finish_at=None),
            ["never under fifo, unless the load or the nodes change", "done      not known"],
        ),
        (None, ["no promise yet: it is held, or depends on another job"]),
        (quote(**INTERVAL), ["done      09:20, in 80 min (09:00 to 10:00)"]),
        (quote(start_at=NOW + 900.0, **INTERVAL, **STARTS), ["starts    08:20, in 20 min (08:10 to 08:30)"]),
        (quote(basis="last-two"), ["the mean of its last two runs"]),
        (
            quote(basis="default", cost_usd=0.0123),
            ["as it has no estimate; give one with --estimate 2h", "$0.012"],
        ),
        (quote(finish_at=NOW + 3 * 86_400.0), ["Mon 08:00, in 3 d"]),
    ],
)
def test_other_promises(betimes: Call, tell: Tell, promise: Quote | None, lines: list[str]) -> None:
    tell_promise(tell, promise)
    out = betimes("submit", "--", "x").out
    assert [line for line in lines if line not in out] == [], out


def test_json_is_one_object_with_the_promise(betimes: Call, promised: Tell) -> None:
    said = betimes("submit", "--json", "--", "x")
    answer = said.json()
    assert tuple(answer) == ("job_id", "job_ids", "quote", "submitted")
    assert (answer["job_id"], answer["job_ids"]) == (42, [42])
    assert answer["quote"]["finish_at"] == NOW + 4500.0
    assert answer["submitted"][0]["quote"] == answer["quote"]
    assert said.err == ""


def test_a_file_is_submitted_whole_with_options_for_all_of_it(
    betimes: Call, promised: Tell, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.toml"
    path.write_text(
        '[defaults]\nestimate = "2h"\n[[jobs]]\ncommand = "a"\n[[jobs]]\nname="second"\ncommand = "b"\n'
    )
    said = betimes("submit", path, "--gpu", "2", "--steps", "10", "--step-s", "1")
    assert said.code == 0, said.err
    specs = submitted(promised)
    assert [spec.title for spec in specs] == ["a", "second"]
    assert {spec.gpu for spec in specs} == {2.0}
    assert {spec.runtime_estimate_s for spec in specs} == {10.0}, (
        "an estimate on the command line replaces the file's"
    )
    assert [line.split()[:2] for line in said.out.splitlines()[2:]] == [["42", "a"], ["43", "second"]]
    answer = betimes("submit", path, "--json").json()
    assert answer["job_ids"] == [42, 43]


def test_wait_says_how_they_ended(betimes: Call, promised: Tell) -> None:
    done = job(42, status=Status.FINISHED, finished_at=NOW + 4400.0, promised_finish_at=NOW + 4500.0)
    promised(job=story(done))
    said = betimes("submit", "--wait", "--", "x")
    assert said.code == 0
    assert said.out.endswith("Job 42, train: finished at 09:13, 100 s earlier than promised\n")
    why = Reason(code="x", text="exited with 3")
    promised(job=story(job(42, status=Status.FAILED, finished_at=NOW, reason=why)))
    said = betimes("submit", "--wait", "--json", "--", "x")
    assert said.code == 1
    assert json.loads(said.out)["jobs"][0]["status"] == "failed"
    assert said.err == "betimes: job 42 failed; `betimes job 42` shows more\n"


def test_a_quote_submits_nothing(betimes: Call, tell: Tell) -> None:
    tell_promise(tell, quote(reason=WAITS, start_at=NOW + 720.0))
    said = betimes("quote", "--estimate", "75m", "--", "x")
    assert said.out.startswith("x, if it were submitted now\n  starts    08:12, in 12 min\n")
    assert betimes("quote", "--json", "--", "x").json()["reason"]["code"] == "resources"
    assert [method for method, *_ in tell.asked] == ["quote", "quote"]


SCRIPT = """#!/bin/bash
#SBATCH --job-name=align --mem=2G
#SBATCH --partition=short --exclusive
./align "$@"
"""


def test_a_batch_script_is_a_job(
    betimes: Call, promised: Tell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sbatch").write_text(SCRIPT)
    said = betimes("submit", "--gpu", "1", "--label", "x=y", "--export", "NONE", "job.sbatch", "--", "--fast")
    note = "other jobs may run on the same machine; the job's cores and memory are its own"
    assert said.err == f"betimes: note: job.sbatch, line 3: --exclusive: {note}\n"
    assert said.out.startswith("Job 42, align\n")
    spec = sent(promised)
    assert (spec.name, spec.memory_gib, spec.gpu, spec.stdin) == ("align", 2.0, 1.0, SCRIPT)
    assert spec.labels == {"partition": "short", "x": "y"}
    assert spec.command[-2:] == ["job.sbatch", "--fast"]
    assert spec.env["SLURM_SUBMIT_DIR"] == spec.workdir == str(tmp_path)
    assert all(name.startswith("SLURM_") for name in spec.env)


def test_a_batch_script_may_come_from_standard_input(
    betimes: Call, promised: Tell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job").write_text(SCRIPT)
    with (tmp_path / "job").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        monkeypatch.setattr("betimes.cli.live.jobs.submit.os.fstat", lambda _: (tmp_path / "job").stat())
        assert betimes("submit", "--id-only").out == "42\n"
        assert betimes("submit", "--id-only", "--json", "--", "x").code == 2
    assert sent(promised).name == "align"


@pytest.mark.usefixtures("nowhere")
def test_a_batch_script_that_cannot_be_kept_is_not_submitted(betimes: Call, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH --tmp=4G\n")
    said = betimes("submit", tmp_path / "job.sh")
    assert said.code == 2
    assert "job.sh, line 2: --tmp: cannot be kept" in said.err
    assert said.err.count("\n") == 1


def test_exported_variables(
    betimes: Call, promised: Tell, standing: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "1")
    monkeypatch.setenv("BETIMES_TOKEN", standing.it.token)
    assert betimes("submit", "--export", "MINE,SEED=7", "--env", "SEED=8", "--", "x").code == 0
    assert sent(promised).env == {"MINE": "1", "SEED": "8"}
    assert betimes("submit", "--export", "a b", "--", "x").code == 2


def test_the_status_of_jobs_is_a_word_each(betimes: Call, tell: Tell) -> None:
    known = {41: job(41), 42: job(42, status=Status.RUNNING)}
    tell(job=lambda number, **_: story(known[number]))
    assert betimes("status", "42", "41").out == "running\nqueued\n"
    assert betimes("status", "41", "--json").json() == {"41": "queued"}


BAD = [
    (["--begin", "soon", "--", "x"], ["--begin", "'soon' is not an instant"]),
    ([], ["no job is given", "-- COMMAND", "FILE.toml"]),
    (["--"], ["there is no command after --"]),
    (["--", ""], ["command", "empty"]),
    (
        ["python", "x.py", "--lr", "3"],
        ["neither a job file", "put --", "betimes submit -- python x.py --lr 3"],
    ),
    (["sleep 3 && echo x"], ["neither a job file", "betimes submit -- sh -c 'sleep 3 && echo x'"]),
    (["--gpu", "1", "a.sh"], ["'a.sh'", "betimes submit --gpu 1 -- a.sh"]),
    (["a.toml", "--", "b"], ["a.toml and a command", "one of them"]),
    (["none.toml"], ["none.toml", "No such file"]),
    (["--gpuss", "1", "--", "x"], ["--gpuss", "--gpus"]),
    (["--cpu", "nan", "--", "x"], ["--cpu", "nan", "finite"]),
    (["--cpu", "-1", "--", "x"], ["--cpu", "-1 is too small", "0 or more"]),
    (["--gpu", "1e9", "--", "x"], ["--gpu", "1,000,000,000 is too large", "at most 1,000,000"]),
    (["--cpu", "0", "--", "x"], ["cpu, gpu or memory_gib"]),
    (["--memory", "4GB", "--", "x"], ["--memory", "4GB", "4GiB"]),
    (["--memory", "lots", "--", "x"], ["--memory", "lots", "4GiB"]),
    (["--memory", "9999999TiB", "--", "x"], ["--memory", "too large", "1,000,000"]),
    (["--units", "8-4", "--", "x"], ["--units", "8-4", "4-8"]),
    (["--units", "0", "--", "x"], ["--units", "0", "needs at least 1 unit"]),
    (["--units", "few", "--", "x"], ["--units", "few", "1-8"]),
    (["--units-per-task", "few", "--", "x"], ["--units-per-task", "'few'", "pack, spread"]),
    (["--units-per-task", "0", "--", "x"], ["--units-per-task", "0", "from 1"]),
    (
        ["--units", "10", "--units-per-task", "4", "--", "x"],
        ["units_per_task 4", "max_units 10", "1, 2, 5, 10, or pack"],
    ),
    (["--curve", "steep", "--", "x"], ["--curve", "steep", "amdahl:F"]),
    (["--curve", "1=1,2=0.5", "--", "x"], ["--curve", "2 units are slower than 1"]),
    (["--curve", "1=1,2", "--", "x"], ["--curve", "1=1,2=1.9,4=3.5"]),
    (["--qos", "best", "--", "x"], ["--qos", "best", "trial"]),
    (["--qos", "best-effort", "--trial", "--", "x"], ["--trial", "--qos best-effort"]),
    (["--estimate", "soon", "--", "x"], ["--estimate", "soon", "1h30m"]),
    (["--estimate", "0", "--", "x"], ["--estimate", "0", "more than 0"]),
    (["--estimate", "1h", "--steps", "3", "--step-s", "1", "--", "x"], ["estimate_s, or steps"]),
    (["--steps", "3", "--", "x"], ["steps and step_s go together"]),
    (["--grace", "-5s", "--", "x"], ["--grace", "-5s"]),
    (["--grace", "9d", "--", "x"], ["--grace", "too large", "86,400"]),
    (["--time-limit", "0s", "--", "x"], ["--time-limit", "0"]),
    (["--array", "5-1", "--", "x"], ["--array", "empty range"]),
    (["--array", "1-9%0", "--", "x"], ["--array", "at least one"]),
    (["--env", "A B", "--", "x"], ["--env", "A B is not set here", "A B=VALUE"]),
    (["--env", "=3", "--", "x"], ["--env", "NAME=VALUE"]),
    (["--env", "BETIMES_UNITS=3", "--", "x"], ["--env", "BETIMES_UNITS"]),
    (["--label", "fast", "--", "x"], ["--label", "fast", "NAME=VALUE"]),
    (["--retries", "-1", "--", "x"], ["--retries", "-1"]),
    (["--priority", "high", "--", "x"], ["--priority", "expected a whole number, found 'high'"]),
]


@pytest.mark.parametrize(("words", "parts"), BAD, ids=lambda value: " ".join(value)[:40])
@pytest.mark.parametrize("verb", ["submit", "quote"])
def test_bad_input_is_refused_and_nothing_is_submitted(
    betimes: Call, promised: Tell, verb: str, words: list[str], parts: list[str]
) -> None:
    said = betimes(verb, *words)
    assert (said.code, said.out) == (2, "")
    assert said.err.count("\n") == 1
    line = said.err.replace("betimes quote", "betimes submit")
    assert [part for part in parts if part not in line] == [], line
    assert promised.asked == []


def test_what_the_service_refuses_is_said_in_its_words(betimes: Call, tell: Tell) -> None:
    said = betimes("submit", "--after", "99", "--", "x")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("betimes: --after: there is no job 99; ")
    said = betimes("submit", "--gpu", "64", "--", "x")
    assert (said.code, said.err) == (2, "betimes: --gpu: No machine here has a GPU; this job asks for 64\n")
    tell(submit=Refused("job 2 and job 1 wait for each other", "after"))
    assert betimes("submit", "--", "x").code == 2


@pytest.mark.usefixtures("nowhere")
def test_a_bad_file_is_named_with_line_job_and_field(betimes: Call, tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text("jobs:\n - command: [a]\n - command: [b]\n   gpu: -1\n")
    said = betimes("submit", path)
    assert said.code == 2
    assert said.err == f"betimes: {path}, line 4, job 2, field gpu: -1 is too small; give 0 or more\n"
    path.write_text("command: [a]\n")
    assert "--gpu: -1 is too small" in betimes("submit", path, "--gpu", "-1").err


def test_a_quote_is_for_all_jobs_of_a_file(betimes: Call, tell: Tell, tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text("jobs: [{command: [a]}, {command: [b], array: 1-2}]\n")

    def new(job_id: int, name: str, start_s: float, finish_s: float | None) -> WhatIfJob:
        finish_at = None if finish_s is None else NOW + finish_s
        return WhatIfJob(
            job_id=job_id, name=name, user="ada", is_new=True, start_before_at=None, finish_before_at=None,
            start_at=NOW + start_s, finish_at=finish_at,
        )  # fmt: skip

    jobs = [new(5, "a", 0.0, 3600.0), new(6, "b", 900.0, 1800.0), new(7, "b", 1800.0, 2700.0)]
    tell(what_if=WhatIfView(made_at=NOW, jobs=[*WHAT_IF.jobs, *jobs]))
    lines = [" ".join(line.split()) for line in betimes("quote", path).out.splitlines()]
    [(_, asked, _)] = tell.asked
    assert [spec.command for spec in asked.submit] == [["a"], ["b"]]
    assert lines[0] == "If all of them were submitted now"
    assert "a 1 08:00:00, now 09:00, in 60 min" in lines
    assert "b 2 08:15, in 15 min 08:45, in 45 min" in lines
    assert lines[-1] == "all 3 09:00, in 60 min"
    assert [each["job_id"] for each in betimes("quote", path, "--json").json()] == [5, 6, 7]
    sure = [one.model_copy(update={**INTERVAL, "finish_low_at": NOW + one.job_id}) for one in jobs]
    tell(what_if=WhatIfView(made_at=NOW, jobs=sure))
    lines = [" ".join(line.split()) for line in betimes("quote", path).out.splitlines()]
    assert "a 1 09:20, in 80 min; by 10:00 (90 % sure)" in " ".join(lines).replace("08:00:00, now ", "")
    assert lines[-1] == "all 3 09:20, in 80 min; by 10:00 (90 % sure)"


def test_what_still_waits_does_not_start_now(betimes: Call, tell: Tell) -> None:
    tell_promise(tell, quote(start_at=NOW, finish_at=NOW + 60, reason=WAITS))
    assert "starts    08:00:00, any moment\n" in betimes("quote", "--", "true").out


def test_a_job_for_every_line(betimes: Call, promised: Tell, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("# two jobs\npython a.py --lr 0.1\n\n  sh -c 'echo hi'\n")
    said = betimes("submit", "--cpu", "2", "--key", "k", "--each-line", lines)
    [(_, specs, _, key)] = promised.asked
    assert ([spec.command for spec in specs], {spec.cpu for spec in specs}, key) == (
        [["python", "a.py", "--lr", "0.1"], ["sh", "-c", "echo hi"]],
        {2.0},
        "k.0",
    )
    few = "(few jobs like this one yet)"
    assert (said.code, said.out) == (0, f"Jobs 42 to 43, 2 in all, done 09:15, in 75 min {few}\n")
    tell_promise(promised, quote(**INTERVAL))
    said = betimes("submit", "--each-line", lines)
    assert said.out == "Jobs 42 to 43, 2 in all, done 09:20, in 80 min (09:00 to 10:00)\n"
    answer = betimes("submit", "--json", "--each-line", lines).json()
    assert answer["job_ids"] == [42, 43]
    assert answer["quote"] == answer["submitted"][1]["quote"] | {"job_id": answer["quote"]["job_id"]}


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(
    ("text", "part"),
    [("true\nsay 'x\n", "line 2: no closing quotation"), ("# none\n", "no line with a command")],
)
def test_lines_that_are_no_commands(betimes: Call, tmp_path: Path, text: str, part: str) -> None:
    (tmp_path / "lines").write_text(text)
    said = betimes("submit", "--each-line", tmp_path / "lines")
    assert said.code == 2
    assert part in said.err


@pytest.mark.usefixtures("tell")
def test_the_line_or_the_job_that_is_refused_is_named(betimes: Call, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("# comment\ntrue\nfalse\n")
    said = betimes("submit", "--cpu", "65", "--each-line", tmp_path / "lines")
    assert said.code == 2
    assert "lines, line 2: --cpu: The largest machine here has 4 cores; " in said.err
    (tmp_path / "two.yaml").write_text("jobs: [{command: [a]}, {command: [b], cpu: 65}]")
    said = betimes("submit", tmp_path / "two.yaml")
    assert said.code == 2
    assert "two.yaml, job 2, field cpu: The largest machine here has 4 cores; " in said.err


def test_what_a_job_waits_for_may_be_named(betimes: Call, promised: Tell) -> None:
    promised(jobs=listed(job(40, name="prep"), job(39, name="prep")))
    words = ("--after", "prep:any", "--after", "36-37", "--after", "41:ok")
    assert betimes("submit", *words, "--", "x").code == 0
    assert sent(promised).after == ["39:any", "40:any", "36", "37", "41:ok"]
    over = [job(38, name="prep", status=Status.FAILED), job(37, name="prep", status=Status.FINISHED)]
    promised(jobs=lambda which: listed() if which.status else listed(*over[: which.limit]))
    promised.asked.clear()
    assert betimes("submit", "--after", "prep", "--", "x").code == 0
    assert sent(promised).after == ["38"]

    promised(jobs=listed())
    said = betimes("submit", "--after", "nobody", "--", "x")
    assert (said.code, "'nobody': no job has this name" in said.err) == (2, True)


def test_a_job_that_waits_in_vain_is_told_so(betimes: Call, tell: Tell) -> None:
    why = Reason(code="dependency-failed", text="depends on job 40, which has failed")
    tell_promise(tell, None, why)
    assert "never, it is cancelled: depends on job 40, which has failed" in betimes("submit", "--", "x").out


@pytest.mark.usefixtures("promised")
def test_who_interrupts_a_wait_is_told_that_the_job_goes_on(
    betimes: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PlainClient, "wait", interrupted)
    said = betimes("submit", "--wait", "--", "x")
    assert said.code == 130
    assert "job 42 goes on; `betimes wait 42` waits again" in said.err


def test_options_of_a_job_in_slurm_are_refused_where_the_service_decides(betimes: Call, tell: Tell) -> None:
    said = betimes("quote", "--nodes", "2", "--", "x")
    assert said.code == 2
    assert "--nodes: it is of a job in Slurm, which this service does not watch" in said.err
