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
from betimes.foresight.tuning.shown import Axis, Mark, Shown, beaten, in_words
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
    assert '<meta name="viewport"' in text
    assert "Job completion time, mean" in text
    assert "JCT mean" not in text
    assert "PCS-pred (the most predictable)" in text
    for point in front:
        assert f"betimes policy set {point.policy}".replace("/", "\\u002f") in text
        assert text.count(in_words(point.policy)) == 1  # in the table, below what hovering shows
    assert "fifo" in text
    assert "Testing part, reported" in text
    assert "Training part, searched on" in text


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


def test_parameters_are_explained_in_words() -> None:
    assert in_words("wfq:thresholds=7200,weights=3+1,zeta_min=0.25,delta=0.1") == (
        "2 classes by work on one unit share the units: jobs of up to 2 h 75 %, larger jobs 25 %. A job widens while "
        "its units do at least 25 % each of what one alone would; units that are left go below that in steps of 10 %."
    )
    assert in_words("wfq:weights=1,zeta_min=0.5,delta=0.1").startswith(
        "All jobs are one class. A job widens while"
    )


JCT = parse_objectives(["jct:avg"])[0]


def test_an_outlier_does_not_take_the_axis() -> None:
    even = Axis.of(JCT, [10.0, 20.0, 30.0])
    assert (even.heading, even.ticks([10.0, 20.0, 30.0])) == ("JCT mean (s)", None)
    skewed = Axis.of(JCT, [10.0, 11.0, 14.0, 18.0, 100.0])
    assert skewed.heading == "JCT mean (s); logarithmic"
    values = [10.0, 11.0, 12.0, 12.0, 14.0, 100.0]
    cut = Axis.of(JCT, values)
    assert cut.heading == "JCT mean (s); larger values at the edge"
    assert cut.placed(100.0) == pytest.approx(14.8)
    assert [cut.is_cut(value) for value in values] == [False] * 5 + [True]
    assert cut.ticks(values) == {10.0: "10", 11.0: "11", 12.0: "12", 13.0: "13", 14.0: "14"}


@pytest.mark.parametrize("seed", range(20))
def test_names_do_not_overlap(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.lognormal(size=(12, 2)) * 100.0
    values[1] = values[0]  # two at the same place
    marks = [
        Mark((f"policy-{n}",), "fifo", "baseline", tuple(pair)) for n, pair in enumerate(values.tolist())
    ]
    objectives = parse_objectives(["jct:avg", "wait:avg"])
    axes = tuple(Axis.of(each, values[:, at].tolist()) for at, each in enumerate(objectives))
    width, height, letter, line = 400.0, 400.0, 7.0, 15.0
    labels = Shown(tuple(marks), axes).labels(width, height, letter, line)
    names = sorted(text.partition(",")[0] for label in labels for text in label.lines)
    assert names == sorted(mark.names[0] for mark in marks)
    boxes: list[tuple[float, float, float, float]] = []
    for label in labels:
        ends = [axis.limits(values[:, at].tolist()) for at, axis in enumerate(axes)]
        at = [
            size * ((value if axis.floor is None else np.log10(value)) - low) / (high - low)
            for size, axis, value, (low, high) in zip(
                (width, height), axes, (label.x, label.y), ends, strict=True
            )
        ]
        wide, high = letter * max(map(len, label.lines)), line * len(label.lines)
        left = at[0] - 9 - wide if label.is_left else at[0] + 9
        boxes.append((left, left + wide, at[1] - high / 2, at[1] + high / 2))
    for n, one in enumerate(boxes):
        for other in boxes[n + 1 :]:
            apart = one[1] <= other[0] or other[1] <= one[0] or one[3] <= other[2] or other[3] <= one[2]
            assert apart, labels
