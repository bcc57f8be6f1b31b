"""Slurm's commands with the real client, over a real socket, on a service in memory."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from betimes.cli.slurm_jobs import REASONS, final_code
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.reasons import CODES
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import Estimate, JobFilter, JobView, Page, Quote, Reason, RunView, Submitted
from tests.cli.conftest import AGO_S, HERE, Call, Said, Slurm
from tests.service.serving import Background

SCRIPT = "#!/bin/bash\n#SBATCH --job-name=align\n#SBATCH --partition=short\n./align\n"


def tell(live: Background, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What its service then tells of every job instead of what it knows."""
    told = dict[str, Any]()
    jobs = live.it.backend.jobs

    async def changed(which: JobFilter) -> Page[JobView]:
        page = await jobs(which)
        return page.model_copy(update={"items": [job.model_copy(update=told) for job in page.items]})

    monkeypatch.setattr(live.it.backend, "jobs", changed)
    return told


def test_sbatch(slurm: Slurm, live: Background, tmp_path: Path, betimes: Call) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT)
    assert slurm("sbatch", "--mem=1G", "-c", "2", "job.sh", "--epochs", "3").out == "Submitted batch job 1\n"
    assert slurm("sbatch", "--parsable", "--array", "0-1", stdin=SCRIPT).out == "2\n"
    assert slurm("sbatch", "--parsable", "--wrap", "echo hello").out == "4\n"
    specs = [betimes("job", number, "--json").json()["spec"] for number in ("1", "2", "4")]
    assert specs[0]["command"][-3:] == ["job.sh", "--epochs", "3"]
    assert (specs[0]["cpu"], specs[0]["memory_gib"]) == (2.0, 1.0)
    assert [spec["output"] for spec in specs] == ["slurm-%j.out", "slurm-%A_%a.out", "slurm-%j.out"]
    assert [spec["name"] for spec in specs] == ["align", "align", "wrap"]
    assert specs[2]["stdin"] == "#!/bin/sh\necho hello\n"
    tried = slurm("sbatch", "--test-only", "job.sh")
    assert tried.out == ""
    assert tried.err.startswith("sbatch: Job 0 to start at 20")
    assert "using 1 processors on nodes any in partition short, and to end at 20" in tried.err


@pytest.mark.parametrize("live", [{"settings": Settings(resources={"matlab": 2})}], indirect=True)
@pytest.mark.parametrize(
    "words",
    [
        ["--begin=now+2hours"],
        ["--hold"],
        ["--array=0-7%2"],
        ["--dependency=singleton", "--job-name=one"],
        ["--time=90"],
        ["--mem=3G", "-c", "4"],
        ["--mem-per-cpu=2G", "-n", "3"],
        ["--gres=gpu:1"],
        ["--licenses=matlab:2"],
        ["--nice=10"],
        ["--requeue"],
        ["--no-requeue"],
        ["--comment=why", "--partition=short"],
        ["--output=out", "--error=err", "--chdir=/tmp"],
        ["--signal=B:USR1@60", "--time=90"],
        ["--export=A=1"],
        ["--wrap=true"],
    ],
    ids=" ".join,
)
def test_sbatch_quotes_the_job_that_it_would_submit(
    slurm: Slurm, live: Background, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, asked = live.it.backend, list[JobSpec]()
    quote, submit = backend.quote, backend.submit

    async def noted(spec: JobSpec, user: str) -> Quote:
        asked.append(spec)
        return await quote(spec, user)

    async def noted_too(specs: list[JobSpec], user: str, key: str | None) -> list[Submitted]:
        asked.extend(specs)
        return await submit(specs, user, key)

    monkeypatch.setattr(backend, "quote", noted)
    monkeypatch.setattr(backend, "submit", noted_too)
    script = "" if "--wrap=true" in words else SCRIPT
    tried, taken = slurm("sbatch", "--test-only", *words, stdin=script), slurm("sbatch", *words, stdin=script)
    if "--hold" in words:
        assert tried.err.startswith("sbatch: error: allocation failure: held by ada; ")
    else:
        assert tried.code == 0, tried.err
    assert taken.code == 0, taken.err
    spec, submitted = asked
    if spec.begin_at is not None and submitted.begin_at is not None:  # counted from now
        assert submitted.begin_at == pytest.approx(spec.begin_at, abs=60.0)
        submitted = submitted.model_copy(update={"begin_at": spec.begin_at})
    assert spec == submitted


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["missing.sh"], "missing.sh: cannot be read"),
        (["--nodes=0", "--wrap=true"], "--nodes: 0 is less than 1"),
        (["--foo", "job.sh"], "--foo is no option"),
        (["--wrap=true", "job.sh"], "--wrap: a script is given as well"),
        ([], "the first line names no interpreter"),
    ],
)
def test_sbatch_refuses(slurm: Slurm, tmp_path: Path, words: list[str], part: str, betimes: Call) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT)
    said = slurm("sbatch", *words)
    assert said.code == 1
    assert said.err.startswith("sbatch: error: ")
    assert part in said.err
    assert betimes("jobs", "--all", "--json").json() == []


