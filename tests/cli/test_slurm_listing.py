"""squeue, sacct and sinfo: fields, formats, options, variables and which jobs, as programs call and read them."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from betimes.cli.slurm_fields import TABLES, fields_of
from betimes.cli.slurm_listing import time_of
from betimes.cli.slurm_options import GRAMMARS, REFUSED
from betimes.cli.slurm_values import OF_JOB, OF_NODES
from betimes.errors import InputError
from betimes.service.machines.machine import Machine
from betimes.service.views.models import JobFilter, JobStory, JobView, Page
from betimes.slurm.hostlist import as_list
from betimes.workload import read_trace
from tests.cli.conftest import Call, Said, Slurm
from tests.service.serving import Background

SCRIPT = "#!/bin/bash\n#SBATCH --job-name=align\n./align\n"
OOD = "\x1e" + "\x1f".join(f"%{letter}" for letter in "aABcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRsStTuUvVwWxXyYzZ")
AIIDA = "^^^".join(f"%{letter}" for letter in "itrBuDCRPlMSjV")
AIIDA_DETAILS = (
    "AllocCPUS,Account,AssocID,AveCPU,AvePages,AveRSS,AveVMSize,Cluster,Comment,CPUTime,CPUTimeRAW,DerivedExitCode,"
    "Elapsed,Eligible,End,ExitCode,GID,Group,JobID,JobName,MaxRSS,MaxRSSNode,MaxRSSTask,MaxVMSize,MaxVMSizeNode,"
    "MaxVMSizeTask,MinCPU,MinCPUNode,MinCPUTask,NCPUS,NNodes,NTasks,Priority,Partition,QOSRAW,ReqCPUS,Reserved,ResvCPU,"
    "ResvCPURAW,Start,State,Submit,Suspended,SystemCPU,Timelimit,TotalCPU,UID,User,UserCPU"
)
SLURM2SQL = (
    "JobIDRaw,JobID,JobName,User,Group,Account,Submit,Start,End,Timelimit,Elapsed,Suspended,State,ExitCode,Reason,"
    "DerivedExitCode,Cluster,NTasks,AllocTRES,NNodes,NodeList,Priority,Partition,ReqCPUS,AllocCPUS,CPUTime,TotalCPU,"
    "UserCPU,SystemCPU,MinCPU,MinCPUNode,MinCPUTask,ReqMem,AveRSS,MaxRSS,MaxRSSNode,MaxRSSTask,MaxPages,MaxVMSize,"
    "Comment,ConsumedEnergyRaw,MaxDiskRead,MaxDiskWrite,TRESUsageInTot"
)
REPORTSEFF = "JobID,State,Elapsed,JobIDRaw,TotalCPU,AllocCPUS,REQMEM,NNodes,MaxRSS,Timelimit"
CALLS = {
    "PSI/J": ("squeue -O JobArrayID,StateCompact,Reason -t all --me -j 1,2", None, 3),
    "reportseff's formats": ("sacct --helpformat", None, None),
    "reportseff": (f"sacct -P -n --format={REPORTSEFF} --jobs=1,2", "|", 10),
    "slurm2sql": (f"sacct -o {SLURM2SQL} -P --delimiter=;|; --units=K --allusers -S now-1days", ";|;", 44),
    "simple_slurm": ("squeue --me --noheader -o %i,%j,%t,%M,%L,%D,%C,%m,%b,%R", ",", 10),
    "AiiDA": (f"squeue --noheader -o {AIIDA} --jobs=1,1", "^^^", 14),
    "AiiDA's details": (f"sacct --format={AIIDA_DETAILS} --parsable --jobs=1", "|", 49),
    "Open OnDemand": (f"squeue --all --states=all --noconvert -h -o {OOD}", "\x1f", 51),
    "Open OnDemand's nodes": ("sinfo -a -h -o %C/%A/%D", "/", 7),
    "Open OnDemand's GPUs": ("sinfo -a -h --Node --Format=nodehost,gres:100,gresused:100", None, 3),
    "batchspawner": ("squeue -h -j 1 -o %T~%B", "~", 2),
    "pysqa": ("squeue --format %A|%u|%t|%.15j|%Z --noheader", "|", 5),
    "slurm-buildkite": ("squeue --noheader --name=align --format=%k,%A", ",", 2),
    "nf-tower": ("squeue -o %i,%T -t all -u ada --array-unique", ",", 2),
    "job monitors": ("sacct --allocations --user ada --starttime 00:00 -P -o jobid,jobname,state,elapsedraw", "|", 4),
    "prometheus-slurm-exporter": ("squeue -a -r -h -o %A|%a|%T|%c|%C|%g|%N|%m|%D|%l|%u|%P --states=all", "|", 12),
    "its nodes": ("sinfo -h -o %R|%n|%e|%m|%O|%t|%C|%D|%w", "|", 9),
}  # fmt: skip


READ = {
    "Toil": (
        "sacct -n -j 1,5 --format JobIDRaw,State,ExitCode -P -S 1970-01-01", r"^(\d+)\|(\w+)\|(\d+):\d+$",
        "1 RUNNING 0 2 FAILED 3 3 PENDING 0 5 PENDING 0",
    ),
    "Toil's queue": ("squeue -h --format '%i %t %M'", r"^(\d+\S*) (R) ([\d:-]+)$", "1_3 R 1:05"),
    "Toil's nodes": ("sinfo -Nhe --format '%m %c'", r"^(\d+) (\d+)$", "262144 3"),
    "Toil's partitions": (
        "sinfo -a -o '%P %G %l %p %c %m'", r"^(\S+)\*? (\S+) (\S+) (\d+) (\d+) (\d+)$",
        "betimes* gpu:2 infinite 1 3 262144",
    ),
    "batchtools": ("squeue -h -o %i -u ada -t R,S,CG -r", r"^(\S+)$", "1_3"),
    "parsl": ("squeue --job 1,5", r"^ *(\d\S*) +\S+ +\S+ +\S+ +(\S+)", "1_[5-6] PD 5 PD 1_3 R"),
    "BEE": ("sacct -n -j 1_3", r"^(?:\S+ +){5}(\S+)", "RUNNING"),
    "ReFrame": (
        "sacct -S 2026-11-01 -P -j 1 -o jobid,state,exitcode,end,nodelist",
        r"^(\d+(?:\+\d+|_\d+|_\[\d+-\d+\])?)\|(\S+)([^\|]*)\|(\d+)\:\d+\|\S+\|(?:.*)",
        "1_3 RUNNING 0 1_4 FAILED 3 1_[5-6] PENDING 0",
    ),
    "ReFrame's queue": (
        "squeue -h -j 1,5 -o '%i|%T|%N|%r'", r"^(\d+\S*)\|(\S+)\|\S*\|(.+)",
        "1_[5-6] PENDING Resources 5 PENDING JobHeldUser 1_3 RUNNING None",
    ),
    "ReFrame's nodes": (
        "scontrol -a show -o node here", r"NodeName=(\S+).* ActiveFeatures=(\S+).* State=(\S+).* Partitions=(\S+)",
        "here ssd,zone=b MIXED betimes",
    ),
    "ReFrame's partition": ("scontrol -a show -o partitions", r"PartitionName=(\S+)\s+.*Default=YES", "betimes"),
    "node monitors": (
        "scontrol show node", r"CPUAlloc=(\d+)\s+CPUEfctv=(\d+)\s+CPUTot=(\d+)\s+CPULoad=\S+\s+AvailableFeatures=",
        "2 3 3",
    ),
    "their resources": ("scontrol show node", r"(CfgTRES=\S+)\s+(AllocTRES=\S+)",
                        "CfgTRES=cpu=3,mem=256G,billing=3,gres/gpu=2 AllocTRES=cpu=2,mem=1536M,billing=2"),
    "Snakemake's partitions": ("scontrol show partition -M betimes", r"TRES=.*gres/gpu=(\d+)", "2"),
    "Snakemake": (
        "sacct -X --parsable2 --clusters all --noheader --format=JobIdRaw,State --starttime 2026-11-26T07:00 "
        "--endtime now --name later", r"^(\d+)\|(\w+)$", "5 PENDING",
    ),
    "metagenome-atlas": ("scontrol show jobid 5", r" JobState=(\S+)", "PENDING"),
    "scripts": ("scontrol show job -dd -o 5", r"^JobId=(\d+) .* JobState=(\S+) .* NodeList=(\S+)", "5 PENDING (null)"),
}  # fmt: skip
"""Calls as they stand in the sources of public programs, what these look for in the output, and what they find."""
SUBMITTED = (
    "-J cromwell_1_main -D /tmp -o out -e err -t 600 -p short -n 2 --mem-per-cpu=100 --wrap '/usr/bin/env bash script'",
    "-J toil_job_1 --export=A=b --mem=100 --cpus-per-task=1 --wrap=true",
    "--job-name a --export=ALL --comment r -A lab -p short --cluster betimes -t 10 --mem 100 --ntasks-per-gpu=1 "
    "--cpus-per-gpu=1 --gpus=1 -D /tmp --wrap=true",
    "--depend=afterany:1 --ntasks-per-node=1 --mem=100M --time=1:00:00 --wrap=true",
    "-J x -o x.out -e x.err -t 1:00:00 --partition=trc --cpus-per-task=1 --wrap=true --dependency=afterok:5 "
    "--kill-on-invalid-dep=yes",
)


MACHINE = Machine("here", "virtual", "n", 3.0, 256.0, 2.0, labels=(("ssd", "yes"), ("zone", "b")))
RAN_S, RUNS_S = 70.0, 65.0
SERVES = {"machines": (MACHINE,), "ago_s": RAN_S + RUNS_S}


@pytest.fixture
def jobs(slurm: Slurm, live: Background, monkeypatch: pytest.MonkeyPatch) -> Iterator[Background]:
    """An array of which one element runs and one has failed, and a job that is held; here it is about noon."""
    asked = [
        "-t",
        "10",
        "--comment=why",
        "-c",
        "2",
        "--mem=1536M",
        "-A",
        "lab",
        "--export=VIRTUAL_WORK_S=300",
    ]
    slurm("sbatch", "-H", "--array=3-6", *asked, stdin=SCRIPT)
    slurm("sbatch", "-H", "-J", "later", stdin=SCRIPT)
    slurm("scontrol", "release", "1_4")
    live.it.pass_time(RAN_S)
    live.it.end_run(2, 3)
    live.it.pass_time(time.time() - RUNS_S - live.it.clock.now_s())
    for number in ("1_3", "1_5", "1_6"):
        slurm("scontrol", "release", number)
    live.it.pass_time(RUNS_S)
    with monkeypatch.context() as patch:
        patch.setenv("TZ", f"NOON{time.gmtime().tm_hour - 12:+d}")
        time.tzset()
        yield live
    time.tzset()


@pytest.mark.usefixtures("jobs")
def test_calls_of_programs(slurm: Slurm) -> None:
    for program, (call, between, count) in CALLS.items():
        command, *words = call.split(" ")
        said = slurm(command, *words)
        assert (said.code, said.err) == (0, ""), program
        lines = said.out.strip("\n").split("\n")
        counts = {len((line[:-1] if line.endswith("|") else line).split(between)) for line in lines}
        assert count is None or counts == {count}, program


@pytest.mark.usefixtures("jobs")
def test_what_programs_find(slurm: Slurm) -> None:
    for program, (call, pattern, found) in READ.items():
        command, *words = shlex.split(call)
        said = slurm(command, *words)
        assert (said.code, said.err) == (0, ""), program
        groups = [
            each for match in re.finditer(pattern, said.out, re.MULTILINE) for each in match.groups() if each
        ]
        assert " ".join(groups) == found, program
    for number, words in enumerate(SUBMITTED, 6):
        assert slurm("sbatch", *shlex.split(words)) == Said(0, f"Submitted batch job {number}\n", ""), words


@pytest.mark.usefixtures("jobs")
def test_every_field_is_printed(slurm: Slurm) -> None:
    for command in TABLES:
        _every_field(slurm, command)


def _every_field(slurm: Slurm, command: str) -> None:
    fields = fields_of(command)
    assert {field.value for field in fields} <= {"", *(OF_NODES if command == "sinfo" else OF_JOB)}
    letters = [field.letter for field in fields if field.letter]
    assert len(letters) == len(set(letters))
    if command == "sacct":
        heads, *rows = slurm("sacct", "-P", "-o", "ALL").out.splitlines()
        assert heads.split("|") == [field.name for field in fields]
        assert {len(row.split("|")) for row in rows} == {len(fields)}
        return
    names = ",".join(f"{field.name}:|" for field in fields)
    heads, *rows = slurm(command, "-O", names).out.splitlines()
    assert heads.split("|")[:-1] == [field.head for field in fields]
    assert {len(row.split("|")) for row in rows} == {len(fields) + 1}
    assert slurm(command, "-h", "-o", "%all").out.count("|") == len(rows) * (len(letters) - 1)


@pytest.mark.usefixtures("jobs")
def test_what_is_known_and_unknown_of_jobs(slurm: Slurm, tmp_path: Path) -> None:
    told = slurm("squeue", "-h", "-r", "-S", "i", "-o", "%i|%k|%a|%B|%N|%Z|%K|%F|%C|%m|%l|%v|%f|%H|%S|%q")
    running, _, _, held = (line.split("|") for line in told.out.splitlines())
    assert running[:14] == ["1_3", "why", "lab", "here", "here", str(tmp_path), "3", "1", "2", "1536M", "10:00",
                            "(null)", "(null)", "*"]  # fmt: skip
    assert held[:13] == ["5", "(null)", "(null)", "n/a", "", str(tmp_path), "N/A", "5", "1", "0", "UNLIMITED", "(null)",
                         "(null)"]  # fmt: skip
    told = slurm(
        "sacct",
        "-n",
        "-P",
        "-o",
        "JobID,State,NodeList,Start,End,Eligible,TimelimitRaw,ElapsedRaw,CPUTimeRAW",
    )
    lines = [line.split("|") for line in told.out.splitlines()]
    assert [line[:3] for line in lines] == [
        ["1_3", "RUNNING", "here"],
        ["1_4", "FAILED", "here"],
        ["1_[5-6]", "PENDING", "None assigned"],
        ["5", "PENDING", "None assigned"],
    ]
    assert lines[0][4] == "Unknown"
    assert lines[1][6:] == ["10", "70", "140"]
    assert lines[3][3:7] == ["Unknown", "Unknown", "Unknown", "UNLIMITED"]
    told = slurm("sacct", "-X", "-P", "-n", "-j", "1_3", "-o", "ReqMem,AllocTRES", "--units=K").out
    assert told == "1572864K|cpu=2,mem=1536M,node=1,billing=2\n"


@pytest.mark.usefixtures("jobs")
def test_waiting_elements_of_an_array_are_one_line(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    assert slurm("squeue", "-h", "-o", "%i %t").out == "1_[5-6] PD\n5 PD\n1_3 R\n"
    assert slurm("squeue", "-h", "-r", "-o", "%i").out == "1_5\n1_6\n5\n1_3\n"
    assert slurm("squeue", "-h", "-j", "1_6", "-o", "%i").out == "1_6\n"
    assert slurm("sacct", "-n", "-X", "-P", "-o", "JobID", "-j", "1", "--array").out == "1_3\n1_4\n1_5\n1_6\n"
    monkeypatch.setenv("SLURM_BITSTR_LEN", "9")
    slurm("sbatch", "--array=0-20:2", stdin=SCRIPT)
    assert slurm("squeue", "-h", "-j", "6", "-o", "%i").out == "6_[0,2,4,6,...]\n"
    monkeypatch.setenv("SLURM_BITSTR_LEN", "0")
    assert slurm("squeue", "-h", "-j", "6", "-o", "%i").out.endswith("16,18,20]\n")


CHOSEN = {
    "squeue -A lab": "1_[5-6] 1_3",
    "squeue --accounts=nobody": "",
    "squeue -w here": "1_3",
    "squeue -w other[1-3]": "",
    "squeue -n later,other": "5",
    "squeue -p betimes -S -i": "5 1_[5-6] 1_3",
    "squeue -S t,i": "1_[5-6] 5 1_3",
    "squeue -q default --notme": "",
    "squeue -u ada -t pd,failed": "1_4 1_[5-6] 5",
    "squeue -L matlab": "",
    "squeue -R none": "",
    "sacct -I 2": "1_3 1_4 1_[5-6]",
    "sacct -i 1-2 --name later": "5",
    "sacct -s R,F": "1_3",
    "sacct -s F -S now-1hour": "1_4",
    "sacct -s PD -S now-1hour": "1_3 1_4 1_[5-6] 5",
    "sacct -R NonZeroExitCode": "1_4",
    "sacct --uid=nobody": "",
    "sacct -q other": "",
    "sacct -W key": "",
    "sacct -C fast": "",
    "sacct -N here": "1_3 1_4",
}


@pytest.mark.usefixtures("jobs")
def test_which_jobs(slurm: Slurm) -> None:
    for call, numbers in CHOSEN.items():
        command, *options = call.split()
        form = ("-h", "-o", "%i") if command == "squeue" else ("-n", "-X", "-P", "-o", "JobID")
        said = slurm(command, *options, *form)
        assert (said.code, said.err, said.out.split()) == (0, "", numbers.split()), call


@pytest.mark.parametrize("live", [{"ago_s": 2 * 86_400.0}], indirect=True)
def test_sacct_tells_of_own_jobs_since_midnight(
    slurm: Slurm, jobs: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = ("sacct", "-n", "-X", "-P", "-o", "JobID")
    assert slurm(*own).out == "1_3\n1_[5-6]\n5\n"
    assert slurm(*own, "-j", "1_4").out == "1_4\n"
    assert slurm(*own, "-S", "now-3days").out == "1_3\n1_4\n1_[5-6]\n5\n"
    monkeypatch.setenv("BETIMES_TOKEN", jobs.it.token_of("eve"))
    assert slurm(*own).out == ""
    assert slurm(*own, "-a").out == slurm(*own, "-u", "ada").out == "1_3\n1_[5-6]\n5\n"
    heads = slurm("sacct").out.splitlines()[:2]
    assert heads == [
        "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode ",
        "------------ ---------- ---------- ---------- ---------- ---------- -------- ",
    ]


TIMES = (
    "06:30 6:30:15PM 1127 112726-10:00 11.27 11/27/26-18:00:01 2026-11-27 2026-11-27T18:00 2026-11-27-18:00 today "
    "midnight noon fika teatime now now-90 now-2days now+1week"
)
NO_TIMES = ("soon", "", "25:00", "13/27", "2026-13-01", "now-2fortnights", "1127T", "9" * 400)


def test_times_of_sacct() -> None:
    at = {text: datetime.fromtimestamp(time_of("starttime", text)) for text in TIMES.split()}
    assert at["112726-10:00"] == datetime(2026, 11, 27, 10)
    assert at["11/27/26-18:00:01"] == datetime(2026, 11, 27, 18, 0, 1)
    assert at["2026-11-27T18:00"] == at["2026-11-27-18:00"] == datetime(2026, 11, 27, 18)
    assert (at["1127"].month, at["11.27"].day, at["fika"].hour) == (11, 27, 15)
    assert (at["6:30:15PM"].hour, at["6:30:15PM"].second, at["06:30"].hour) == (18, 15, 6)
    assert at["6:30:15PM"] <= datetime.now()  # of the past
    for text in NO_TIMES:
        with pytest.raises(
            InputError, match=r"^--starttime=.*: is not a time; write 2026-11-27T18:00"
        ) as caught:
            time_of("starttime", text)
        assert len(str(caught.value)) < 200


def test_variables_of_the_environment(
    slurm: Slurm, jobs: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "SQUEUE_FORMAT": "%i/%T", "SQUEUE_STATES": "RUNNING", "SACCT_FORMAT": "jobid,state%3", "SINFO_FORMAT": "%R",
        "SQUEUE_SORT": "-i",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    assert slurm("squeue").out == "JOBID/STATE\n1_3/RUNNING\n"
    assert slurm("squeue", "-h", "-t", "PD", "-O", "JobArrayID:4").out == "5   \n1_[5\n"
    assert slurm("sacct", "-n", "-j", "1_3").out == "1_3          RU+ \n"
    assert slurm("sinfo").out == "PARTITION\nbetimes\n"
    started_at = jobs.it.jobs()[0].started_at or 0.0
    monkeypatch.setenv("SLURM_TIME_FORMAT", "%s")
    assert slurm("squeue", "-h", "-o", "%S").out == f"{int(started_at)}\n"
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    assert re.fullmatch(r"(Ystday \d\d:\d\d|\d\d:\d\d:\d\d)\n", slurm("squeue", "-h", "-o", "%S").out)
    monkeypatch.setenv("SLURM_CLUSTERS", "other")
    assert "--clusters=other: there is one service" in slurm("squeue").err


def test_help_lists_options_and_refused_ones_say_what_to_do(slurm: Slurm) -> None:
    for command in TABLES:
        _help_and_refused(slurm, command)


def _help_and_refused(slurm: Slurm, command: str) -> None:
    told = slurm(command, "--help").out
    assert f"{command}: List " in told
    for option in GRAMMARS[command].options.split():
        name = re.split("[=?!/]", option)[0]
        assert f"--{name}" in told
        if "!" in option:
            said = slurm(command, f"--{name}=x" if "=" in option else f"--{name}")
            assert (
                said.err
                == f"{command}: error: --{name}: cannot be kept; {REFUSED.get(name, 'leave it out')}\n"
            )


WRONG = {
    "squeue --foo": "--foo: squeue of Slurm has no such option; leave it out",
    "squeue --partitoin=x": "did you mean --partition?",
    "squeue --no": "--no: may be --noconvert or --nodelist or --noheader or --notme",
    "squeue --me=x": "--me takes no value",
    "squeue -i 0": "--iterate=0: is not a number of seconds",
    "squeue -o": "--format needs a value",
    "squeue -O Nosuch": "--Format Nosuch: is not known",
    "squeue -o %99999i": "a width of '99999' cannot be kept",
    "squeue -S nosuch": "--sort nosuch: is not known",
    "sacct -o Stat,Usr": "--format Usr: is not known; did you mean User?",
    "sacct --units=X": "--units=X: is not known",
    "sacct -I few": "--ncpus=few: is not a number or a range",
    "sacct -S now -E now-1hour": "--starttime is after --endtime",
    "squeue -j 1_[x]": "'1_[x]': give a number",
    "squeue -j 1_[3-5-7]": "'3-5-7': give indices of an array",
    "sinfo -o %j": "--format %j: is not known",
}


@pytest.mark.usefixtures("jobs")
def test_bad_options_are_one_line(slurm: Slurm) -> None:
    for call, part in WRONG.items():
        command, *options = call.split()
        said = slurm(command, *options)
        assert (said.code, said.err.count("\n"), said.out) == (1, 1, ""), call
        assert part in said.err


def test_json_of_squeue(slurm: Slurm, jobs: Background, tmp_path: Path) -> None:
    told = json.loads(slurm("squeue", "--json").out)
    assert set(told) == {"jobs", "last_backfill", "last_update", "meta", "errors", "warnings"}
    assert [job["job_id"] for job in told["jobs"]] == [1, 3, 4, 5]
    first: dict[str, Any] = told["jobs"][0]
    assert first["job_state"] == ["RUNNING"]
    assert first["array_job_id"] == {"set": True, "infinite": False, "number": 1}
    assert first["time_limit"] == {"set": True, "infinite": False, "number": 10}
    assert told["jobs"][3]["time_limit"] == {"set": False, "infinite": True, "number": 0}
    assert (first["nodes"], first["cpus"]["number"], first["comment"]) == ("here", 2, "why")
    assert first["current_working_directory"] == str(tmp_path)
    assert first["exit_code"]["status"] == ["SUCCESS"]
    assert len(first) > 120
    assert [job["job_id"] for job in json.loads(slurm("squeue", "--json", "-t", "F").out)["jobs"]] == [2]


def test_what_was_submitted_is_asked_for_once(
    slurm: Slurm, jobs: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(6):
        slurm("sbatch", "--array=1-20", "-t", "7", stdin=SCRIPT)
    asked, backend = list[JobFilter](), jobs.it.backend
    list_jobs = backend.jobs

    async def noted(which: JobFilter) -> Page[JobView]:
        asked.append(which)
        return await list_jobs(which)

    async def one_by_one(number: int) -> JobStory:
        raise AssertionError(number)

    monkeypatch.setattr(backend, "jobs", noted)
    monkeypatch.setattr(backend, "job", one_by_one)
    told = json.loads(slurm("squeue", "--json").out)["jobs"]
    assert len(told) == 124
    assert {job["time_limit"]["number"] for job in told[4:]} == {7}
    assert [which.spec for which in asked] == [False, True, True]
    assert slurm("squeue", "-h", "-r", "-o", "%l").out.count("7:00\n") == 120
    monkeypatch.setenv("BETIMES_TOKEN", jobs.it.token_of("eve"))
    assert slurm("squeue", "-h", "-t", "R", "-o", "%i %l").out == "1_3 N/A\n"


def test_json_of_sacct(slurm: Slurm, jobs: Background, monkeypatch: pytest.MonkeyPatch) -> None:
    told = json.loads(slurm("sacct", "--json").out)
    failed = told["jobs"][1]
    assert (failed["job_id"], failed["state"]) == (2, {"current": ["FAILED"], "reason": "NonZeroExitCode"})
    assert (failed["exit_code"]["status"], failed["exit_code"]["return_code"]["number"]) == (["ERROR"], 3)
    assert (failed["time"]["elapsed"], failed["time"]["limit"]["number"]) == (70, 10)
    assert {each["type"]: each["count"] for each in failed["tres"]["requested"]} == {
        "cpu": 2, "mem": 1536, "node": 1, "billing": 2,
    }  # fmt: skip
    monkeypatch.setenv("BETIMES_TOKEN", jobs.it.token_of("eve"))
    (of_others,) = json.loads(slurm("sacct", "--json", "-j", "1_4").out)["jobs"]
    assert (of_others["user"], of_others["working_directory"], set(of_others)) == ("ada", "", set(failed))


def test_the_documented_recipe_makes_a_trace(
    slurm: Slurm, jobs: Background, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_TIME_FORMAT", "%s")
    said = slurm(
        "sacct", "--parsable2", "--allusers", "--allocations", "--starttime=2024-01-01",
        "--format=JobIDRaw,User,Submit,Start,ElapsedRaw,TimelimitRaw,AllocCPUS,ReqCPUS,AllocTRES,State,Partition",
    )  # fmt: skip
    (tmp_path / "dump").write_text(said.out)
    found = read_trace(tmp_path / "dump")
    assert (found.job_id.tolist(), found.work_s.tolist(), found.estimate_s.tolist()) == (
        [2],
        [140.0],
        [600.0],
    )


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("live", [{"machines": (replace(MACHINE, gpu=0.0),)}], indirect=True)
def test_sinfo_groups_and_chooses_nodes(slurm: Slurm, betimes: Call) -> None:
    betimes("nodes", "add", "big", "--cpu", "64", "--memory", "256GiB", "--gpu", "2")
    betimes("nodes", "drain", "big-0")
    assert slurm("sinfo", "-h", "-o", "%t %D %N").out == "idle 1 here\ndrain 1 big-0\n"
    assert slurm("sinfo", "-h", "-S", "N", "-o", "%t %N").out == "drain big-0\nidle here\n"
    assert slurm("sinfo", "-h", "-o", "%N").out == "big-0,here\n", "by what is printed alone, as Slurm does"
    assert slurm("sinfo", "-R", "-h", "-o", "%E %N").out == "drained by an operator big-0\n"
    assert slurm("scontrol", "update", "NodeName=here", "State=DRAIN", "Reason=bad fan").code == 0
    at = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
    ours, theirs = sorted(slurm("sinfo", "-R", "-h").out.splitlines())
    assert re.fullmatch(rf"bad fan {{14}}ada {{7}}{at} here", ours), ours
    assert re.fullmatch(rf"drained by an operat ada {{7}}{at} big-0", theirs), theirs
    assert re.search(rf"   Reason=bad fan \[ada@{at}\]\n", slurm("scontrol", "show", "node", "here").out)
    assert slurm("scontrol", "update", "nodename=here", "state=resume").code == 0
    assert slurm("sinfo", "-R", "-h", "-o", "%E %u %N").out == "drained by an operator ada big-0\n"
    assert "Reason" not in slurm("scontrol", "show", "node", "here").out
    for words, said in (
        (("State=DRAIN",), "You must specify a reason when DRAINING a node"),
        (("State=POWER_DOWN",), "write scontrol update NodeName=n1 State=DRAIN Reason=TEXT"),
        (("State=RESUME", "Weight=2"), "weight of a node cannot be changed"),
        ((), "write scontrol update NodeName=n1 State=DRAIN"),
    ):
        refused = slurm("scontrol", "update", "NodeName=here", *words)
        assert (refused.code != 0, said in refused.err) == (True, True), refused.err
    assert slurm("sinfo", "-h", "-N", "-O", "NodeHost:6,Gres:8,StateLong").out == (
        "here  (null)  idle                \nbig-0 gpu:2   drained             \n"
    )
    assert slurm("sinfo", "-p", "nosuch").out == "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
    assert slurm("sinfo", "-h", "-n", "big-0,x[1-3]", "-o", "%n").out == "big-0\n"
    assert slurm("sinfo", "-h", "-r", "-t", "idle", "-o", "%n").out == "here\n"


def test_names_forge_no_lines(slurm: Slurm, live: Background) -> None:
    slurm("sbatch", "-J", "a\x1b[2J\nb|c\td", stdin="#!/bin/sh\ntrue\n")
    for words in (
        ("squeue",), ("squeue", "-h", "-O", "Name:40,Comment"), ("sacct", "-P"), ("sacct", "-l"), ("squeue", "--json"),
    ):  # fmt: skip
        out = slurm(*words).out
        assert out.replace("\n", "").isprintable()
        assert "json" in words[-1] or len(out.splitlines()) <= 3


SEVERAL = tuple(
    replace(MACHINE, name=name, gpu=2.0 * (name == "g0"), labels=()) for name in ("n0", "n1", "n2", "g0")
)


@pytest.mark.parametrize("live", [{"machines": SEVERAL, "policy": "nodes:easy"}], indirect=True)
def test_jobs_of_several_nodes(slurm: Slurm, live: Background, betimes: Call) -> None:
    slurm("sbatch", "-N3", "-c3", "--mem=1G", "--wrap=true", "--export=VIRTUAL_WORK_S=300")
    slurm("sbatch", "-N4", "-c3", "--wrap=true")
    slurm("sbatch", "-N2", "-n2", "--wrap=true")  # both on one machine
    (run,) = betimes("job", "1", "--json").json()["runs"]
    places = [place["node"] for place in run["places"]]
    names = as_list(sorted(places))
    assert slurm("squeue", "-h", "-S", "i", "-o", "%i %t %D").out == "1 R 3\n2 PD 4\n3 R 2\n"
    assert slurm("squeue", "-h", "-j", "1", "-o", "%N %R %B").out == f"{names} {names} {places[0]}\n"
    assert slurm("squeue", "-h", "-j", "1", "-O", "NumNodes:4,tres-alloc:40").out.split() == [
        "3",
        "cpu=9,mem=3G,node=3,billing=9",
    ]
    story = slurm("scontrol", "show", "job", "1").out
    for text in (f"NodeList={names}\n", f"BatchHost={places[0]}\n", "NumNodes=3 NumCPUs=9", "mem=3G,node=3,"):
        assert text in story
    assert "NumNodes=4 NumCPUs=12" in slurm("scontrol", "show", "job", "2").out
    (shown,) = json.loads(slurm("squeue", "--json", "-j", "1").out)["jobs"]
    assert (shown["node_count"]["number"], shown["nodes"]) == (3, names)
    live.it.pass_time(400.0)
    accounted = slurm("sacct", "-n", "-P", "-j", "1", "-o", "NNodes,NodeList,AllocTRES")
    assert accounted.out == f"3|{names}|cpu=9,mem=3G,node=3,billing=9\n"
    (shown,) = json.loads(slurm("sacct", "--json", "-j", "1").out)["jobs"]
    counted = {each["type"]: each["count"] for each in shown["tres"]["allocated"]}
    assert (shown["allocation_nodes"], shown["nodes"], counted["node"]) == (3, names, 3)


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("live", [{"machines": SEVERAL, "policy": "nodes:easy"}], indirect=True)
def test_nodes_are_listed_in_short_and_apart_where_a_column_is_of_one(slurm: Slurm) -> None:
    assert slurm("sinfo", "-h", "-o", "%D %N").out == "4 g0,n[0-2]\n"
    assert slurm("sinfo", "-h", "-o", "%n %c").out == "n0 3\nn1 3\nn2 3\ng0 3\n"
    assert slurm("sinfo", "-h", "-o", "%o").out == "n0\nn1\nn2\ng0\n"
    assert slurm("sinfo", "-h", "-o", "%G %N").out == "(null) n[0-2]\ngpu:2 g0\n"
    assert "Nodes=g0,n[0-2]\n" in slurm("scontrol", "show", "partition").out
