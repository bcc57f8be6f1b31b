"""Compiled code between processes: found again, shared, moved, damaged, forbidden."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from betimes.kernels import INTERPRETED
from tests.policies.user_folder import copy_compiled

pytestmark = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")

PROGRAM = '''
import sys
from betimes.kernels import entry, kernel

@kernel
def twice(x: float) -> float:
    """Two times as much."""
    return 2.0 * x

@entry
@kernel
def function(x: float) -> float:
    return twice(x) + 1.0

if __name__ == "__main__":
    was = function.is_ready()
    print(function(float(sys.argv[1])), was)
'''


class Program:
    """A program with one entry, and the folder of its compiled code."""

    def __init__(self, folder: Path) -> None:
        self.file, self.cache = folder / "program.py", folder / "cache"
        self.file.write_text(PROGRAM)

    def start(self, **environment: str) -> subprocess.Popen[str]:
        told = os.environ | {"BETIMES_CACHE_DIR": str(self.cache)} | environment
        command = [sys.executable, str(self.file), "4"]
        return subprocess.Popen(command, env=told, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, **environment: str) -> tuple[str, str]:
        """What it prints, and what it says on standard error."""
        process = self.start(**environment)
        out, err = process.communicate()
        assert process.returncode == 0, err
        return out.strip(), err.strip()

    def files(self) -> dict[str, int]:
        return {file.name: file.stat().st_mtime_ns for file in (self.cache / "kernels").iterdir()}


@pytest.fixture
def new(tmp_path: Path) -> Program:
    """Nothing of it has been compiled."""
    return Program(tmp_path)


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Program:
    made = Program(tmp_path_factory.mktemp("program"))
    assert made.run() == ("9.0 False", "")
    return made


@pytest.fixture
def program(new: Program, compiled_once: Program) -> Program:
    """It has run once."""
    shutil.copytree(compiled_once.cache, new.cache)
    return new


def test_the_second_start_compiles_nothing(program: Program) -> None:
    files = program.files()
    assert len(files) == 1
    assert program.run() == ("9.0 True", "")
    assert program.files() == files


def test_an_edit_of_a_kernel_is_seen_and_of_a_docstring_is_not_one(program: Program) -> None:
    program.file.write_text(PROGRAM.replace("Two times as much.", "Doubled.\\n\\n    Of course."))
    assert program.run() == ("9.0 True", "")
    program.file.write_text(PROGRAM.replace("2.0 * x", "3.0 * x"))
    assert program.run() == ("13.0 False", "")
    program.file.write_text(PROGRAM)
    assert program.run() == ("9.0 True", "")


def test_a_moved_folder_serves_another_home(program: Program, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "shipped"
    shutil.move(program.cache, moved)
    home = tmp_path / "home"
    home.mkdir()
    assert program.run(BETIMES_CACHE_DIR=str(moved), HOME=str(home)) == ("9.0 True", "")
    assert not program.cache.exists()
    assert not any(home.iterdir())


def test_indices_that_are_checked_are_other_code(program: Program) -> None:
    assert program.run(BETIMES_BOUNDSCHECK="1") == ("9.0 False", "")
    assert len(program.files()) == 2


@pytest.mark.slow
def test_two_at_once(new: Program) -> None:
    both = [new.start(), new.start()]
    assert [each.communicate()[0].split()[0] for each in both] == ["9.0", "9.0"]
    assert new.run() == ("9.0 True", "")
    assert len(new.files()) == 1


@pytest.mark.slow
def test_one_that_is_killed_while_it_compiles_leaves_nothing_wrong(new: Program) -> None:
    for pause_s in (0.3, 0.8, 1.3):
        process = new.start()
        time.sleep(pause_s)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert new.run()[0].startswith("9.0")
    assert new.run() == ("9.0 True", "")


@pytest.mark.parametrize("damage", ["cut", pytest.param("changed", marks=pytest.mark.slow)])
def test_a_damaged_file_is_said_and_made_again(program: Program, damage: str) -> None:
    (name,) = program.files()
    file = program.cache / "kernels" / name
    content = file.read_bytes()
    middle = len(content) // 2
    file.write_bytes(
        {
            "cut": content[:middle],
            "changed": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        }[damage]
    )
    out, err = program.run()
    assert out.startswith("9.0")
    assert err.count("\n") == 0
    assert name in err
    assert "compiled again" in err
    assert program.run() == ("9.0 True", "")


@pytest.mark.slow
def test_a_folder_that_cannot_be_made_is_said_in_a_line(new: Program) -> None:
    new.cache.write_text("a file in its place")
    for _ in range(2):
        out, err = new.run()
        assert out == "9.0 False"
        assert err.count("\n") == 0
        assert "compiled code is not kept" in err
        assert str(new.cache) in err


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_is_left_alone(program: Program) -> None:
    os.chown(program.cache / "kernels", 12345, 12345)
    out, err = program.run()
    assert out == "9.0 False"
    assert err.count("\n") == 0
    assert "belongs to another user" in err


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_only_be_read_serves(program: Program) -> None:
    folder = program.cache / "kernels"
    folder.chmod(0o500)
    try:
        assert program.run() == ("9.0 True", "")
    finally:
        folder.chmod(0o700)


@pytest.mark.slow
def test_a_release_can_ship_what_warm_has_compiled(tmp_path: Path) -> None:
    """Compiled into one folder, moved to another, and used from there by somebody with another home."""

    def betimes(*words: str, cache: Path, home: Path) -> str:
        told = os.environ | {"BETIMES_CACHE_DIR": str(cache), "HOME": str(home)}
        command = [sys.executable, "-m", "betimes", *words]
        return subprocess.run(command, env=told, capture_output=True, text=True, check=True).stdout

    made, shipped, home = tmp_path / "made", tmp_path / "opt" / "shipped", tmp_path / "home"
    home.mkdir()
    copy_compiled(made / "kernels")  # nearly all of it: to compile everything takes minutes
    for missing in sorted((made / "kernels").iterdir(), key=lambda file: file.stat().st_size)[:5]:
        missing.unlink()
    betimes("service", "warm", "--out", str(made), cache=tmp_path / "unused", home=home)
    assert not (tmp_path / "unused").exists()
    shipped.parent.mkdir()
    shutil.move(made, shipped)
    before = {file: file.stat().st_mtime_ns for file in shipped.rglob("*")}
    for words in (
        ("demo:jobs=20", "--policy", "wfq", "--units", "8"),
        ("sample:rigid", "--policy", "fitgpp"),
    ):
        betimes("simulate", *words, "--predict", "--json", cache=shipped, home=home)
    assert {file: file.stat().st_mtime_ns for file in shipped.rglob("*")} == before
    assert len(before) > 30
    assert not any(home.iterdir())
