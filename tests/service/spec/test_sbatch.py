"""Batch scripts of Slurm as jobs: those of many fields, each with what it should become as its last line."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path

import pytest

from betimes.errors import InputError, JobFileError
from betimes.service.spec.job_spec import JobSpec, slurm_variables
from betimes.service.spec.sbatch import (
    SALLOC,
    SRUN,
    Given,
    command_line,
    from_environment,
    parse_memory,
    parse_time,
    read_script,
    split_command,
)
from betimes.service.spec.spelling import exported, parse_begin

SCRIPTS = sorted(Path(__file__).with_name("slurm_scripts").glob("*.sbatch"))
ENVIRON = {"HOME": "/u/me", "PATH": "/bin", "BETIMES_TOKEN": "secret", "SLURM_JOB_ID": "9"}
ALWAYS = {"command", "stdin", "env", "workdir", "name"}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_read_or_refused_with_its_line(path: Path) -> None:
    text = path.read_text()
    kind, _, rest = text.rstrip("\n").rpartition("\n# ")[2].partition(": ")
    if kind == "refused":
        with pytest.raises(InputError, match=re.escape(rest)):
            read_script(text, path.name, environ=ENVIRON, workdir="/u/me")
        return
    batch = read_script(text, path.name, environ=ENVIRON, workdir="/u/me")
    expected = json.loads(rest)
    notes = expected.pop("notes", None)
    if notes is not None:
        assert len(batch.notes) == len(notes)
        assert all(map(str.startswith, batch.notes, [f"{path.name}, {each}" for each in notes]))
    JobSpec.model_validate(batch.fields)
    assert batch.fields["stdin"] == text
    assert batch.fields["name"] == expected.pop("name", path.name)
    assert batch.fields["workdir"] == expected.pop("workdir", "/u/me")
    env = expected.pop("env", {"HOME": "/u/me", "PATH": "/bin"})
    assert {
        name: value for name, value in batch.fields["env"].items() if not name.startswith("SLURM_")
    } == env
    assert batch.fields["env"]["SLURM_SUBMIT_DIR"] == "/u/me"
    assert "SLURM_JOB_ID" not in batch.fields["env"]
    if expected.pop("begin_at", None):
        assert batch.fields.pop("begin_at") == datetime(2026, 11, 27, 22).timestamp()
    expected.setdefault("cpu", 1.0)
    assert {name: value for name, value in batch.fields.items() if name not in ALWAYS} == expected


def test_line_breaks_of_dos_are_refused_as_slurm_does() -> None:
    with pytest.raises(JobFileError, match="line 2: the line ends as in DOS"):
        read_script("#!/bin/bash\n#SBATCH --job-name=dos\r\necho hi\r\n", "x", environ=ENVIRON, workdir="/")


@pytest.mark.parametrize(
    ("options", "unit", "variables"),
    [
        ("-N2", (1.0, 0.0), (None, "1(x2)", "2", None)),
        ("-N2 --ntasks-per-node=3 -c2 --gpus-per-node=4", (6.0, 4.0), ("6", "3(x2)", "2", "8")),
        ("-N3 -n8", (3.0, 0.0), ("8", "3(x2),2", "3", None)),
        ("-N2 -n4 --gpus=6 --mem-per-cpu=1G", (2.0, 3.0), ("4", "2(x2)", "2", "6")),
        ("-N2 -n4 --gpus-per-task=1", (2.0, 2.0), ("4", "2(x2)", "2", "4")),
        ("-N2 --ntasks-per-gpu=2 --gpus-per-node=2", (4.0, 2.0), ("8", "4(x2)", "2", "4")),
        ("-N1 -n4 --gpus=2", (4.0, 2.0), ("4", "4", None, "2")),
    ],
)
def test_nodes_are_units(options: str, unit: tuple[float, float], variables: tuple[str | None, ...]) -> None:
    batch = read_script("#!/bin/sh\n", "x", options=split_command(options.split())[0], environ=ENVIRON)
    fields, env = batch.fields, batch.fields["env"]
    assert (fields["cpu"], fields.get("gpu", 0.0)) == unit
    assert str(fields.get("max_units", 1)) == (env.get("SLURM_NNODES") or "1")
    names = ("NTASKS", "TASKS_PER_NODE", "NNODES", "GPUS")
    assert tuple(env.get(f"SLURM_{name}") for name in names) == variables
    assert command_line(fields["command"]) == "batch script x"
    JobSpec.model_validate(fields)


def test_options_prevail_over_lines() -> None:
    text = "#!/bin/sh\n#SBATCH --time=10 --mem=1G\ntrue\n"
    batch = read_script(
        text,
        "a/b.sh",
        options=split_command(["-t5", "--export", "NONE"])[0],
        arguments=["x"],
        environ=ENVIRON,
    )
    assert (batch.fields["time_limit_s"], batch.fields["memory_gib"]) == (300.0, 1.0)
    assert batch.fields["name"] == "b.sh"
    assert batch.fields["command"][-2:] == ["b.sh", "x"]
    assert all(name.startswith("SLURM_") for name in batch.fields["env"])
    with pytest.raises(InputError, match=r"^--time: '1x' is not a time"):
        read_script(text, "b.sh", options=split_command(["--time=1x"])[0])


def test_variables_stand_for_options() -> None:
    environ = {"SBATCH_TIMELIMIT": "7", "SBATCH_NO_KILL": "", "SBATCH_REQUEUE": "no", "SBATCH_WAIT": "1",
               "SBATCH_MEM_PER_NODE": "2G", "SBATCH_ACCOUNT": "", "SBATCH_MEM_BIND_LIST": "0x1"}  # fmt: skip
    given = from_environment("SBATCH_", environ)
    assert {each.name: each.value for each in given} == {"time": "7", "no-kill": "", "wait": "", "mem": "2G"}
    text = "#!/bin/sh\n#SBATCH --time=60 --mem=1G\n"
    fields = read_script(text, "b.sh", options=[*given, Given("mem", "3G", None)]).fields
    assert (fields["time_limit_s"], fields["memory_gib"]) == (420.0, 3.0)
    with pytest.raises(InputError, match=r"^SBATCH_TIMELIMIT in the environment: --time: 'x' is not a time"):
        read_script(text, "b.sh", options=from_environment("SBATCH_", {"SBATCH_TIMELIMIT": "x"}))
    with pytest.raises(InputError, match=r"^SBATCH_CONTAINER in the environment: --container cannot be kept"):
        from_environment("SBATCH_", {"SBATCH_CONTAINER": "/image"})


SRUN_VARIABLES = {
    "SLURM_NPROCS": "9", "SLURM_NTASKS": "3", "SRUN_CPUS_PER_TASK": "2", "SLURM_TIMELIMIT": "1:30:00",
    "SLURM_PARTITION": "short", "SLURM_LABELIO": "1", "SLURM_UNBUFFEREDIO": "0", "SLURM_OVERLAP": "",
    "SLURM_KILL_BAD_EXIT": "0", "SLURM_STDOUTMODE": "o_%t", "SLURM_EXPORT_ENV": "NONE", "SRUN_EXPORT_ENV": "PATH",
    "SLURM_STEP_GRES": "gpu:1", "SLURM_NNODES": "1", "SLURM_REMOTE_CWD": "/w", "SLURM_CPU_BIND": "cores",
    "SLURM_CPUS_PER_TASK": "7", "SBATCH_QOS": "no",
}  # fmt: skip
SALLOC_VARIABLES = {
    "SALLOC_ACCOUNT": "lab", "SALLOC_TIMELIMIT": "10", "SALLOC_BELL": "", "SALLOC_GPUS_PER_NODE": "1",
    "SALLOC_MEM_PER_NODE": "2G", "SLURM_HINT": "nomultithread", "SLURM_NTASKS": "3",
}  # fmt: skip


def test_variables_of_srun_and_salloc() -> None:
    given = from_environment("SLURM_", SRUN_VARIABLES, grammar=SRUN)
    assert {each.name: each.value for each in given} == {
        "ntasks": "3", "cpus-per-task": "2", "time": "1:30:00", "partition": "short", "label": "", "overlap": "",
        "kill-on-bad-exit": "0", "output": "o_%t", "export": "PATH", "gres": "gpu:1", "nodes": "1", "chdir": "/w",
        "cpu-bind": "cores",
    }  # fmt: skip
    within = from_environment("SLURM_", SRUN_VARIABLES | {"SLURM_JOB_ID": "7"}, grammar=SRUN)
    assert {each.name for each in given} - {each.name for each in within} == {"ntasks", "nodes"}
    given = from_environment("SALLOC_", SALLOC_VARIABLES, grammar=SALLOC)
    assert {each.name: each.value for each in given} == {
        "account": "lab", "time": "10", "bell": "", "gpus-per-node": "1", "mem": "2G", "hint": "nomultithread",
    }  # fmt: skip
    for prefix, grammar, variable in (
        ("SLURM_", SRUN, "SLURM_BCAST"),
        ("SLURM_", SRUN, "SLURM_TASK_PROLOG"),
        ("SALLOC_", SALLOC, "SALLOC_KILL_CMD"),
    ):
        with pytest.raises(
            InputError, match=f"^{variable} in the environment: --.* cannot be kept; unset it"
        ):
            from_environment(prefix, {variable: "x"}, grammar=grammar)


def test_options_by_other_names_or_cut_where_that_is_clear() -> None:
    words = ["--depend=afterok:1", "--tasks-per-node", "2", "--share", "--cluster=all", "--part", "short"]
    given, rest = split_command([*words, "job.sh"])
    assert [each.name for each in given] == [
        "dependency",
        "ntasks-per-node",
        "oversubscribe",
        "clusters",
        "partition",
    ]
    assert rest == ["job.sh"]
    read_script("#!/bin/sh\n", "b.sh", options=given)
    with pytest.raises(InputError, match=r"^--clusters: cannot be kept; there is one service"):
        read_script("#!/bin/sh\n", "b.sh", options=split_command(["-M", "other"])[0])
    with pytest.raises(InputError, match=r"^--gpu is no option that Betimes knows; did you mean --gpus"):
        split_command(["--gpu=2"])


@pytest.mark.parametrize(
    ("words", "cpu", "gpu", "tasks"),
    [
        ("--ntasks-per-gpu=2 --gpus=3 --cpus-per-task=4", 24, 3, "6"),
        ("--ntasks-per-gpu=1 --gres=gpu:a100:2 --cpus-per-gpu=4", 8, 2, "2"),
        ("--ntasks-per-gpu=2 --ntasks=5", 5, 3, "5"),
        ("--ntasks-per-gpu=2", 1, 0, None),
    ],
)
def test_tasks_for_each_gpu(words: str, cpu: float, gpu: float, tasks: str | None) -> None:
    fields = read_script("#!/bin/sh\n", "b.sh", options=split_command(words.split())[0]).fields
    assert (fields["cpu"], fields.get("gpu", 0), fields["env"].get("SLURM_NTASKS")) == (cpu, gpu, tasks)


@pytest.mark.parametrize(
    "option",
    ["time=", "time=1-", "time=1:", "mem=", "mem=1.", "nice=", "priority=", "nodes=", "ntasks=", "cpus-per-task=",
     "gpus=", "gpus=a100:", "gres=gpu:", "signal=USR1@", "array=", "array=0-", "array=0-9%", "dependency=afterok:",
     "dependency=afterok:1_", "begin=now+", "licenses=matlab:", "mem-per-cpu=", "mincpus=", "cpus-per-gpu="],
)  # fmt: skip
def test_a_number_of_hundreds_of_digits_is_one_line(option: str) -> None:
    text = f"#!/bin/sh\n#SBATCH --{option}{'9' * 5000}\n"
    with pytest.raises(JobFileError, match=rf"line 2: --{option.partition('=')[0]}: ") as caught:
        read_script(text, "b.sh")
    assert len(str(caught.value)) < 250


def test_what_elements_of_an_array_read() -> None:
    assert slurm_variables("2-8:2,9%1", [2, 4, 6, 8, 9]) == {
        "SLURM_ARRAY_TASK_COUNT": "5",
        "SLURM_ARRAY_TASK_MIN": "2",
        "SLURM_ARRAY_TASK_MAX": "9",
        "SLURM_ARRAY_TASK_STEP": "2",
    }
    assert slurm_variables("0,5,10", [0, 5, 10])["SLURM_ARRAY_TASK_STEP"] == "1"  # as Slurm 22.05 says


def test_a_script_that_calls_srun_needs_it_in_the_path(tmp_path: Path) -> None:
    text = "#!/bin/sh\ncd data\nsrun -n 1 ./x\n"
    environ = {"PATH": str(tmp_path)}
    file = tmp_path / "srun"
    for program in (None, "that of Slurm"):
        if program is not None:
            file.write_text(program)
            file.chmod(0o755)
        (note,) = read_script(text, "b.sh", environ=environ).notes
        assert note.startswith(
            "b.sh: it calls srun, and that of Betimes is not first in your PATH; `betimes slurm "
        )
    file.write_text("from betimes.cli.slurm import main")
    assert read_script(text, "b.sh", environ=environ).notes == []
    (note,) = read_script(text, "b.sh", environ=environ, options=[Given("export", "NONE", None)]).notes
    assert note.endswith("--export leaves that out; write --export=PATH")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800),
        ("1:30", 90),
        ("2:00:00", 7200),
        ("1-2", 93_600),
        ("1-2:30", 95_400),
        ("1-00:00:01", 86_401),
        ("0", None),
        ("infinite", None),
    ],
)
def test_times(text: str, seconds: float | None) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    ("text", "gib"),
    [("1024", 1.0), ("512M", 0.5), ("4G", 4.0), ("4gb", 4.0), ("1T", 1024.0), ("1048576K", 1.0)],
)
def test_memory(text: str, gib: float) -> None:
    assert parse_memory(text) == gib


NOW = datetime(2026, 11, 26, 12, 30).timestamp()


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("now", datetime(2026, 11, 26, 12, 30)),
        ("now+1hour", datetime(2026, 11, 26, 13, 30)),
        ("now+90", datetime(2026, 11, 26, 12, 31, 30)),
        ("now+2days", datetime(2026, 11, 28, 12, 30)),
        ("16:00", datetime(2026, 11, 26, 16)),
        ("08:15:30", datetime(2026, 11, 27, 8, 15, 30)),
        ("noon", datetime(2026, 11, 27, 12)),
        ("tomorrow", datetime(2026, 11, 27)),
        ("tomorrow 9:00", datetime(2026, 11, 27, 9)),
        ("today 9:00", datetime(2026, 11, 26, 9)),
        ("+2h", datetime(2026, 11, 26, 14, 30)),
        ("2026-12-01", datetime(2026, 12, 1)),
        ("2026-12-01T08:00", datetime(2026, 12, 1, 8)),
    ],
)
def test_instants(text: str, at: datetime) -> None:
    assert parse_begin(text, NOW) == at.timestamp()


@pytest.mark.parametrize("text", ["", "soon", "25:00", "now+1fortnight", "tomorrow 25:00", "2026-13-01"])
def test_what_is_no_instant(text: str) -> None:
    with pytest.raises(ValueError, match="is not an instant; write"):
        parse_begin(text, NOW)


def test_exported_variables() -> None:
    assert exported("ALL", ENVIRON) == {"HOME": "/u/me", "PATH": "/bin"}
    assert exported("NONE", ENVIRON) == {}
    assert exported("PATH,SEED=7,MISSING,BETIMES_TOKEN", ENVIRON) == {"PATH": "/bin", "SEED": "7"}
    assert exported("ALL,PATH=/opt", ENVIRON) == {"HOME": "/u/me", "PATH": "/opt"}
    with pytest.raises(ValueError, match="is not a variable"):
        exported("a b", ENVIRON)
    unkept = {"LONG": "x" * 65_537, "BYTES": "\udcff", "BETIMES_RUN_TOKEN": "secret", "": "empty"}
    assert exported("ALL", {**ENVIRON, **unkept}) == {"HOME": "/u/me", "PATH": "/bin"}
    kept = {"LINES": "a\nb", "BASH_FUNC_module%%": "() { :; }", "with space": "é"}
    assert exported("ALL", kept) == kept


def test_a_script_for_bash_is_started_by_one() -> None:
    """Other shells lose the functions in the environment, such as `module` of clusters."""
    for first, shell in (("#!/bin/bash -l", "bash"), ("#!/usr/bin/env bash", "bash"), ("#!/bin/sh", "sh")):
        command = read_script(f"{first}\ntrue\n", "job.sh").fields["command"]
        assert command[0] == shell
        assert command_line(command) == "batch script job.sh"
