"""A command is started exactly as given, and how it ends is told exactly."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from betimes.service.scheduling.events import Started
from tests.service.executors.running import (
    RUN,
    a_launch,
    executing,
    log_of,
    play,
    python,
    run_to_end,
    shim_of,
)

ARGUMENTS = [
    "two words",
    "",
    "'single' \"double\"",
    "line\nbreak",
    "$HOME `id` \\ * ;",
    "größe 试 🚀",
    "-c",
    "\x01\x7f",
]


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_an_exit_code_is_told(at: Path, code: int) -> None:
    ended = run_to_end(a_launch(at, "sh", "-c", f"exit {code}"))

    assert (ended.exit_code, ended.signal, ended.why, ended.message) == (code, None, "exited", None)


@pytest.mark.parametrize("text", [None, "", "one\n", "größe\n" * 9000])
def test_a_command_reads_what_came_with_it(at: Path, text: str | None) -> None:
    launch = a_launch(at, "cat", stdin=text)

    assert run_to_end(launch).exit_code == 0
    assert log_of(launch) == (text or "")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGPIPE])
def test_a_signal_is_told(at: Path, number: signal.Signals) -> None:
    ended = run_to_end(a_launch(at, "sh", "-c", f"kill -{number.value} $$"))

    assert (ended.exit_code, ended.signal, ended.why) == (None, number, "exited")


def test_starting_is_told_before_ending_with_instants_and_usage(at: Path) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            launch = a_launch(at, *python("x = bytearray(300 << 20); sum(range(3_000_000))"))
            await executor.start(launch)
            ended = await heard.ended()

            started = heard.reports[0]
            assert isinstance(started, Started)
            assert not started.adopted
            assert heard.reports == [started, ended]
            assert started.at_s <= ended.at_s
            assert ended.max_rss_gib is not None
            assert 0.29 < ended.max_rss_gib < 1.0
            assert ended.cpu_s is not None
            assert ended.cpu_s > 0.01

    play(scenario())


def test_a_short_command_is_told_as_started_too(at: Path) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            for number in range(1, 6):
                launch = a_launch(at, "true", run=RUN._replace(number=number))
                await executor.start(launch)
                await heard.ended(launch.run)
            assert [isinstance(report, Started) for report in heard.reports] == [True, False] * 5

    play(scenario())


def test_arguments_arrive_as_they_are(at: Path) -> None:
    launch = a_launch(at, *python("import sys, json; print(json.dumps(sys.argv[1:]))", *ARGUMENTS))

    assert run_to_end(launch).exit_code == 0
    assert json.loads(log_of(launch)) == ARGUMENTS


def test_the_environment_is_what_was_given_and_what_the_executor_knows(at: Path) -> None:
    given = {"PATH": os.environ["PATH"], "GREETING": "hello\n wörld=1", "EMPTY": "", "PYTHONPATH": "/nowhere"}
    launch = a_launch(at, "env", "-0", env=given, cpu=1.0, gpu=1.0)

    run_to_end(launch, cpus=[0], gpus=["GPU-a", "GPU-b"])

    found = dict(line.split("=", 1) for line in log_of(launch).rstrip("\0").split("\0"))
    assert found == {
        **given,
        "BETIMES_RUN_DIR": f"{launch.folder}/job",
        "BETIMES_RUN_ID": launch.identity,
        "BETIMES_CPUS": "0",
        "CUDA_VISIBLE_DEVICES": "GPU-a",
    }


def test_a_run_without_gpus_sees_none_where_there_are_some(at: Path) -> None:
    launch = a_launch(at, "sh", "-c", 'echo "[$CUDA_VISIBLE_DEVICES]"')

    run_to_end(launch, gpus=["GPU-a"])

    assert log_of(launch) == "[]\n"


def test_bytes_that_are_no_utf8_pass_unchanged(at: Path) -> None:
    launch = a_launch(at, "printf", "%s", os.fsdecode(b"a\xffb"))

    run_to_end(launch)

    assert Path(launch.folder, "log").read_bytes() == b"a\xffb"


def test_the_command_begins_in_its_folder_in_its_own_session_with_default_signals_and_no_input(
    at: Path,
) -> None:
    workdir = at / "a folder"
    workdir.mkdir()
    program = "pwd; cat; grep -E 'SigBlk|SigIgn' /proc/self/status; ls -C /proc/self/fd; cut -d' ' -f5,6 /proc/$$/stat"
    launch = a_launch(at, "sh", "-c", program, workdir=str(workdir))

    with (at / "passed on").open("w") as passed_on:
        os.set_inheritable(passed_on.fileno(), True)
        run_to_end(launch)

    where, blocked, ignored, files, session = log_of(launch).splitlines()
    assert where == str(workdir)
    assert int(blocked.split()[1], 16) == 0
    assert int(ignored.split()[1], 16) & ~(3 << 31) == 0  # 32 and 33 are the C library's own
    assert files.split() == ["0", "1", "2", "3"]  # the last one is the listing's own
    assert session == f"{shim_of(launch)['pgid']} {shim_of(launch)['pgid']}"


def test_a_program_that_writes_to_a_closed_pipe_is_ended_by_it(at: Path) -> None:
    launch = a_launch(at, "sh", "-c", "yes | head -n 1; exit 7")

    assert run_to_end(launch).exit_code == 7
    assert log_of(launch) == "y\n"


def make(at: Path, name: str, text: str, mode: int) -> str:
    file = at / name
    file.write_text(text)
    file.chmod(mode)
    return str(file)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("no-such-program", "'no-such-program' does not exist: it is in none of the folders of PATH"),
        ("./no-such-file", "'./no-such-file' does not exist (seen from the working directory"),
        ("./plain", "'./plain' is not executable; make it so (chmod +x)"),
        ("./bare", "'./bare' is no program for this machine; a script needs a first line such as #!/bin/sh"),
        ("./windows", "'./windows' cannot run: its first line ends with a carriage return, as on Windows"),
        ("./orphan", "'./orphan' cannot run: the interpreter that its first line names does not exist"),
    ],
)
def test_a_command_that_cannot_start_says_why(at: Path, command: str, said: str) -> None:
    make(at, "plain", "#!/bin/sh\n", 0o644)
    make(at, "bare", "echo hello\n", 0o755)
    make(at, "orphan", "#!/no/such/interpreter\n", 0o755)
    make(at, "windows", "#!/bin/sh\r\necho 1\r\n", 0o755)

    async def scenario() -> None:
        async with executing() as (executor, heard):
            await executor.start(a_launch(at, command))
            ended = await heard.ended()
            assert heard.reports == [ended]  # it never started
            assert (ended.why, ended.exit_code, ended.signal) == ("start-failed", None, None)
            assert ended.message is not None
            assert said in ended.message

    play(scenario())


@pytest.mark.parametrize(
    ("workdir", "said"), [("gone", "does not exist; create it"), ("file", "is not a folder")]
)
def test_a_missing_working_directory_is_named(at: Path, workdir: str, said: str) -> None:
    (at / "file").touch()

    ended = run_to_end(a_launch(at, "true", workdir=str(at / workdir)))

    assert ended.why == "start-failed"
    assert (ended.message or "").startswith(f"the working directory {str(at / workdir)!r} {said}")


def test_a_folder_that_cannot_be_made_is_named(at: Path) -> None:
    (at / "runs").write_text("a file where a folder should be")

    ended = run_to_end(a_launch(at, "true"))

    assert ended.why == "start-failed"
    assert ended.message is not None
    assert f"cannot start it: {at}/runs" in ended.message


def test_whole_cores_are_pinned_and_shares_are_not(at: Path) -> None:
    show = python("import os; print(sorted(os.sched_getaffinity(0)), os.environ.get('BETIMES_CPUS'))")
    cores = sorted(os.sched_getaffinity(0))
    whole, share = a_launch(at, *show, cpu=1.0), a_launch(at, *show, cpu=0.5, run=RUN._replace(number=2))

    run_to_end(whole)
    run_to_end(share)

    assert log_of(whole) == f"[{cores[0]}] {cores[0]}\n"
    assert log_of(share) == f"{cores} None\n"
    assert shim_of(whole)["cpus"] == [cores[0]]


def test_cores_that_do_not_exist_are_no_obstacle(at: Path) -> None:
    launch = a_launch(at, "true", cpu=1.0)

    assert run_to_end(launch, cpus=[1000]).exit_code == 0
    assert shim_of(launch)["pinning"] == "not pinned: Invalid argument"


def test_a_command_finds_nothing_of_the_services_environment_with_its_supervisor(
    at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "secret-of-the-service")
    launch = a_launch(at, *python("import os; print(open(f'/proc/{os.getppid()}/environ').read())"))

    run_to_end(launch)

    assert "PGPASSWORD" not in log_of(launch)
    assert "HOME" not in log_of(launch)


def test_folders_of_a_run_are_for_their_owner_alone_wherever_they_are(at: Path) -> None:
    at.chmod(0o755)
    umask = os.umask(0)
    try:
        launch = a_launch(at, "true")
        run_to_end(launch)
    finally:
        os.umask(umask)
    folders = [
        Path(launch.folder),
        Path(launch.folder).parent,
        at / "runs",
        at / "checkpoints" / "1",
        at / "control",
    ]
    assert [oct(folder.stat().st_mode & 0o777) for folder in folders] == ["0o700"] * 5
    assert at.stat().st_mode & 0o777 == 0o755
