"""Compiled code is kept between processes, and an edit anywhere is seen by the next run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import betimes
from betimes.kernels import INTERPRETED
from tests.policies.user_folder import HELPER, POLICY, Folder

pytestmark = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")

BY_SIZE_AND_TWO_WIDE = "[[3.0, 1.0], [4.0, 6.0]]"


@pytest.mark.slow
def test_a_later_start_compiles_nothing(folder: Folder) -> None:
    """The first run checks indices, the second compiles without; all others take what is there."""
    assert folder.finishes() == BY_SIZE_AND_TWO_WIDE
    assert folder.finishes() == BY_SIZE_AND_TWO_WIDE
    compiled = folder.compiled()
    assert any("betimes_user_" in file.name for file in compiled)
    assert folder.finishes() == BY_SIZE_AND_TWO_WIDE
    assert folder.finishes("spawned") == BY_SIZE_AND_TWO_WIDE
    assert folder.compiled() == compiled


@pytest.mark.slow
def test_a_spawned_worker_can_be_the_first(folder: Folder) -> None:
    assert folder.finishes("spawned") == BY_SIZE_AND_TWO_WIDE
    assert folder.finishes("spawned") == BY_SIZE_AND_TWO_WIDE
    compiled = folder.compiled()
    assert folder.finishes() == BY_SIZE_AND_TWO_WIDE
    assert folder.compiled() == compiled


@pytest.mark.slow
def test_an_edit_of_the_policy_or_of_a_file_it_imports_is_seen(folder: Folder) -> None:
    """That of the file has the same length, within the same second, in code that only another file's function calls."""
    folder.finishes()
    folder.finishes()
    folder.helper.write_text(HELPER.replace("return 2.0", "return 4.0"))
    assert folder.finishes() == "[[3.0, 1.0], [2.0, 3.0]]"
    folder.helper.write_text(HELPER)
    assert folder.finishes() == BY_SIZE_AND_TWO_WIDE
    folder.policy.write_text(POLICY.replace("view.jobs[chosen[k]].size_s", "-view.jobs[chosen[k]].size_s"))
    assert folder.finishes() == "[[2.0, 3.0], [4.0, 6.0]]"


@pytest.mark.slow
def test_an_edit_of_a_kernel_is_seen(folder: Folder, tmp_path: Path) -> None:
    """Also one that the loop only calls, in a file that the loop's own file does not name."""
    site = tmp_path / "site"
    shutil.copytree(
        Path(betimes.__file__).parent, site / "betimes", ignore=shutil.ignore_patterns("__pycache__")
    )
    callee = site / "betimes" / "core" / "work.py"
    source = callee.read_text()
    old, new = "        return speedup[curve, below]\n", "        return speedup[curve, 0x1]\n"
    assert source.count(old) == 1

    def finishes() -> str:
        return folder.finishes("unforeseen", site, ["fifo", "srsf"])

    assert finishes() == "[[2.0, 3.0], [3.0, 1.0]]"
    assert finishes() == "[[2.0, 3.0], [3.0, 1.0]]"
    callee.write_text(source.replace(old, new))
    assert finishes() == "[[8.0, 12.0], [12.0, 4.0]]"
    callee.write_text(source)
    assert finishes() == "[[2.0, 3.0], [3.0, 1.0]]"