def test_states_as_clients_read_them(slurm: Slurm, live: Background) -> None:
    takes = ("--export=VIRTUAL_WORK_S=70", "-c2")  # two at a time
    assert slurm("sbatch", "--array=3-6", *takes, stdin=SCRIPT).out == "Submitted batch job 1\n"
    slurm("scontrol", "hold", "1_6")
    slurm("scontrol", "update", "JobId=1_4", "TimeLimit=1")
    live.it.pass_time(AGO_S)
    assert slurm("squeue", "-h", "-o", "%i %t").out == "1_6 PD\n1_5 R\n"
    every = "1_3 CD\n1_6 PD\n1_5 R\n1_4 TO\n"  # by the names of states, as with Slurm
    assert slurm("squeue", "--noheader", "-o", "%i %t", "-t", "all").out == every
    assert (
        slurm("squeue", "--noheader", "--format=%i|%T", "--states=RUNNING,CD").out
        == "1_3|COMPLETED\n1_5|RUNNING\n"
    )
    assert slurm("squeue", "-h", "-j", "1_[5-6],99", "-o%K").out == "6\n5\n"
    assert slurm("squeue", "-hu", "nobody").out == ""
    assert (
        slurm("squeue", "-p", "short", "-h", "-o", "%.6i%.9P %D").out
        == "   1_6    short 1\n   1_5    short 1\n"
    )
    assert slurm("sacct", "-o", "JobID,State,NodeList", "--parsable2", "-j", "1_3").out == (
        "JobID|State|NodeList\n1_3|COMPLETED|here\n"
    )
    told = slurm("sacct", "-X", "--noheader", "--format=jobid,state%20,elapsed", "--job", "1_3,1_4").out
    assert [line.split() for line in told.splitlines()] == [
        ["1_3", "COMPLETED", "00:01:10"],
        ["1_4", "TIMEOUT", "00:01:00"],
    ]
    ended = ("sacct", "-n", "-X", "-P", "-o", "JobID", "-s", "CD,TO")
    assert slurm(*ended, "-S", "now-2hours", "-E", "now").out == "1_3\n1_4\n"
    assert slurm(*ended, "--starttime=2100-01-01T12:00").out == ""
    assert slurm(*ended, "-A", "physics").out == ""
    assert slurm(*ended, "-S", "today").out.endswith("1_4\n")
    wrong = (
        *(
            ["sacct", "-S", "soon"],
            ["squeue", "-M", "other"],
            ["squeue", "-S", "nosuch"],
            ["squeue", "--foo"],
        ),
        *(["sinfo", "-o", "%j"], ["sacct", "-o", "nosuch"], ["squeue", "-t", "X"]),
    )
    for command, *words in wrong:
        said = slurm(command, *words)
        assert said.code == 1
        assert said.err.startswith(f"{command}: error: ")


def test_the_number_of_an_array_in_a_dependency_means_all_of_it(
    slurm: Slurm, live: Background, betimes: Call, tmp_path: Path
) -> None:
    slurm("sbatch", "--array=4-6", stdin=SCRIPT)
    slurm("sbatch", "-d", "afterok:1,afterany:1_5", stdin=SCRIPT)
    (tmp_path / "next.sh").write_text(f"#!/bin/sh\n#SBATCH -d afterany:1:4\n{SCRIPT}")
    assert betimes("submit", "--id-only", "next.sh").out == "5\n"
    assert betimes("quote", "next.sh").code == 0
    slurm("sbatch", "-H", stdin=SCRIPT)
    assert slurm("scontrol", "update", "JobId=6", "Dependency=afterok:1_6").code == 0
    told = [betimes("job", number, "--json").json()["spec"]["after"] for number in ("4", "5", "6")]
    assert told == [["1", "2", "3", "2:any"], ["1:any", "2:any", "3:any", "4:any"], ["3"]]
    assert "there is no 1_9; " in slurm("sbatch", "-d", "afterok:1_9", stdin=SCRIPT).err


