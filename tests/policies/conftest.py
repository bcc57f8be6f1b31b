"""What the tests of users' policies share."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes import Workload, simulate
from tests.policies.user_folder import Folder, copy_compiled


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    # The loop itself, as this process has compiled it: only the policies are new.
    simulate(Workload.from_columns(submit_s=[0], work_s=[1]), "fifo", units=1, predict=True)
    copy_compiled(made.cache / "kernels")
    return made
