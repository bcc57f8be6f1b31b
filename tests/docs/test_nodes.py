"""The how-to's own policies for nodes: they load, run compiled, and do what the text says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import betimes
from betimes.cluster import NodeGroup
from betimes.outcome import Result
from betimes.workload import Workload

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "nodes.md"
CLUSTER = betimes.Cluster(
    "mixed", (NodeGroup("gpu", 1, 8.0, 64.0, 256.0), NodeGroup("plain", 1, 0.0, 32.0, 64.0))
)


@pytest.fixture(scope="module")
def policy_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = PAGE.read_text(encoding="utf-8")
    block = re.search(r"Save this as `on_nodes.py`:\n\n```python\n(.*?)```", text, re.S)
    assert block
    file = tmp_path_factory.mktemp("mine") / "on_nodes.py"
    file.write_text(block[1], encoding="utf-8")
    return file


def jobs(**columns: object) -> Workload:
    given: dict[str, object] = {"max_units": 1, "memory_gib": 1.0, "gpu": 0.0, "cpu": 1.0, "name": "case"}
    return Workload.from_columns(**(given | columns))  # type: ignore[arg-type]


def run(workload: Workload, policy: str) -> Result:
    return betimes.simulate(workload, policy, cluster=CLUSTER)


def test_small_jobs_go_first_until_one_has_waited_too_long(policy_file: Path) -> None:
    # The first holds everything until 100; then the large one and the small ones cannot all start.
    workload = jobs(
        submit_s=[0.0, 1.0, 2.0, 50.0], work_s=[100.0, 10.0, 10.0, 10.0], cpu=[64.0, 48.0, 32.0, 32.0],
        gpu=[8.0, 1.0, 1.0, 1.0],
    )  # fmt: skip
    starts = run(workload, f"{policy_file}:small_first").jobs.start_s.tolist()
    assert starts == [0.0, 110.0, 100.0, 100.0]
    impatient = run(workload, f"{policy_file}:small_first:patience_h=1/40").jobs.start_s.tolist()
    assert impatient == [0.0, 100.0, 110.0, 110.0]


def test_jobs_without_gpus_leave_them_alone_while_others_have_room(policy_file: Path) -> None:
    workload = jobs(
        submit_s=[0.0, 1.0, 2.0], work_s=[100.0, 100.0, 100.0], cpu=[32.0, 64.0, 32.0], gpu=[0.0, 8.0, 0.0]
    )
    starts = run(workload, f"{policy_file}:spare_gpus").jobs.start_s.tolist()
    assert starts == [0.0, 1.0, 100.0]


def test_whoever_leaves_soonest_makes_room(policy_file: Path) -> None:
    workload = jobs(
        submit_s=[0.0, 0.0, 10.0], work_s=[100.0, 100.0, 5.0], cpu=[32.0, 32.0, 32.0], gpu=[4.0, 4.0, 4.0],
        grace_s=[20.0, 3.0, 0.0], qos=[0, 0, 1],
    )  # fmt: skip
    result = run(workload, f"{policy_file}:soonest_gone")
    assert result.jobs.preemptions.tolist() == [0, 1, 0]
    assert result.absences is not None
    assert np.array([*result.absences.columns().values()]).T.tolist() == [[1.0, 10.0, 13.0, 18.0]]
