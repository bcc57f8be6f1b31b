"""front.json reads back as it was written, a wrong one is refused, and three points have names."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from betimes import Workload, simulate
from betimes.errors import InputError
from betimes.foresight.tuning import Front, Search, named_points, page, parse_objectives, picture, tune
from betimes.foresight.tuning.shown import beaten
from tests.foresight.tuning.conftest import UNITS

HOW = Search(evaluations=40, jobs=60, baselines=("fifo", "srsf"))


@pytest.fixture
def front(workload: Workload) -> Front:
    return tune(workload, ["jct:avg", "pred_err:p99"], units=UNITS, how=HOW)


def test_it_reads_back_as_it_was_written(front: Front, tmp_path: Path) -> None:
    path = front.write(tmp_path)
    assert path.name == "front.json"
    assert Front.read(path) == Front.read(tmp_path) == front


def test_what_is_in_it(front: Front, workload: Workload) -> None:
    assert front.fingerprint == workload.fingerprint()
    assert front.objectives == ("jct:avg", "pred_err:p99")
    assert front.units == {"jct:avg": "s", "pred_err:p99": "frac"}
    assert {"betimes", "numpy", "numba", "pymoo", "moocore"} == set(front.versions)
    assert [each.policy for each in front.baselines] == ["fifo", "srsf"]
    assert (front.seed, front.solver, front.pool_units) == (0, "spea2", UNITS)


def test_a_point_means_the_same_anywhere(front: Front, workload: Workload) -> None:
    point = front.named("PCS-balanced")
    train, test = workload[:60], workload[60:]
    assert front.train.fingerprint == train.fingerprint()
    for part, values in ((train, point.train), (test, point.test)):
        run = simulate(part, point.policy, units=UNITS, predict=True)
        objectives = parse_objectives(front.objectives)
        assert values == {str(each): each.value(run) for each in objectives}


@pytest.mark.parametrize(
    ("damage", "part"),
    [
        (lambda d: d.pop("points"), "points"),
        (lambda d: d.update(points=[]), "at least one point"),
        (lambda d: d.update(format=2), "format"),
        (lambda d: d["points"][0].update(policy="wfq:weights=none"), "weights"),
        (lambda d: d["points"][0].update(train={"jct:avg": 1.0}), "other values"),
        (lambda d: d["points"][0].update(number=7), "numbered"),
        (lambda d: d.update(surprise=1), "surprise"),
    ],
)
def test_a_wrong_file_is_refused(
    front: Front, tmp_path: Path, damage: Callable[[dict[str, Any]], object], part: str
) -> None:
    path = front.write(tmp_path)
    content = json.loads(path.read_text())
    damage(content)
    path.write_text(json.dumps(content))
    with pytest.raises(InputError) as refused:
        Front.read(path)
    assert str(path) in str(refused.value)
    assert part in str(refused.value)


def test_what_is_no_file_or_no_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        Front.read(tmp_path)
    (tmp_path / "front.json").write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        Front.read(tmp_path)


def test_points_go_by_name_and_number(front: Front) -> None:
    assert front.named("0") == front[0]
    assert front.named("pcs-jct") == front[0]
    with pytest.raises(InputError, match="PCS-pred"):
        front.named("PCS-cheap")


COSTS = np.array([[1.0, 9.0], [2.0, 2.0], [5.0, 1.0], [9.0, 0.0]])


@pytest.mark.parametrize(
    ("objectives", "jct", "balanced", "pred"),
    [
        (("jct:avg", "pred_err:avg"), 0, 1, 3),
        (("pred_err:p99", "jct:p90"), 3, 1, 0),
        (("slowdown:avg", "unfairness:avg"), 0, 1, 3),
        (("unfairness:avg", "jct:avg"), 3, 1, 0),
    ],
)
def test_named_points(objectives: tuple[str, ...], jct: int, balanced: int, pred: int) -> None:
    found = named_points(COSTS, parse_objectives(objectives))
    assert found == {"PCS-JCT": jct, "PCS-balanced": balanced, "PCS-pred": pred}


def test_named_points_of_one_objective() -> None:
    assert set(named_points(np.array([[3.0]]), parse_objectives(["jct:avg"])).values()) == {0}


class Links(HTMLParser):
    """Whatever a page would load from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("src", "href")]


def test_a_baseline_that_beats_named_points_is_named(front: Front, tmp_path: Path) -> None:
    jct, error = front.objectives
    point = front[0].model_copy(update={"names": ("PCS-JCT", "PCS-pred"), "test": {jct: 10.0, error: 0.5}})
    fifo, srsf = front.baselines

    def with_fifo(jct_s: float, error_frac: float) -> Front:
        found = fifo.model_copy(update={"test": {jct: jct_s, error: error_frac}})
        unfinished = srsf.model_copy(update={"test": None})
        return front.model_copy(update={"points": (point,), "baselines": (found, unfinished)})

    assert beaten(with_fifo(10.0, 0.4)) == []  # as good in one is not better
    assert beaten(with_fifo(9.0, 0.6)) == []
    (sentence,) = beaten(with_fifo(9.0, 0.4))
    assert sentence == "fifo is better than PCS-JCT and PCS-pred in both objectives on the testing part."
    page.write(with_fifo(9.0, 0.4), tmp_path / "front.html")
    assert sentence in (tmp_path / "front.html").read_text()


def test_the_page_needs_no_network_and_has_the_commands(front: Front, tmp_path: Path) -> None:
    path = tmp_path / page.FILE
    page.write(front, path)
    text = path.read_text(encoding="utf-8")
    links = Links()
    links.feed(text)
    assert links.found == []
    assert "plotly_click" in text
    for point in front:
        assert f"betimes policy set {point.policy}".replace("/", "\\u002f") in text
    assert "fifo" in text


@pytest.mark.parametrize(
    "objectives", [("jct:avg",), ("jct:avg", "pred_err:avg"), ("jct:avg", "wait:max", "utilisation:avg")]
)
def test_pictures_of_any_number_of_objectives(
    workload: Workload, objectives: tuple[str, ...], tmp_path: Path
) -> None:
    front = tune(workload, objectives, units=UNITS, how=HOW)
    page.write(front, tmp_path / page.FILE)
    for name in picture.FILES:
        picture.draw(front, tmp_path / name)
    assert (tmp_path / "front.svg").read_text().count("fifo") >= 1
    assert (tmp_path / "front.png").read_bytes().startswith(b"\x89PNG")
