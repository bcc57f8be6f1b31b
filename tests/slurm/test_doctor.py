"""`betimes doctor --slurm`: what is read, mirrored and not, by recorded outputs, and beside a real Slurm."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from betimes.slurm.commands import Commands
from betimes.slurm.doctor import Check, examine, not_mirrored, sight
from betimes.slurm.machines import Counts
from tests.cli.conftest import Call
from tests.slurm.fake_slurm import FakeSlurm
from tests.slurm.real_slurm import NoSlurm, real_slurm
from tests.slurm.recording import RECORDED, machines, picture, printed

NODES = 8
APPEARS_WITHIN_S = 40.0


def named(found: list[Check], name: str) -> list[str]:
    return [each.text for each in found if each.check == name]


def test_a_slurm_that_is_well(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path)
    found = examine(Commands(slurm.folder))
    assert all(each.ok for each in found)
    assert named(found, "sight") == ["all 11 jobs are seen"]
    assert "8 with 32 CPUs, in 2 partitions (batch, short); 1 takes no jobs now (1 idle+drain)" in named(
        found, "nodes"
    )
    jobs, unforeseen = named(found, "jobs")
    assert jobs == "4 run and 7 wait"
    assert "3 of them are promised nothing" in unforeseen
    assert "2: its array runs" in unforeseen
    assert "no accounting" in named(found, "history")[0]
    assert all("\n" not in each.text for each in found)
    assert slurm.nothing_was_written


@pytest.mark.parametrize(
    ("setting", "word"),
    [
        ({"PriorityType": "priority/multifactor"}, "fair share"),
        ({"AccountingStorageEnforce": "associations,limits,qos"}, "limits of accounts"),
        ({"SelectTypeParameters": "CR_CPU_MEMORY"}, "memory"),
        ({"PreemptType": "preempt/qos"}, "preemption"),
        ({"Licenses": "matlab:3"}, "licences"),
        ({"SuspendProgram": "/usr/sbin/off"}, "powered down"),
        ({"FederationParameters": "fed_display"}, "federations"),
        ({"SchedulerType": "sched/builtin"}, "backfilling"),
    ],
)
def test_settings_that_are_not_modelled_are_named(setting: dict[str, str], word: str) -> None:
    before = [*not_mirrored(machines())]
    [more] = [text for text in not_mirrored(replace(machines(), settings=setting)) if text not in before]
    assert word in more


def test_gpus_are_named() -> None:
    known = machines()
    nodes = {name: replace(node, gres="gpu:2") for name, node in known.nodes.items()}
    assert any("GPUs" in text for text in not_mirrored(replace(known, nodes=nodes)))


def test_partial_sight_is_no_sight() -> None:
    seen, known = picture(), machines()
    seen = replace(seen, jobs={number: job for number, job in seen.jobs.items() if not job.is_over})
    counts = Counts(seen.at, seen.at, 20, 4)
    found = sight(seen, known, counts)
    assert not found.ok
    assert found.text.startswith(
        "13 of 24 jobs are hidden from this user, so no job can be promised anything"
    )
    private = replace(known, settings={**known.settings, "PrivateData": "jobs,usage"})
    assert not sight(seen, private, None).ok  # it hides jobs, and nothing says how many
    assert sight(seen, private, Counts(seen.at, seen.at, 7, 4)).ok
    assert sight(seen, known, None).ok


@pytest.mark.parametrize(
    ("instead", "why"),
    [
        (
            {"squeue": "echo Unable to contact slurm controller >&2; exit 1"},
            "Unable to contact slurm controller; no job",
        ),
        ({"scontrol": "exit 1"}, "scontrol failed: exit code 1; no job"),
    ],
)
def test_a_slurm_that_does_not_answer(tmp_path: Path, instead: dict[str, str], why: str) -> None:
    [found] = examine(Commands(FakeSlurm(tmp_path, instead=instead).folder))
    assert not found.ok
    assert why in found.text


def test_what_is_not_understood_is_shown_and_harms_nothing(tmp_path: Path) -> None:
    shown = shutil.copytree(RECORDED, tmp_path / "shown")
    (shown / "squeue").write_text(printed("squeue") + "MARK|77|ann|DANCING|x\x1b[31m\n")
    (shown / "node").write_text(printed("node") + "NodeName=z State=IDLE\n")
    (shown / "config").write_text(
        "SLURM_VERSION = 99.11.1\nAccountingStorageType = accounting_storage/slurmdbd\n"
    )
    (shown / "sacct").write_text("JobIDRaw|User\n1|ann\n2|ann\n")
    slurm = FakeSlurm(tmp_path, shown, {"sdiag": "exit 3"})
    found = examine(Commands(slurm.folder))
    assert all(each.ok for each in found)
    assert "1 row of squeue is not understood, such as '77|ann|DANCING|x\\\\x1b[31m'" in " ".join(
        named(found, "jobs")
    )
    assert "1 lines of scontrol are not understood" in named(found, "nodes")[0]
    assert "commands here are of 22.05.8; tried with 22.05" in named(found, "slurmctld")[0]
    assert "whether all jobs are seen cannot be counted" in named(found, "counts")[0]
    assert named(found, "history")[0].startswith("sacct shows 2 jobs")


def test_the_verb(betimes: Call, tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path)
    ran = betimes("doctor", "--slurm", "--slurm-bin", slurm.folder, "--json")
    assert {each["check"] for each in ran.json()} >= {
        "slurmctld",
        "sight",
        "nodes",
        "jobs",
        "mirrored",
        "history",
    }
    missing = betimes("doctor", "--slurm", "--slurm-bin", tmp_path / "none")
    assert missing.code == 1
    assert "--slurm-bin" in missing.out
    assert betimes("doctor", "--slurm-bin", tmp_path).code == 2


@pytest.fixture
def slurm() -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands reach a real one of eight nodes that hides jobs of others."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o711)  # another user reads its configuration
        try:
            yield running.enter_context(real_slurm(folder, ours, NODES, "PrivateData=jobs\n"))
        except NoSlurm as reason:
            pytest.skip(str(reason))


def as_user(folder: Path, user: int) -> Path:
    """Slurm's commands as another user calls them."""
    folder.mkdir()
    for name in ("squeue", "scontrol", "sdiag", "sacct"):
        path = shutil.which(name)
        (folder / name).write_text(
            f'#!/bin/sh\nexec setpriv --reuid={user} --regid={user} --clear-groups {path} "$@"\n'
        )
        (folder / name).chmod(0o755)
    return folder


