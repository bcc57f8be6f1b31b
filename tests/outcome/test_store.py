"""Files: the same bytes for the same result, whole or not at all, and nobody else's touched."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from betimes.errors import InputError
from betimes.outcome import ResourceUse, Result, Timing, load, save, store, summarise
from tests.outcome.cases import columns, four_jobs, on_nodes, random_results, result

FILES = ["jobs.parquet", "summary.json", "timeline.parquet"]


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    case = four_jobs("themis")
    assert save(case, tmp_path / "deep" / "out") == tmp_path / "deep" / "out"
    found = load(tmp_path / "deep" / "out")
    assert found == case
    assert found.timing == case.timing
    assert [path.name for path in sorted((tmp_path / "deep").iterdir())] == ["out"]


@given(case=random_results())
def test_any_result_survives(case: Result, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("result") / "out"
    save(case, directory)
    assert load(directory) == case


def test_equal_results_give_equal_bytes(tmp_path: Path) -> None:
    case = four_jobs("srsf")
    save(case, tmp_path / "a")
    save(dataclasses.replace(case, timing=Timing(9.0, 8.0, 7.0, 8)), tmp_path / "b")
    a, b = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert sorted(a) == FILES
    for name in ("jobs.parquet", "timeline.parquet"):
        assert a[name] == b[name]
    summaries = [json.loads(files["summary.json"]) for files in (a, b)]
    assert [summary.pop("timing")["wall_s"] for summary in summaries] == [0.5, 7.0]
    assert json.dumps(summaries[0]) == json.dumps(summaries[1])


def test_another_process_writes_the_same_bytes(tmp_path: Path) -> None:
    save(four_jobs("fifo"), tmp_path / "here")
    code = (
        "import sys; from betimes.outcome import save; from tests.outcome.cases import four_jobs; "
        "save(four_jobs('fifo'), sys.argv[1])"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "there")], check=True, cwd=root)
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_the_summary_is_the_contract_and_says_what_ran(tmp_path: Path) -> None:
    case = four_jobs("fifo")
    save(case, tmp_path / "out", measure=(0.25, 1.0))
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    run = summary.pop("run")
    assert summary == summarise(case, (0.25, 1.0))
    assert (run["units"], run["seed"], run["measure"], run["status"]) == (1, 0, [0.25, 1.0], "all")


def test_unknown_is_null_in_every_reader(tmp_path: Path) -> None:
    jobs = columns(2, job_id=np.array(["a", "b"]), finish_s=[1.0, np.nan], state=[0, 1])
    save(result(jobs), tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "jobs.parquet")
    assert table.column_names[:7] == [
        "job_id", "submit_s", "start_s", "finish_s", "predicted_finish_s", "preemptions", "cost_usd",
    ]  # fmt: skip
    assert table["finish_s"].to_pylist() == [1.0, None]
    assert table["job_id"].to_pylist() == ["a", "b"]
    assert table.schema.field("state").metadata[b"codes"].startswith(b"in this run: 0 finished")


def test_the_timeline_names_the_jobs(tmp_path: Path) -> None:
    save(four_jobs("srsf"), tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "timeline.parquet").to_pydict()
    assert list(table) == ["job_id", "row", "start_s", "end_s", "units"]
    assert table["job_id"] == ["J2", "J3", "J2", "J1", "J4", "J1"]


def test_a_result_replaces_an_earlier_one_and_spares_other_files(tmp_path: Path) -> None:
    out = tmp_path / "out"
    save(four_jobs("fifo"), out)
    (out / "notes.txt").write_text("mine")
    plain = result(columns(3))
    save(plain, out)
    assert load(out) == plain
    assert sorted(contents(out)) == ["jobs.parquet", "notes.txt", "summary.json"]  # no stale timeline


def test_a_result_on_nodes_keeps_its_absences_and_resources(tmp_path: Path) -> None:
    save(on_nodes(), tmp_path / "out")
    assert load(tmp_path / "out") == on_nodes()
    assert load(tmp_path / "out") != on_nodes(resources=(ResourceUse("gpu", 8.0, 1.0),))
    assert load(tmp_path / "out") != on_nodes(absences=None)
    table = pq.read_table(tmp_path / "out" / "absences.parquet").to_pydict()
    assert list(table) == ["job_id", "row", "preempted_s", "vacated_s", "resumed_s"]
    assert (table["job_id"], table["resumed_s"]) == ([1, 1], [18.0, 28.0])
    save(four_jobs("fifo"), tmp_path / "out")
    assert sorted(contents(tmp_path / "out")) == FILES  # no stale absences


def test_a_result_of_before_there_were_nodes_is_read(tmp_path: Path) -> None:
    save(four_jobs("fifo"), tmp_path / "out")
    path = tmp_path / "out" / "summary.json"
    summary = json.loads(path.read_text())
    del summary["run"]["resources"]
    path.write_text(json.dumps(summary))
    assert load(tmp_path / "out") == four_jobs("fifo")


def test_an_empty_directory_will_do(tmp_path: Path) -> None:
    save(four_jobs("fifo"), tmp_path)
    assert load(tmp_path) == four_jobs("fifo")


@pytest.mark.parametrize("name", ["jobs.parquet", "summary.json", "thesis.tex"])
def test_somebody_elses_files_are_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"run": 7}')
    with pytest.raises(InputError, match="no result of Betimes; choose another directory"):
        save(four_jobs("fifo"), tmp_path)
    assert contents(tmp_path) == {name: b'{"run": 7}'}


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(InputError, match="is a file"):
        save(four_jobs("fifo"), tmp_path / "out")
    with pytest.raises(InputError, match="cannot write the result"):
        save(four_jobs("fifo"), tmp_path / "out" / "below")
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("step", ["_timeline_table", "_sha256", "sync"])
def test_a_failure_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool, step: str
) -> None:
    out = tmp_path / "out"
    if there:
        save(four_jobs("fifo"), out)
    before = contents(out) if there else None

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, step, fail)
    with pytest.raises(InputError, match="No space left on device"):
        save(four_jobs("themis"), out)
    assert [path.name for path in tmp_path.iterdir()] == (["out"] if there else [])
    assert before is None or contents(out) == before


def test_absences_of_another_run_are_noticed(tmp_path: Path) -> None:
    save(on_nodes(), tmp_path / "out")
    (tmp_path / "out" / "absences.parquet").unlink()
    with pytest.raises(InputError, match=r"absences.parquet: missing, or not the file"):
        load(tmp_path / "out")


@pytest.mark.parametrize("name", ["jobs.parquet", "timeline.parquet"])
def test_files_of_different_runs_are_noticed(tmp_path: Path, name: str) -> None:
    for policy in ("fifo", "srsf"):
        save(dataclasses.replace(four_jobs(policy), policy="same"), tmp_path / policy)
    (tmp_path / "srsf" / name).replace(tmp_path / "fifo" / name)
    with pytest.raises(InputError, match=rf"{name}: missing, or not the file"):
        load(tmp_path / "fifo")
    (tmp_path / "fifo" / name).unlink()
    with pytest.raises(InputError, match=rf"{name}: missing"):
        load(tmp_path / "fifo")
    save(four_jobs("fifo"), tmp_path / "fifo")
    assert load(tmp_path / "fifo") == four_jobs("fifo")


def test_loading_nothing_is_an_error(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InputError, match="holds no result of Betimes"):
            load(directory)
