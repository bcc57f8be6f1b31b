"""What scripts depend on: the keys of `--json` and their order, one value on standard output, exit code 0."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Call, program

ALWAYS = (
    *("policy", "jobs", "unfinished", "refused", "predicted", "makespan_s"),
    *("jct_mean_s", "jct_p50_s", "jct_p99_s", "wait_mean_s"),
    *("slowdown_mean", "slowdown_p50", "slowdown_p95", "utilisation_frac", "preemptions", "timing"),
)
PREDICTED = ("pred_err_mean_frac", "pred_err_p90_frac", "pred_err_p99_frac", "pred_bias_mean_frac")
OF_INTERVALS = (
    *("pred_cover_frac", "pred_width_p50_frac", "pred_err_p50_frac", "pred_score"),
    *("pred_far_late_frac", "pred_far_early_frac"),
)
UNFAIR = ("unfairness_mean_frac", "unfairness_p99_frac", "unfairness_fair_run_max_frac")


def without_timing(summary: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in summary.items() if key != "timing"}


def test_simulate_prints_the_keys_of_the_contract_in_order(betimes: Call) -> None:
    plain = betimes("simulate", "sample:tiny", "--policy", "srsf", "--json").json()
    assert tuple(plain) == (*ALWAYS, *UNFAIR, "engine")
    assert plain["policy"] == "srsf"
    assert plain["jobs"] == 40
    assert tuple(plain["timing"]) == ("load_s", "compile_s", "wall_s", "jobs_per_s", "events")
    assert all(value >= 0 for value in plain["timing"].values())
    predicted = betimes("simulate", "sample:tiny", "--policy", "srsf", "--predict", "--json").json()
    assert tuple(predicted) == (*ALWAYS, *PREDICTED, *UNFAIR, "engine")
    assert predicted["predicted"] == 40


def test_promises_with_intervals_add_keys_and_columns(betimes: Call, tmp_path: Path) -> None:
    words = (
        "simulate",
        "sample:tiny",
        "--policy",
        "srsf",
        "--predict",
        "--interval",
        "0.8",
        "--sizes",
        "learned",
    )
    judged = betimes(*words, "--out", tmp_path / "out", "--json").json()
    keys = [f"{key}{of}" for of in ("", "_estimate", "_ratio") for key in OF_INTERVALS]
    assert tuple(judged) == (*ALWAYS, *PREDICTED, *keys, *UNFAIR, "engine")
    assert 0.5 <= judged["pred_cover_frac"] <= 1.0
    table = pq.read_table(tmp_path / "out" / "jobs.parquet")
    low, median, high = (
        table[name].to_numpy() for name in ("predicted_low_s", "predicted_finish_s", "predicted_high_s")
    )
    assert ((low <= median) & (median <= high)).all()
    text = betimes(*words).out
    assert "Done within interval" in text
    assert "Interval over promise p50" in text


def test_figures_by_class_come_where_there_are_several(betimes: Call, tmp_path: Path) -> None:
    path = tmp_path / "classes.csv"
    path.write_text("job_id,submit_s,work_s,max_units,qos\n1,0,10,1,0\n2,1,10,1,1\n3,2,10,1,1\n")
    said = betimes("simulate", path, "--units", "1", "--policy", "fifo", "--json").json()
    assert said["slowdown_p50_best_effort"] == 1.0
    assert said["slowdown_p50_trial"] == pytest.approx((19 / 10 + 28 / 10) / 2)


def test_the_fair_run_can_be_left_out_and_its_key_stays(betimes: Call) -> None:
    said = betimes("simulate", "sample:tiny", "--policy", "max-min", "--fractional", "--json").json()
    assert said["unfairness_fair_run_max_frac"] == pytest.approx(0.0, abs=1e-9)
    said = betimes("simulate", "sample:tiny", "--policy", "srsf", "--no-fair", "--json").json()
    assert tuple(said) == (*ALWAYS, *UNFAIR, "engine")
    assert said["unfairness_fair_run_max_frac"] is None


def test_compare_prints_an_array_of_what_simulate_prints(betimes: Call) -> None:
    texts = ["fifo", "wfq:T=2.46,W=2.25,zeta_min=0.85,delta=0.04"]
    rows = betimes("compare", "sample:tiny", "--policies", ",".join(texts), "--predict", "--json").json()
    alone = [
        betimes("simulate", "sample:tiny", "--policy", text, "--predict", "--json").json() for text in texts
    ]
    assert [row["policy"] for row in rows] == texts
    assert [without_timing(row) for row in rows] == [without_timing(one) for one in alone]
    assert betimes("compare", "sample:tiny", "--policies", "fifo", "--json").json()[0]["policy"] == "fifo"


def test_tables_have_a_row_a_policy(betimes: Call) -> None:
    said = betimes("compare", "sample:tiny", "--policies", "fifo,srsf,max-min")
    assert said.code == 0
    assert said.err == ""
    lines = [line.split()[0] for line in said.out.splitlines() if line.startswith(" ") and line.strip()]
    assert [word for word in lines if word in ("fifo", "srsf", "max-min")] == ["fifo", "srsf", "max-min"]


def test_a_policy_that_prints_does_not_disturb_the_json(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from betimes.policies import priority\n"
        "print('a line of the user')\n"
        "@priority(summary='last come, first served')\n"
        "def lifo(view, now, chosen, key):\n"
        "    for k in range(len(chosen)):\n"
        "        key[k] = 0.0\n"
    )
    said = program("simulate", "sample:tiny", "--policy", "./mine.py:lifo", "--json", cwd=tmp_path)
    assert json.loads(said.out)["policy"] == "./mine.py:lifo"
    assert "a line of the user" in said.err


def test_options_that_shape_the_workload(betimes: Call) -> None:
    def simulate(*words: str) -> dict[str, float]:
        return betimes("simulate", "sample:elastic", "--policy", "fifo", "--json", *words).json()

    whole, busy, idle = simulate(), simulate("--load", "1.5"), simulate("--load", "0.1")
    assert simulate("--jobs", "25")["jobs"] == 25
    assert simulate("--measure", "10%..90%")["jobs"] == 240
    assert idle["wait_mean_s"] < whole["wait_mean_s"] < busy["wait_mean_s"]
    assert simulate("--units", "64")["wait_mean_s"] < whole["wait_mean_s"]
    assert simulate("--restart-s", "30")["makespan_s"] != whole["makespan_s"]
    assert simulate("--predict-sample", "7")["predicted"] == 7
    assert "pred_cover_frac" in simulate("--interval", "0.8")


def test_the_offered_load_counts_the_speed_up_at_full_width(betimes: Call, tmp_path: Path) -> None:
    trace = tmp_path / "curved.csv"
    rows = "".join(f"{i},{i * 10},40,1,4,amdahl:0.5\n" for i in range(11))
    trace.write_text("job_id,submit_s,work_s,min_units,max_units,curve\n" + rows)
    # Speed-up 1.6 on 4 units: a job runs 25 s and wants 100 unit-seconds; 1,100 in 100 s are 1.1 of 10 units.
    info = betimes("trace", "info", trace, "--units", "10", "--json").json()
    assert info["offered_load_frac"] == pytest.approx(1.1)
    words = ("simulate", trace, "--units", "10", "--policy", "fifo", "--json")
    # At 0.55 the gaps double, and so does all but the last job's 25 s of the makespan.
    assert betimes(*words).json()["makespan_s"] == pytest.approx(127.5, rel=0.05)
    assert betimes(*words, "--load", "0.55").json()["makespan_s"] == pytest.approx(225.0, rel=0.01)


def test_seeds_give_means_and_intervals(betimes: Call) -> None:
    words = ("simulate", "demo:jobs=60", "--units", "16", "--policy", "srsf", "--json")
    one, two = (betimes(*words, "--seed", seed).json() for seed in ("4", "5"))
    both = betimes(*words, "--seed", "4", "--seeds", "2").json()
    assert tuple(both) == (*ALWAYS, *UNFAIR, "seeds", "ci95_half_width", "engine")
    assert both["seeds"] == [4, 5]
    assert both["jobs"] == 60
    assert both["jct_mean_s"] == pytest.approx((one["jct_mean_s"] + two["jct_mean_s"]) / 2)
    spread = abs(one["jct_mean_s"] - two["jct_mean_s"]) / 2
    assert both["ci95_half_width"]["jct_mean_s"] == pytest.approx(12.7062047 * spread)


def test_seeds_without_anything_random_are_pointed_out(betimes: Call) -> None:
    said = betimes("simulate", "sample:tiny", "--policy", "fifo", "--seeds", "2")
    assert "every seed gives the same" in said.err
    said = betimes("simulate", "sample:tiny", "--policy", "srsf", "--seeds", "2", "--sizes", "noise:0.5")
    assert said.err == ""
