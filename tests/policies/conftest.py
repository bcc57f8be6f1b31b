"""What the tests of users' policies share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from betimes.core.kernel import CACHE_DIR

from betimes import Workload, simulate
from tests.policies.user_folder import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    # The loop itself, as this process has compiled it: only the policies are new.
    simulate(Workload.from_columns(submit_s=[0], work_s=[1]), "fifo", units=1, predict=True)
    shutil.copytree(CACHE_DIR, made.cache / CACHE_DIR.name)
    return made
