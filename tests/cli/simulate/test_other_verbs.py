"""`trace`, `policies` and `warm`."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes import plugins
from betimes.policies import NODES_POLICIES, POLICIES
from betimes.policies.nodes.placement import RULES
from betimes.workload import read_trace
from betimes.workload.generators import GENERATORS, generate
from tests.cli.conftest import Call


def test_trace_info_says_what_is_in_a_trace(betimes: Call, tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(
        "; MaxProcs: 8\n"
        "1 10 0 100 4 -1 -1 4 120 -1 1 7 -1 -1 -1 -1 -1 -1\n"
        "2 60 0 0 4 -1 -1 4 120 -1 1 7 -1 -1 -1 -1 -1 -1\n"
        "3 110 0 50 2 -1 -1 2 -1 -1 0 8 -1 -1 -1 -1 -1 -1\n"
    )
    found = betimes("trace", "info", path, "--json").json()
    assert (found["format"], found["jobs"], found["machine_units"], found["users"]) == ("swf", 2, 8, 2)
    assert (found["span_s"], found["first_submit_s"]) == (100.0, 10.0)
    assert found["run_s"] == {"min": 50.0, "p50": 75.0, "mean": 75.0, "max": 100.0}
    assert found["max_units"] == {"min": 2.0, "p50": 3.0, "mean": 3.0, "max": 4.0}
    assert found["offered_load_frac"] == 500 / 800
    assert found["status"] == {"completed": 1, "failed": 1}
    assert found["estimates_frac"] == 0.5
    assert sum(found["skipped"].values()) == 1
    text = betimes("trace", "info", path, "--units", "2").out
    assert "Offered load          2.5 of 2 units" in text
    assert "1 jobs need more than 2 units" in text


@pytest.mark.parametrize("name", ["copy.parquet", "copy.csv", "copy.csv.gz"])
def test_trace_convert_keeps_everything(betimes: Call, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    said = betimes("trace", "convert", "sample:rigid", out, "--json").json()
    assert (said["jobs"], said["out"]) == (300, str(out))
    assert read_trace(out).fingerprint() == said["fingerprint"]
    assert betimes("trace", "info", "sample:rigid", "--json").json()["fingerprint"] == said["fingerprint"]


def test_trace_convert_can_keep_the_first_jobs(betimes: Call, tmp_path: Path) -> None:
    assert betimes("trace", "convert", "sample:rigid", tmp_path / "some.csv", "--jobs", "7").code == 0
    assert len(read_trace(tmp_path / "some.csv")) == 7


def test_trace_generate_writes_what_python_generates(betimes: Call, tmp_path: Path) -> None:
    out = tmp_path / "made.parquet"
    said = betimes("trace", "generate", "demo:jobs=50", out, "--units", "8", "--seed", "3")
    assert said.out == f"{out}: 50 jobs\n"
    assert read_trace(out) == generate("demo:jobs=50", units=8, seed=3)
    for name in GENERATORS:
        assert name in betimes("trace", "generate", "--help").out


def test_policies_are_listed_with_question_paper_and_parameters(betimes: Call) -> None:
    listed = betimes("policies", "--json").json()
    on_nodes = [*NODES_POLICIES, *plugins.OF_PAPERS[plugins.POLICIES]]
    assert [each["name"] for each in listed] == [*POLICIES, *on_nodes]
    assert [each["engine"] for each in listed] == ["pool"] * len(POLICIES) + ["nodes"] * len(on_nodes)
    keys = ("name", "engine", "summary", "question", "paper", "parameters")
    assert all(tuple(each) == keys for each in listed)
    wfq = betimes("policies", "wfq", "--json").json()
    assert wfq == listed[[*POLICIES].index("wfq")]
    assert [each["name"] for each in wfq["parameters"]] == [each.name for each in POLICIES["wfq"].parameters]
    table, one = betimes("policies").out, betimes("policies", "wfq").out
    for name in (*POLICIES, *on_nodes):
        assert f"\n {name} " in table
    assert "zeta_min" in one
    assert "default 0.7" in one


def test_policies_of_one_engine_and_of_both(betimes: Call) -> None:
    on_nodes = betimes("policies", "--engine", "nodes", "--json").json()
    assert [each["name"] for each in on_nodes] == [*NODES_POLICIES, *plugins.OF_PAPERS[plugins.POLICIES]]
    assert betimes("policies", "fifo", "--json").json()["engine"] == "pool"
    assert betimes("policies", "fifo", "--engine", "nodes", "--json").json() == on_nodes[0]
    both = betimes("policies", "fifo").out
    assert "fifo (on a pool): " in both
    assert "fifo (on nodes): " in both
    assert "fallback" in betimes("policies", "fitgpp").out
    assert "  least_saving  " in betimes("policies", "eva").out  # a long name, and its help beside it
    said = betimes("policies", "fitgpp", "--engine", "pool")
    assert said.code == 2
    assert "policy fitgpp is for nodes" in said.err


def test_warm_compiles_once_and_then_says_little(betimes: Call) -> None:
    said = betimes("warm", "--json").json()
    shared = {"the event loop", "the predictions"}
    assert set(said["parts"]) == {
        *shared,
        *(f"{name} on nodes" for name in (*shared, "the closed loop")),
        *(f"policy {name}" for name in POLICIES),
        *(f"policy {name} on nodes" for name in NODES_POLICIES),
        *(f"policy fifo:placement={rule} on nodes" for rule in RULES),
        "the rounds of planners",
        "the selection of a portfolio",
        "the service on a pool",
        "the service on nodes",
    }
    again = betimes("warm")
    assert again.code == 0
    assert "Compiling" not in again.err
    assert again.out.startswith("The kernels are compiled")
    assert again.out.count("\n") == 1