@pytest.mark.parametrize("live", [{"ago_s": 7230.0}], indirect=True)
def test_what_was_asked_for(slurm: Slurm, live: Background, betimes: Call) -> None:
    slurm("sbatch", "-t", "1-2", "-c2", "--mem=1536M", "--export=VIRTUAL_WORK_S=90000", stdin=SCRIPT)
    slurm("sbatch", "-H", stdin=SCRIPT)
    live.it.pass_time(7200.0)
    told = slurm("squeue", "-h", "-o", "%i %C %m %l").out
    assert told == "2 1 0 UNLIMITED\n1 2 1536M 1-02:00:00\n"
    assert slurm("squeue", "-h", "-j", "1", "-o", "%M %L").out == "2:00:00 1-00:00:00\n"
    assert "RunTime=02:00:00 " in slurm("scontrol", "show", "job", "1").out
    betimes("nodes", "drain", "here")
    slurm("scontrol", "requeue", "1")  # it has its whole limit in its next run
    live.it.pass_time(30.0)
    assert slurm("squeue", "-h", "-j", "1", "-o", "%M %L").out == "0:00 1-02:00:00\n"
    assert slurm("squeue", "-l").out.splitlines()[1].split()[4:7] == ["STATE", "TIME", "TIME_LIMI"]
    told = slurm("sacct", "-n", "-P", "-o", "JobID,AllocCPUS,ReqMem,Timelimit,MaxRSS").out
    assert told == "1|2|1536M|1-02:00:00|\n2|1|0|UNLIMITED|\n"
    assert slurm("seff", "1").out.startswith("Job ID: 1\n")
    assert "no job is given" in slurm("seff").err
    assert "TRES=cpu=2,mem=1536M,node=1,billing=2\n" in slurm("scontrol", "show", "job", "1").out


