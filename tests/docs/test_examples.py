"""The notebooks of `examples/` run from the first cell to the last, and are kept without outputs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.pages import ROOT, small_log

EXAMPLES = ROOT / "examples"
NOTEBOOKS = ("compare-policies", "own-policy", "reproduce-a-figure")
LIMIT_S = 120


def notebook_of(name: str) -> Any:
    return nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)


def run(notebook: Any, folder: Path) -> str:
    """The text of all outputs; raises CellExecutionError where a cell fails."""
    NotebookClient(notebook, timeout=LIMIT_S, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return "\n".join(each.get("text") or each["data"]["text/plain"] for each in outputs)


def test_all_notebooks_are_known() -> None:
    assert sorted(NOTEBOOKS) == sorted(path.stem for path in EXAMPLES.iterdir() if path.is_file())


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_outputs_are_not_kept_and_links_lead_somewhere(name: str) -> None:
    notebook = notebook_of(name)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        assert EXAMPLES.joinpath(target).is_file(), target


@pytest.mark.slow
def test_policies_are_compared_on_a_log_and_on_one_that_is_made_up(tmp_path: Path) -> None:
    made_up = run(notebook_of("compare-policies"), tmp_path)
    assert "Workload('made up', 2000 jobs" in made_up
    assert "conservative  2000.0" in re.sub(" +", "  ", made_up)

    (tmp_path / "small.swf").write_text(small_log())
    notebook = notebook_of("compare-policies")
    (cell,) = [cell for cell in notebook.cells if cell.source.startswith('LOG = ""')]
    cell.source = cell.source.replace('LOG = ""', 'LOG = "small.swf"', 1)
    assert "Workload('small', 60 jobs" in run(notebook, tmp_path)


@pytest.mark.slow
def test_a_policy_is_written_compared_and_refused(tmp_path: Path) -> None:
    shown = run(notebook_of("own-policy"), tmp_path)
    assert "machine 64 units; policy ./aging.py:short_and_patient" in shown
    assert "policy ./careless.py:only_the_first at 299 s, job 1: ranked a job with a key" in shown


@pytest.mark.slow
def test_a_figure_is_reproduced(tmp_path: Path) -> None:
    lines = run(notebook_of("reproduce-a-figure"), tmp_path).splitlines()
    (j1,) = [line.split()[2:] for line in lines if re.match(r"0 +J1", line)]
    assert [float(word) for word in j1] == [0.0, 0.0, 19.0, 10.0]
    (wanted,) = [line.split()[3:5] for line in lines if re.search(r"themis +jct_mean", line)]
    assert [float(word) for word in wanted] == [13.5, 13.5]
