"""What `betimes.simulate` takes, and what it says of anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from betimes import Workload, simulate
from betimes.cluster import Cluster
from betimes.errors import ClusterError, InputError

JOBS = Workload.from_columns(submit_s=[0.0, 1.0], work_s=[10.0, 20.0], cpu=1.0, gpu=0.0, memory_gib=0.0)


def test_a_cluster_may_be_given_by_the_name_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "nodes.toml"
    file.write_text("[[nodes]]\ntype = 'a'\ncpu = 1\nmemory_gib = 8\n")
    expected = simulate(JOBS, "fifo", cluster=Cluster.uniform(1, cpu=1)).jobs.finish_s.tolist()
    for cluster in (file, str(file)):
        assert simulate(JOBS, "fifo", cluster=cluster).jobs.finish_s.tolist() == expected
    for missing in ("", str(tmp_path / "none.toml")):
        with pytest.raises(ClusterError):
            simulate(JOBS, "fifo", cluster=missing)


@pytest.mark.parametrize("predict", ["yes", 1, None])
def test_predict_is_true_or_false(predict: Any) -> None:
    with pytest.raises(InputError, match="give True or False"):
        simulate(JOBS, "fifo", units=1, predict=predict)
