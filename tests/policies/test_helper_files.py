"""Files that a user's policy file imports, when one process sees more than one version of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes import Workload, simulate
from tests.policies.user_folder import HELPER, Folder

TWICE = """
import sys
from pathlib import Path

import betimes
from betimes.workload import Workload

jobs = Workload.from_columns(submit_s=[0, 0], work_s=[8, 4], max_units=4)
policy, helper = sys.argv[2], Path(sys.argv[2].partition(":")[0]).parent / "preferences.py"
for width in "21":
    helper.write_text(helper.read_text().replace("return 2.0", f"return {width}.0"))
    for _ in range(2):
        betimes.simulate(jobs, policy, units=4, predict=True)
"""


def in_this_process(policy: Path) -> list[float]:
    jobs = Workload.from_columns(submit_s=[0, 0], work_s=[8, 4], max_units=4)
    return simulate(jobs, f"{policy}:one_by_one", units=4).jobs.finish_s.tolist()


def test_an_edit_is_seen_by_a_process_that_has_run_the_old_one(tmp_path: Path) -> None:
    made = Folder(tmp_path)
    assert in_this_process(made.policy) == [4.0, 6.0]
    made.helper.write_text(HELPER.replace("return 2.0", "return 1.0"))
    assert in_this_process(made.policy) == [8.0, 12.0]


def test_files_of_the_same_name_in_two_folders(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = Folder(tmp_path / "a"), Folder(tmp_path / "b")
    other.helper.write_text(HELPER.replace("return 2.0", "return 1.0"))
    assert in_this_process(one.policy) == [4.0, 6.0]
    assert in_this_process(other.policy) == [8.0, 12.0]


@pytest.mark.slow
def test_old_code_is_not_kept_under_the_new_file(folder: Folder) -> None:
    """A process that has seen the file being edited leaves nothing wrong behind for the next one."""
    program = folder.program.read_text()
    folder.program.write_text(TWICE)
    folder.finishes(policies=[folder.names[1]])
    folder.program.write_text(program)
    assert folder.finishes(policies=[folder.names[1]]) == "[[8.0, 12.0]]"