def test_what_is_for_others_alone_is_left_out(
    slurm: Slurm, live: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm("sbatch", "-c2", "--export=VIRTUAL_EXIT_CODE=1", stdin=SCRIPT)
    slurm("sbatch", "-H", stdin=SCRIPT)
    live.it.pass_time(AGO_S)
    monkeypatch.setenv("BETIMES_TOKEN", live.it.token_of("eve"))
    assert slurm("squeue", "-h", "-o", "%i %u %C %m %l %L") == Said(0, "2 ada 1 N/A N/A N/A\n", "")
    told = slurm("sacct", "-a", "-n", "-P", "-o", "JobID,AllocCPUS,MaxRSS,ExitCode,Timelimit")
    assert told == Said(0, "1|2|N/A|N/A|N/A\n2|1|N/A|0:0|N/A\n", "")
    assert slurm("sacct", "-a", "-n", "-P", "-o", "JobID,ExitCode").out == "1|N/A\n2|0:0\n"
    assert "ada" not in slurm("scontrol", "show", "job").out


def test_me_is_who_the_service_says(slurm: Slurm, live: Background, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm("sbatch", "-H", stdin=SCRIPT)
    monkeypatch.setenv("BETIMES_TOKEN", live.it.token_of("eve"))
    slurm("sbatch", "-H", stdin=SCRIPT)
    assert slurm("squeue", "-h", "--me", "-o", "%i %u").out == "2 eve\n"
    slurm("scancel", "--me")
    assert slurm("squeue", "-h", "-o", "%i %u").out == "1 ada\n"


def test_sbatch_obeys_its_variables(slurm: Slurm, live: Background, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_TIMELIMIT", "7")
    monkeypatch.setenv("SBATCH_ACCOUNT", "lab")
    slurm("sbatch", "--time=9", stdin=SCRIPT)
    slurm("sbatch", stdin=SCRIPT.replace("\n./", "\n#SBATCH --time=60\n./"))
    assert slurm("squeue", "-h", "-o", "%l %a").out == "9:00 lab\n7:00 lab\n"
    monkeypatch.setenv("SBATCH_CLUSTERS", "other")
    assert (
        "SBATCH_CLUSTERS in the environment: --clusters: cannot be kept" in slurm("sbatch", stdin=SCRIPT).err
    )


@pytest.mark.parametrize("live", [{"machines": (replace(HERE, kind="local"),)}], indirect=True)
def test_srun_and_salloc_obey_their_variables(
    slurm: Slurm, live: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, quote = list[JobSpec](), live.it.backend.quote

    async def noted(spec: JobSpec, user: str) -> Quote:
        asked.append(spec)
        return await quote(spec, user)

    monkeypatch.setattr(live.it.backend, "quote", noted)
    for name, value in {
        "SLURM_NTASKS": "2", "SLURM_TIMELIMIT": "7", "SLURM_PARTITION": "short", "SLURM_MEM_PER_NODE": "3G",
        "SALLOC_TIMELIMIT": "9", "SALLOC_QOS": "high",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    for command in ("srun", "salloc"):
        said = slurm(command, "--test-only", "-p", "long", "true")
        assert said.code == 0, said.err
    of_srun, of_salloc = asked
    assert (of_srun.cpu, of_srun.time_limit_s, of_srun.memory_gib) == (2.0, 420.0, 3.0)
    assert (of_salloc.cpu, of_salloc.time_limit_s, of_salloc.labels) == (
        1.0,
        540.0,
        {"partition": "long", "qos": "high"},
    )
    monkeypatch.setenv("SLURM_CLUSTERS", "other")
    monkeypatch.setenv("SLURM_EXIT_ERROR", "9")
    said = slurm("srun", "true")
    assert (said.code, "SLURM_CLUSTERS in the environment: --clusters: cannot be kept" in said.err) == (
        9,
        True,
    )


def test_scancel(slurm: Slurm, live: Background) -> None:
    slurm("sbatch", "-H", "--array=0-2", stdin=SCRIPT)
    slurm("sbatch", "-H", "-J", "other", "--wrap=true")
    assert slurm("scancel", "1_1").code == 0
    assert slurm("squeue", "-h", "-o", "%i", "-S", "i").out == "1_[0,2]\n4\n"
    assert slurm("scancel", "--clusters=all", "1").code == 0
    assert slurm("scancel", "1").code == 0  # over already
    assert slurm("squeue", "-h", "-o", "%i %j").out == "4 other\n"
    assert slurm("scancel", "-n", "other").code == 0
    assert slurm("squeue", "-h").out == ""
    assert slurm("scancel").code == 1
    assert slurm("squeue", "-j", "99").err == "squeue: error: Invalid job id specified: 99\n"
    assert slurm("squeue", "-h", "-j", "98,99") == Said(0, "", "")


def test_scancel_sends_signals_and_leaves_jobs_to_them(slurm: Slurm, live: Background, betimes: Call) -> None:
    slurm("sbatch", "--array=0-1", stdin=SCRIPT)
    said = slurm("scancel", "-v", "--signal=USR1", "--batch", "1")
    assert said == Said(0, "", "".join(f"scancel: Signal 10 to batch job 1_{n}\n" for n in (0, 1)))
    assert slurm("scancel", "-f", "-s", "SIGTERM", "1_0") == Said(0, "", "")
    assert slurm("scancel", "-s15", "1_1") == Said(0, "", "")
    sent = [each["data"] for each in betimes("events", "--kind", "signalled", "--json").json()]
    assert [(each["signal"], each["to"]) for each in sent] == [
        *[("USR1", "command")] * 2,
        *[("TERM", "all"), ("TERM", "steps")],
    ]
    assert slurm("squeue", "-h", "-o", "%t").out == "R\nR\n"
    assert slurm("scancel", "--signal", "KILL", "1_0").code == 0
    live.it.pass_time(30.0)
    assert slurm("squeue", "-h", "-o", "%i").out == "1_1\n"
    wrong = slurm("scancel", "--signal=USR9", "1")
    assert (wrong.code, wrong.out) == (1, "")
    assert "'USR9' is no signal" in wrong.err
    said = slurm("scancel", "-v", "1_0", "99")
    assert said.code == 0
    assert said.err.splitlines()[1:] == [
        "scancel: error: Kill job error on job id 1_0: Job/step already completing or completed",
        "scancel: Terminating job 99",
        "scancel: error: Kill job error on job id 99: Invalid job id specified",
    ]


def test_sinfo(slurm: Slurm) -> None:
    assert slurm("sinfo", "-h", "-o", "%P %a").out == "betimes* up\n"
    heads = slurm("sinfo").out.splitlines()[0].split()
    assert heads == ["PARTITION", "AVAIL", "TIMELIMIT", "NODES", "STATE", "NODELIST"]
    nodes = slurm("sinfo", "-h", "-o", "%N").out
    assert slurm("sinfo", "-h", "-t", "idle,mixed", "-o", "%N").out == nodes
    assert slurm("sinfo", "-h", "-t", "drained", "-o", "%N").out == ""
    assert slurm("sinfo", "-h", "-n", "elsewhere", "-o", "%N").out == ""
    _, heads, *each = slurm("sinfo", "-N", "-l").out.splitlines()
    assert heads.split()[:6] == ["NODELIST", "NODES", "PARTITION", "STATE", "CPUS", "S:C:T"]
    assert [line.split()[:2] for line in each] == [[name, "1"] for name in nodes.strip().split(",")]
    assert slurm("sinfo", "-s", "-h", "-o", "%F").out == f"0/{len(each)}/0/{len(each)}\n"
    allocated, idle, other, total = map(float, slurm("sinfo", "-h", "-o", "%C").out.split("/"))
    assert (allocated, other, idle) == (0, 0, total)


def test_the_commands_are_programs(betimes: Call, live: Background, tmp_path: Path) -> None:
    said = betimes("slurm", "commands", tmp_path / "bin")
    assert said.out.startswith(
        "sbatch, squeue, scancel, sacct, srun, sinfo, scontrol, salloc, sacctmgr, sshare, seff are in "
    )
    done = subprocess.run(
        [tmp_path / "bin/sbatch", "--wrap=true"],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert (done.stdout, done.stderr, done.returncode) == ("Submitted batch job 1\n", "", 0)
    (tmp_path / "file").touch()
    assert "cannot be written" in betimes("slurm", "commands", tmp_path / "file").err


def test_versions_and_what_there_is_not(slurm: Slurm) -> None:
    assert [slurm(name, "--version").out for name in ("sbatch", "scontrol")] == ["slurm 24.11.0\n"] * 2
    assert slurm("squeue", "--help").out.startswith("squeue: List jobs;")
    for words in (
        ["sacctmgr", "-n", "-s", "list", "user", "ada", "format=account%256"],
        ["sshare", "-U", "--noheader"],
    ):
        assert slurm(*words) == Said(0, "", "")
    assert (
        "add: accounts are groups of the service's settings" in slurm("sacctmgr", "add", "account", "x").err
    )


def test_squeue_start(slurm: Slurm, live: Background) -> None:
    slurm("sbatch", "--array=0-1", "-c4", stdin=SCRIPT)
    heads, waiting = slurm("squeue", "--start").out.splitlines()
    assert heads.split()[5:8] == ["START_TIME", "NODES", "SCHEDNODES"]
    assert waiting.split()[0] == "1_1"


@pytest.mark.parametrize(("low_s", "says"), [(60.0, "by {high} (90 % sure)"), (600.0, "{low} to {high}")])
def test_squeue_start_says_how_sure_a_start_is(
    slurm: Slurm, live: Background, low_s: float, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_at = 1e3 * (time.time() // 1e3)
    low_at, median_at, high_at = now_at + low_s, now_at + 900.0, now_at + 7200.0
    estimate = Estimate(
        as_of_at=now_at, start_at=now_at + 800.0, finish_at=now_at + 1000.0, basis="limit", level=0.8,
        start_low_at=low_at, start_median_at=median_at, start_high_at=high_at,
    )  # fmt: skip
    slurm("sbatch", "-H", stdin=SCRIPT)
    told = tell(live, monkeypatch)
    told |= {"estimate": estimate, "reason": Reason(code="turn", text="2 jobs are ahead")}
    at, low, median, high = (
        datetime.fromtimestamp(at).isoformat() for at in (now_at + 800.0, low_at, median_at, high_at)
    )
    line = slurm("squeue", "--start", "-h").out
    assert f" {median} " in line
    assert line.endswith(f" (2 jobs are ahead; starts {says.format(low=low, high=high)})\n")
    assert slurm("squeue", "-h", "-o", "%S %R").out == f"{at} (2 jobs are ahead)\n"


def test_no_name_commands_the_terminal_or_forges_a_line(slurm: Slurm, betimes: Call) -> None:
    evil = "a\x1b[2J\x9b\u202e\r\n7|R"
    labels = [f"{label}={evil}" for label in ("partition", "account", "qos")]
    betimes(
        "submit", "--name", evil, *(word for label in labels for word in ("--label", label)), "--", "true"
    )
    escaped = "a\\x1b[2J\\x9b\\u202e\\r\\n7|R"
    assert slurm("squeue", "-h", "-o", "%j;%P;%a;%q").out == f"{escaped};{escaped};{escaped};{escaped}\n"
    assert slurm("sacct", "-nP", "-o", "jobname,partition,account").out == f"{escaped}|{escaped}|{escaped}\n"
    told = slurm("scontrol", "show", "job", "1").out
    assert [part in told for part in (f"JobName={escaped}", f"Account={escaped}", f"QOS={escaped}")] == [
        True
    ] * 3
    assert told.replace("\n", "").isprintable()
    assert slurm("squeue").out.replace("\n", "").isprintable()


def test_several_options_for_jobs_and_the_node_of_one_that_runs(slurm: Slurm, live: Background) -> None:
    slurm("sbatch", "-H", "--array=0-1", stdin=SCRIPT)
    slurm("sbatch", stdin=SCRIPT)
    told = slurm("sacct", "-o", "jobid,state,nodelist", "--parsable2", "-j", "1_1,1_0.4", "-j", "3.0").out
    assert told == "JobID|State|NodeList\n1_1|PENDING|None assigned\n3|RUNNING|here\n"
    assert slurm("squeue", "-h", "-j", "3", "-o", "%N %R").out == "here here\n"
    cut = slurm("sacct", "-X", "-o", "jobid,state%-4,jobname", "-j", "3").out
    assert (
        cut == "JobID        Sta+    JobName \n------------ ---- ---------- \n3            RUN+      align \n"
    )


def test_scontrol(slurm: Slurm, live: Background, betimes: Call, tmp_path: Path) -> None:
    slurm("sbatch", "-H", "--wrap=true")
    slurm("sbatch", "-t", "1-2", "-c2", "--array=3,5", "-A", "physics", "-d", "afterany:1", stdin=SCRIPT)
    told = slurm("scontrol", "show", "job", "2_5").out
    for part in (
        *("JobId=3 ArrayJobId=2 ArrayTaskId=5 JobName=align\n", "JobState=PENDING Reason=", "NumCPUs=2 "),
        *(
            "TimeLimit=1-02:00:00 ",
            "Account=physics",
            "Dependency=afterany:1(unfulfilled)\n",
            "Partition=short ",
        ),
        f"WorkDir={tmp_path}\n   StdErr={tmp_path}/slurm-2_5.out StdIn=/dev/null StdOut={tmp_path}/slurm-2_5.out\n",
    ):
        assert part in told
    assert len(slurm("scontrol", "-o", "--hide", "-v", "--local", "show", "jobs").out.splitlines()) == 3
    assert slurm("scontrol", "hold", "2").code == 0
    assert slurm("squeue", "-h", "-r", "-o", "%i %t").out == "1 PD\n2_3 PD\n2_5 PD\n"
    assert [job.status for job in live.it.jobs()[1:]] == ["held", "held"]
    assert slurm("scontrol", "release", "jobid=2_3").code == 0
    assert [job.status for job in live.it.jobs()[1:]] == ["blocked", "held"]
    assert slurm("scontrol", "update", "jobid=2_5", "TimeLimit=2:00:00", "Dependency=", "Nice=5").code == 0
    told = slurm("scontrol", "show", "job", "3").out
    assert "TimeLimit=02:00:00 " in told
    assert "Dependency=(null)" in told
    assert "Priority=-5 " in told
    assert slurm("scontrol", "update", "jobid=2_3", "Dependency=").code == 0
    assert slurm("scontrol", "suspend", "2_3").code == 0
    assert slurm("squeue", "-h", "-t", "S", "-o", "%i %T").out == "2_3 SUSPENDED\n"
    assert slurm("scontrol", "resume", "2_3").code == 0
    assert slurm("squeue", "-h", "-t", "R", "-o", "%i %t").out == "2_3 R\n"
    assert slurm("scontrol", "requeue", "2_3").code == 0
    assert "MinJobAge               = 300 sec\n" in slurm("scontrol", "show", "config").out
    assert slurm("scontrol", "show", "node", "here").out.startswith("NodeName=here CoresPerSocket=")
    assert slurm("scontrol", "show", "partition").out.startswith("PartitionName=betimes\n")
    assert slurm("scontrol", "ping").out.endswith(" is UP\n")
    assert slurm("scontrol", "show", "hostnames", "gpu[1-2,07]-a,b").out == "gpu1-a\ngpu2-a\ngpu07-a\nb\n"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["show", "job", "99"], "Invalid job id specified: 99"),
        (["hold"], "no job is given"),
        (["show", "licenses"], "show licenses: how many are taken is not listed; `betimes job 41`"),
        (["show", "step", "41.0"], "show steps: steps are not listed; write show job"),
        (["show", "nosuch"], "show nosuch: is not known; of job, node"),
        (["show", "res", "weekend"], "Reservation weekend not found"),
        (["show", "node", "--json"], "--json: is kept for jobs only"),
        (["--json", "show", "job", "99"], "Invalid job id specified: 99"),
        (["-u", "ann", "hold", "1"], "--uid: cannot be kept; whose jobs may be changed is said by the token"),
        (["-M", "other", "show", "job"], "--clusters=other: there is one service"),
        (["show", "hostnames", "a[1-999999999]"], "names more than 1,000,000 nodes"),
        (["show", "hostnames", "a[1-9999]b[1-9999]c"], "names more than 1,000,000 nodes"),
        (["show", "hostnames", "a[3-1]"], "Invalid hostlist: a[3-1]"),
        (["show", "hostnames", "a[1--2]"], "Invalid hostlist: a[1--2]"),
        (["show", "hostlist", "a[1"], "Invalid hostlist: a[1"),
        (["reboot"], "reboot: is not known"),
        (["suspend"], "no job is given"),
        (["update", "JobId=1"], "update: write scontrol update JobId=41 TimeLimit=2:00:00"),
        (["update", "JobId=1", "NumNodes=2"], "update: numnodes cannot be changed; of timelimit, "),
        (["update", "JobId=1", "TimeLimit=2h"], "--time: '2h' is not a time"),
        (["--foo", "show", "job"], "--foo: scontrol of Slurm has no such option; leave it out"),
        (["show", "node", "elsewhere"], "Node elsewhere not found"),
    ],
)
def test_scontrol_refuses(slurm: Slurm, words: list[str], part: str) -> None:
    said = slurm("scontrol", *words)
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert part in said.err


def test_dependencies_of_all_kinds(slurm: Slurm, live: Background, betimes: Call) -> None:
    slurm("sbatch", "--array=[4-5]", stdin=SCRIPT)
    slurm("sbatch", "-d", "singleton,afternotok:1_4,after:1_5", stdin=SCRIPT)
    slurm("sbatch", "--array=[4-5%1]", "--dependency=aftercorr:1", stdin=SCRIPT)
    told = [betimes("job", number, "--json").json()["spec"] for number in ("3", "4", "5")]
    assert (told[0]["singleton"], told[0]["after"]) == (True, ["1:fail", "2:start"])
    assert [each["after"] for each in told[1:]] == [["1:ok"], ["2:ok"]]  # each element has its own
    for option, part in (
        ("after:1+5", "a delay of 5 min cannot be kept; write after:1, and begin the script with: sleep 5m"),
        ("foo:1", "of afterok, afterany, afternotok, after, aftercorr"),
        ("afterok", "names no job"),
    ):
        assert part in slurm("sbatch", "-d", option, stdin=SCRIPT).err


def test_scontrol_takes_slurms_words(slurm: Slurm, live: Background) -> None:
    assert slurm("scontrol", "show", "hostname", "a[1-2],b07").out == "a1\na2\nb07\n"
    assert slurm("scontrol", "show", "hostlist", "a1,a2,a3,b07,b08,c").out == "a[1-3],b[07-08],c\n"
    assert slurm("scontrol", "show", "hostlistsorted", "b,a10,a9").out == "a[9-10],b\n"
    assert slurm("scontrol", "-o", "show", "part").out.startswith("PartitionName=betimes ")
    slurm("sbatch", "-t", "10", stdin=SCRIPT)
    slurm("sbatch", stdin=SCRIPT)
    limits: list[str] = []
    for words in (
        ["job=1", "TimeLimit=+10"],
        ["job", "1", "timelimit=+1:00:00"],
        ["JobId=1", "TimeLimit=-5"],
    ):
        assert slurm("scontrol", "update", *words) == Said(0, "", "")
        limits.append(slurm("squeue", "-h", "-j", "1", "-o", "%l").out.strip())
    assert limits == ["20:00", "1:20:00", "1:15:00"]
    assert "has no time limit" in slurm("scontrol", "update", "job=2", "TimeLimit=+10").err
    assert "is not a time" in slurm("scontrol", "update", "job=1", "TimeLimit=+soon").err


def test_scontrol_takes_slurms_options_and_kinds(slurm: Slurm, live: Background, betimes: Call) -> None:
    slurm("sbatch", "-H", stdin=SCRIPT)
    slurm("sbatch", "-d", "afterany:1", stdin=SCRIPT)
    assert slurm("scontrol", "-M", "betimes", "-dd", "update", "job=1", "Dependency=singleton") == Said(
        0, "", ""
    )
    assert betimes("job", "1", "--json").json()["spec"]["singleton"] is True
    assert slurm("scontrol", "update", "job=2", "Dependency=singleton,afterok:1").code == 0
    spec = betimes("job", "2", "--json").json()["spec"]
    assert (spec["singleton"], spec["after"]) == (True, ["1"])
    slurm("scontrol", "update", "job=2", "Dependency=")
    spec = betimes("job", "2", "--json").json()["spec"]
    assert (spec["singleton"], spec["after"]) == (False, [])
    for words, numbers in (([], [1, 2]), (["2"], [2])):
        shown = json.loads(slurm("scontrol", "show", "job", *words, "--json").out)
        assert [job["job_id"] for job in shown["jobs"]] == numbers
    assert slurm("scontrol", "show", "reservations").out == "No reservations in the system\n"
    betimes("maintenance", "add", "--from", "+1h", "--to", "+3h", "--reason", "new disks")
    told = slurm("scontrol", "-o", "show", "res").out
    assert told.startswith("ReservationName=1 StartTime=")
    assert "Duration=03:00:00 Nodes=ALL Flags=MAINT,ALL_NODES Comment=new disks " in told
    betimes("maintenance", "add", "--from", "+1h", "--to", "+3h", "--nodes", "here", "--for", "bob,eve")
    assert (
        "Nodes=here Flags=(null) Comment=(null) Users=bob,eve "
        in slurm("scontrol", "-o", "show", "res", "2").out
    )
    assert slurm("scontrol", "version").out.startswith("slurm ")
    assert len(slurm("scontrol", "show", "hostnames", "a[1-65536]").out.splitlines()) == 65_536


def test_a_job_that_was_cancelled_as_it_ran_has_the_signal_of_its_end(slurm: Slurm, live: Background) -> None:
    slurm("sbatch", "-H", "--array=0-1", stdin=SCRIPT)
    slurm("scancel", "1_0")
    assert "ExitCode=0:0\n" in slurm("scontrol", "show", "job", "1_0").out
    run = RunView(
        number=1, units=1, places=[], started_at=1.0, ended_at=2.0, ran_s=1.0, outcome="cancelled", signal=15
    )
    assert [final_code(job, [run]) for job in live.it.jobs()] == ["0:15", "0:0"]


SLURMS_REASONS = """
    None Priority Dependency Resources BeginTime JobHeldUser DependencyNeverSatisfied JobArrayTaskLimit Licenses
    ReqNodeNotAvail AssociationResourceLimit AssocGrpBillingMinutes NodeDown SystemFailure JobLaunchFailure
    NonZeroExitCode RaisedSignal TimeLimit OutOfMemory Prolog
"""


def test_every_reason_has_a_word_of_slurm(
    slurm: Slurm, live: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(REASONS) == set(CODES)
    assert set(REASONS.values()) == set(SLURMS_REASONS.split())
    slurm("sbatch", "-H", stdin=SCRIPT)
    told = tell(live, monkeypatch)
    told["status"] = Status.QUEUED
    for code in (*CODES, "of-a-newer-service"):
        told["reason"] = Reason(code=code, text="for people")
        assert slurm("squeue", "-h", "-o", "%r").out == f"{REASONS.get(code, 'Resources')}\n"


def test_the_start_is_that_of_the_present_run(slurm: Slurm, live: Background, betimes: Call) -> None:
    slurm("sbatch", stdin=SCRIPT)
    slurm("scontrol", "requeue", "1")
    live.it.pass_time(30.0)
    second = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(live.it.clock.now_s()))
    assert slurm("squeue", "-h", "-o", "%S").out == f"{second}\n"
    assert slurm("sacct", "-aPn", "-j", "1", "-o", "Start,Restarts").out == f"{second}|1\n"
    assert f"StartTime={second} " in slurm("scontrol", "show", "job", "1").out
    betimes("nodes", "drain", "here")
    slurm("scontrol", "requeue", "1")
    live.it.pass_time(30.0)
    assert slurm("squeue", "-h", "-o", "%S").out == "N/A\n"


def test_a_script_is_bytes_for_its_interpreter(slurm: Slurm, tmp_path: Path, betimes: Call) -> None:
    script = b"#!/bin/bash\n#SBATCH --time=1\n# f\xfcr den Lauf\necho done\n"
    (tmp_path / "job.sh").write_bytes(script)
    assert slurm("sbatch", "--parsable", "job.sh", "an argument") == Said(0, "1\n", "")
    assert betimes("submit", "--id-only", "job.sh").out == "2\n"
    for number in ("1", "2"):
        spec = betimes("job", number, "--json").json()["spec"]
        assert spec["time_limit_s"] == 60.0
        env = {**os.environ, "BETIMES_RUN_DIR": str(tmp_path)}
        done = subprocess.run(
            spec["command"], input=spec["stdin"].encode(), env=env, capture_output=True, check=True
        )
        assert (done.stdout, (tmp_path / "slurm_script").read_bytes()) == (b"done\n", script)
    assert "batch script job.sh 'an argument'" in betimes("job", "1").out


def test_seff_prints_slurms_lines(slurm: Slurm, live: Background) -> None:
    slurm("sbatch", "-c2", "--mem=200M", stdin=SCRIPT)
    live.it.pass_time(10.0)
    live.it.end_run(1, cpu_s=15.0, max_rss_gib=0.1)
    lines = dict(line.split(": ", 1) for line in slurm("seff", "1").out.splitlines())
    assert lines["State"] == "COMPLETED (exit code 0)"
    assert lines["Cores per node"] == "2"
    assert re.fullmatch(r"[0-9.]+% of [0-9:-]+ core-walltime", lines["CPU Efficiency"])
    assert re.fullmatch(r"[0-9.]+% of 200.00 MB", lines["Memory Efficiency"])
    assert slurm("seff", "99") == Said(1, "", "seff: error: Job not found: 99\n")


def test_seff_of_an_element_of_an_array(slurm: Slurm, live: Background) -> None:
    slurm("sbatch", "--array=0-1", stdin=SCRIPT)
    live.it.pass_time(10.0)
    live.it.end_run(2)
    assert slurm("seff", "1_1").out.splitlines()[:2] == ["Job ID: 2", "Array Job ID: 1_1"]