def call(env: Mapping[str, str], *words: str) -> str:
    return subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.slow
def test_beside_a_real_slurm(
    betimes: Call, slurm: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", slurm["SLURM_CONF"])
    for _ in range(4):
        call(slurm, "sbatch", "-o/dev/null", "-n16", "-t5", "--wrap=sleep 120")
    call(slurm, "sbatch", "-o/dev/null", "--hold", "--wrap=true")

    def checks(*options: object) -> tuple[int, list[dict[str, Any]]]:
        ran = betimes("doctor", "--slurm", "--json", *options)
        return ran.code, json.loads(ran.out)

    code, found = checks()
    assert code == 0
    assert "8 with 32 CPUs, in 2 partitions (batch, short)" in [each["text"] for each in found]
    assert any("1: it is held" in each["text"] for each in found)

    # Another user sees none of these jobs; slurmctld counts them every now and then.
    folder, until_s = as_user(tmp_path / "nobody", 65534), time.monotonic() + APPEARS_WITHIN_S
    while (seen := checks("--slurm-bin", folder))[0] == 0:
        assert time.monotonic() < until_s
        time.sleep(1.0)
    [sight] = [each for each in seen[1] if each["check"] == "sight"]
    assert not sight["ok"]
    assert "5 of 5 jobs are hidden" in sight["text"]

    controller = int(Path(slurm["SLURM_CONF"]).with_name("slurmctld.pid").read_text())
    os.kill(controller, signal.SIGSTOP)
    try:
        code, [away] = checks()
    finally:
        os.kill(controller, signal.SIGCONT)
    assert code == 1
    assert "no job can be promised anything until that is mended" in away["text"]
    assert checks()[0] == 0
