"""The client as one file: run by Pythons without any package, the oldest of them where this machine has it."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from betimes.cli.client_file import run_verb
from betimes.cli.main import main
from betimes.cli.verbs import VERBS
from tests.cli.conftest import Call, Said
from tests.service.serving import Background

File = Callable[..., Said]


def python_3_9() -> str | None:
    """The oldest Python that is supported, as its own installation or pyenv's."""
    kept = sorted((Path.home() / ".pyenv/versions").glob("3.9.*/bin/python"))
    for found in (*map(str, kept), shutil.which("python3.9")):
        if found and not subprocess.run([found, "-c", ""], check=False, capture_output=True).returncode:
            return found
    return None


@pytest.fixture(params=["this Python", "Python 3.9"])
def file(request: pytest.FixtureRequest, betimes: Call, tmp_path: Path) -> File:
    """The client's file, made and then called without packages."""
    python = sys.executable if request.param == "this Python" else python_3_9()
    if python is None:
        pytest.skip("there is no Python 3.9 here")
    path = tmp_path / "client.pyz"
    assert betimes("service", "client-file", path).out.startswith(f"{path} is written")

    def call(*words: str | Path, name: Path = path, **environment: str) -> Said:
        done = subprocess.run(
            [python, "-I", "-S", name, *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), **environment},
        )
        return Said(done.returncode, done.stdout, done.stderr)

    return call


def test_its_verbs_and_slurms_commands(file: File, live: Background, tmp_path: Path) -> None:
    live.it.ask("POST", "/api/v1/nodes/here/drain")  # jobs wait
    assert file("submit", "--id-only", "--estimate", "1h", "--label", "a=b", "--", "true").out == "1\n"
    assert file("jobs", "--json").json()[0]["labels"] == {"a": "b"}
    assert file("hold", "1").code == 0
    assert file("status", "1").out == "held\n"
    assert "Job 1, true: held" in file("job", "1").out
    assert file("cancel", "1").out == "Job 1, true: cancelled\n"
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH --job-name=named --array=0-1\ntrue\n")
    assert file("submit", "job.sh", "--id-only").out == "2-3\n"
    assert file("squeue", "-h", "-o", "%i %j").out == "2_[0-1] named\n"
    (tmp_path / "scancel").symlink_to(tmp_path / "client.pyz")
    assert file("2", name=tmp_path / "scancel") == Said(0, "", "")
    assert file("scontrol", "show", "hostnames", "a[1-2]").out == "a1\na2\n"
    assert file("slurm", "commands", "bin").code == 0
    assert file("-h", "-o", "%i", name=tmp_path / "bin/squeue") == Said(0, "", "")
    assert "this is such a file; copy it: cp " in file("service", "client-file", "other.pyz").err
    assert file("submit", "--json", "--", "true").json()["job_id"] == 4
    assert "it needs all of Betimes" in file("submit", "jobs.toml").err
    assert file("hold", "--nonsense").err.startswith("betimes: hold: unrecognized arguments: --nonsense;")
    assert "this token is unknown" in file("jobs", BETIMES_TOKEN="wrong").err
    assert "no service runs with its state in" in file("squeue", BETIMES_STATE=str(tmp_path)).err


def test_its_modules_are_unpacked_once_for_their_byte_code(file: File, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    where = {"XDG_CACHE_HOME": str(cache), "PYTHONDONTWRITEBYTECODE": ""}
    first = file("--help", **where)
    (kept,) = (cache / "betimes").iterdir()
    assert list(kept.rglob("client_file.*.pyc"))
    assert file("--help", **where) == first
    (kept / "betimes/__init__.py").write_text("raise SystemExit('the kept copy')")
    assert file("--help", **where).err == "the kept copy\n"
    if os.geteuid() == 0:  # what another user can write is not run
        os.chown(kept, 65534, 65534)
        assert file("--help", **where) == first
    (tmp_path / "file").touch()
    assert file("--help", XDG_CACHE_HOME=str(tmp_path / "file")) == first  # where no folder can be made


def imported(node: ast.AST) -> Iterator[str]:
    """The modules of Betimes that are imported somewhere in there, but for types."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom) and (child.module or "").startswith("betimes"):
            yield child.module or ""
        yield from imported(child)


def test_it_has_all_that_jobs_and_slurms_commands_import(betimes: Call, tmp_path: Path) -> None:
    betimes("service", "client-file", tmp_path / "client.pyz")
    with zipfile.ZipFile(tmp_path / "client.pyz") as file:
        texts = {name: file.read(name) for name in file.namelist()}
    there = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in texts}
    asked = [name for name in texts if name.startswith(("betimes/cli/live/jobs/", "betimes/cli/slurm"))]
    assert len(asked) > 20
    missing = {
        (name, each) for name in asked for each in imported(ast.parse(texts[name])) if each not in there
    }
    assert missing == set()


def test_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"], run_verb) == 0
    listed = capsys.readouterr().out
    assert "  submit  " in listed
    assert "simulate" not in listed
    for words in (name.split() for name, verb in VERBS.items() if "simulate" not in verb.module):
        with pytest.raises(SystemExit, match="0"):
            main([*words, "--help"], run_verb)
        assert capsys.readouterr().out.startswith(f"usage: betimes {' '.join(words)} [-h]")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("job", "job: the following arguments are required: JOB..."),
        ("jobs --nonsense", "jobs: unrecognized arguments: --nonsense; `jobs --help` shows more"),
        ("hold 1 --service", "argument --service: expected one argument"),
        ("nodes add x --cpu many", "argument --cpu: invalid"),
        ("no-such-verb", "'no-such-verb': there is no such verb"),
        ("simulate", "it needs all of Betimes"),
    ],
)
def test_a_mistake_is_a_line(capsys: pytest.CaptureFixture[str], words: str, part: str) -> None:
    assert main(words.split(), run_verb) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert part in said.err


def test_a_file_that_cannot_be_written(betimes: Call, tmp_path: Path) -> None:
    said = betimes("service", "client-file", tmp_path / "no-such-folder" / "client.pyz")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "cannot be written (No such file or directory)" in said.err
