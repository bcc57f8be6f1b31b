"""The nodes engine from the command line: which engine runs, what options mean there, what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from betimes.outcome import load
from tests.cli.conftest import Call, program
from tests.cli.test_bad_input import refused
from tests.cli.test_contract import ALWAYS, PREDICTED, without_timing

HEAD = "job_id,submit_s,run_s,max_units,min_units,qos,grace_s,gpu,cpu,memory_gib\n"
FILES = {
    # The specification of FitGpp, B9, in seconds: one node, J0 is in the way of J1 and J2.
    "b2.csv": f"{HEAD}0,0,60,1,1,0,3,8,1,1\n1,10,5,1,1,1,0,4,1,1\n2,20,5,1,1,1,0,4,1,1\n",
    "node.toml": '[[nodes]]\ntype = "a"\ngpu = 8\ncpu = 32\nmemory_gib = 256\n',
    "strict.toml": 'grace_limit_s = 2\n[[nodes]]\ntype = "a"\ngpu = 8\ncpu = 32\nmemory_gib = 256\n',
    "small.toml": '[[nodes]]\ntype = "a"\ngpu = 4\ncpu = 32\nmemory_gib = 256\n',
    "tiny.toml": '[[nodes]]\ntype = "a"\ngpu = 2\ncpu = 32\nmemory_gib = 256\n',
    "wide.toml": '[[nodes]]\ntype = "a"\ngpu = 32\ncpu = 1\nmemory_gib = 1\n',
    "typo.toml": '[[nodes]]\ntype = "a"\ngpus = 8\ncpu = 32\nmemory_gib = 256\n',
    "none.toml": 'name = "empty"\n',
    "zero.csv": "job_id,submit_s,run_s,max_units,gpu,cpu,memory_gib\n7,0,5,1,0,0,0\n",
    "negative.csv": "job_id,submit_s,run_s,max_units,gpu\n7,0,5,1,-2\n",
    "estimates.csv": "job_id,submit_s,run_s,max_units,estimate_s\n1,0,100,4,40\n2,1,100,4,200\n",
}
GENERATED = "fitgpp:jobs=150,nodes=3"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("policy", "trials", "best_effort", "preemptions"),
    [("fifo", 10.0, 1.0, 0), ("fitgpp", 6.1, 68 / 60, 1), ("fitgpp:P=2", 1.6, 76 / 60, 2)],
)
def test_the_specifications_case(
    betimes: Call, policy: str, trials: float, best_effort: float, preemptions: int
) -> None:
    said = betimes("simulate", "b2.csv", "--cluster", "node.toml", "--policy", policy, "--json").json()
    assert said["slowdown_p50_trial"] == pytest.approx(trials)
    assert said["slowdown_p50_best_effort"] == pytest.approx(best_effort)
    assert said["preemptions"] == preemptions


def test_the_keys_of_nodes_follow_those_of_the_contract(betimes: Call) -> None:
    said = betimes("simulate", GENERATED, "--policy", "fitgpp", "--predict", "--json").json()
    resources = ("utilisation_gpu_frac", "utilisation_cpu_frac", "utilisation_memory_frac")
    absences = [f"{name}_p{p}_s" for name in ("reschedule", "vacated_to_resumed") for p in (50, 95)]
    expected = (*ALWAYS, "finished", "killed", *resources, "preempted_jobs", *absences, *PREDICTED)
    assert tuple(said)[: len(expected)] == expected
    assert said["utilisation_frac"] == max(said[name] for name in resources)
    assert 0 < said["preempted_jobs"] <= said["preemptions"]
    assert said["predicted"] == 150
    assert not [key for key in said if key.startswith("unfairness")]


@pytest.mark.usefixtures("folder")
def test_which_engine_runs(betimes: Call) -> None:
    def killed(*words: str) -> bool:
        """Whether the figure is there that only nodes have."""
        return "killed" in betimes("simulate", *words, "--json").json()

    assert not killed("sample:tiny", "--policy", "fifo")
    assert killed("sample:tiny", "--policy", "fifo", "--engine", "nodes")
    assert killed("sample:tiny", "--policy", "easy")
    assert killed("sample:tiny", "--policy", "fifo", "--cluster", "node.toml")
    assert killed(GENERATED, "--policy", "fifo")
    assert not killed(GENERATED, "--policy", "fifo", "--engine", "pool", "--units", "8")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("where", [("--units", "32"), ("--cluster", "wide.toml")])
def test_compare_runs_each_policy_on_the_engine_that_it_is_for(betimes: Call, where: tuple[str, str]) -> None:
    """As by itself, with the same jobs, and the table says which jobs are elastic."""
    words = ("sample:elastic", *where, "--json")
    said = betimes(
        "compare", *words, "--policies", "pool:fifo,srsf,easy,nodes:fifo,nodes:fifo:placement=first"
    )
    rows = {row["policy"]: row for row in said.json()}
    assert [row.pop("widths") for row in rows.values()] == ["elastic", "elastic", "rigid", "rigid", "rigid"]
    assert "pool:fifo, srsf: elastic, jobs are resized on " in said.err
    assert (
        "easy, nodes:fifo, nodes:fifo:placement=first: rigid, jobs run at their full width on nodes"
        in said.err
    )
    for policy, row in rows.items():
        alone = betimes("simulate", *words, "--policy", policy).json()
        assert without_timing(alone) == without_timing(row)
    assert rows["pool:fifo"]["jct_mean_s"] < rows["nodes:fifo"]["jct_mean_s"]


@pytest.mark.usefixtures("folder")
def test_a_cluster_as_a_pool(betimes: Call) -> None:
    """One node without limits but its GPUs is a pool of them; with a gate, resizes are fewer."""
    words = ("simulate", "sample:elastic", "--policy", "srsf", "--predict", "--no-fair", "--json")
    pool, on_node = (
        betimes(*words, *where).json()
        for where in (("--units", "32"), ("--engine", "pool", "--cluster", "wide.toml"))
    )
    assert without_timing(on_node) == without_timing(pool)
    held_back = betimes(*words, "--units", "32", "--resize-interval", "1e9", "--resize-gain").json()
    assert held_back["jct_mean_s"] != pool["jct_mean_s"]


@pytest.mark.usefixtures("folder")
def test_a_pool_is_one_node_without_walls(betimes: Call) -> None:
    """Jobs of one unit, first come first served: both engines do the same."""
    narrow = "synthetic:jobs=200,load=0.95,widths=1@1,rigid=true"
    words = ("simulate", narrow, "--policy", "fifo", "--units", "4", "--predict", "--json")
    pool, nodes = (betimes(*words, "--engine", engine).json() for engine in ("pool", "nodes"))
    for key in set(ALWAYS) - {"policy", "timing"} | set(PREDICTED):
        assert nodes[key] == pytest.approx(pool[key], rel=1e-9), key


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--policy", "srsf", "--engine", "nodes"], ["policy srsf is for a pool", "--engine nodes"]),
        (["--policy", "easy", "--engine", "pool"], ["policy easy is for nodes", "--engine pool", "srsf"]),
        (
            ["--policy", "fifo", "--engine", "pool", "--cluster", "node.toml", "--fractional"],
            ["--fractional", "nodes"],
        ),
        (
            ["--policy", "fifo", "--engine", "pool", "--cluster", "node.toml", "--units", "3"],
            ["--units 3", "--cluster node:"],
        ),
        (["--policy", "easy", "--resize-gain"], ["--resize-gain", "never resized"]),
        (["--policy", "easy", "--resize-interval", "9"], ["--resize-interval", "never resized"]),
        (["--policy", "fitgp"], ["'fitgp'", "did you mean 'fitgpp'"]),
        (["--policy", "easy:order=sjff"], ["easy", "order", "'sjff'", "did you mean 'sjf'"]),
        (["--policy", "easy:placement=bst"], ["easy", "placement", "'bst'", "first, best, worst"]),
        (["--policy", "fitgpp:fallback=lrtp"], ["fitgpp", "fallback", "none, rand"]),
        (["--policy", "fitgpp:P=1/2"], ["fitgpp", "parameter P", "whole number"]),
        (["--policy", "easy", "--fractional"], ["--fractional"]),
        (["--policy", "easy", "--fair"], ["--fair"]),
        (["--policy", "easy", "--no-fair"], ["--no-fair"]),
        (["--policy", "easy", "--on-wide", "clip"], ["--on-wide clip", "drop"]),
        (["--policy", "easy", "--overrun", "ignore"], ["--overrun", "'ignore'"]),
        (
            ["--policy", "easy", "--units", "3", "--cluster", "node.toml"],
            ["--units 3", "--cluster node:"],
        ),
        (["--policy", "easy", "--cluster", "typo.toml"], ["typo.toml, [[nodes]] table 1", "'gpus'", "gpu"]),
        (["--policy", "easy", "--cluster", "none.toml"], ["none.toml", "field nodes"]),
        (["--policy", "easy", "--cluster", "nowhere.toml"], ["nowhere.toml", "No such file"]),
        (["--policy", "easy", "--trial", "run"], ["trial rule 'run'", "run:SECONDS"]),
        (["--policy", "easy", "--trial", "qos"], ["qos_name"]),
        (["--policy", "easy", "--grace", "9:3"], ["--grace 9:3"]),
        (["--policy", "easy", "--grace", "long"], ["--grace long", "180:1200"]),
        (["--policy", "pool:fifo", "--grace", "9"], ["--grace 9", "pool"]),
        (["--policy", "pool:fifo", "--overrun", "kill"], ["--overrun kill", "pool"]),
        (["--policy", "easy", "--sizes", "estimate"], ["--sizes estimate", "no job"]),
        (
            ["--policy", "easy", "--units", "2", "--on-wide", "refuse"],
            ["job ", "max_units", "the pool has 2"],
        ),
        (["--policy", "easy", "--units", "1", "--load", "0"], ["--load 0"]),
    ],
)
def test_options_that_are_wrong_or_mean_nothing(betimes: Call, words: list[str], parts: list[str]) -> None:
    line = refused(betimes, "simulate", "sample:rigid", *words)
    assert [part for part in parts if part not in line] == [], line


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("file", "cluster", "parts"),
    [
        (
            "b2.csv",
            "tiny.toml",
            ["job 0", "field gpu", "asks for 8 GPUs, the largest node has 2", "3 such jobs"],
        ),
        ("zero.csv", "node.toml", ["zero.csv", "line 2", "field gpu", "found '0'"]),
        ("negative.csv", "node.toml", ["negative.csv", "line 2", "field gpu", "-2"]),
        (GENERATED, "tiny.toml", ["job ", "field gpu", "the largest node has 2"]),
    ],
)
def test_jobs_that_nothing_can_be_done_with(betimes: Call, file: str, cluster: str, parts: list[str]) -> None:
    line = refused(betimes, "simulate", file, "--cluster", cluster, "--policy", "fitgpp")
    assert [part for part in parts if part not in line] == [], line


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("cluster", "parts"),
    [
        ("small.toml", ["job 0", "field gpu", "the largest node has 4"]),
        ("strict.toml", ["job 0", "field grace_s", "asks for 3 s", "the cluster allows 2"]),
    ],
)
def test_some_jobs_are_refused_and_counted_or_stop_it(betimes: Call, cluster: str, parts: list[str]) -> None:
    words = ("simulate", "b2.csv", "--cluster", cluster, "--policy", "fitgpp", "--json")
    for more in ((), ("--on-wide", "drop")):
        said = betimes(*words, *more)
        assert (said.json()["refused"], said.json()["jobs"]) == (1, 3)
        assert said.err.startswith("betimes: note: ")
        assert [part for part in parts if part not in said.err] == [], said.err
    line = refused(betimes, *words, "--on-wide", "refuse")
    assert [part for part in parts if part not in line] == [], line


@pytest.mark.usefixtures("folder")
def test_jobs_that_outrun_their_estimate(betimes: Call) -> None:
    words = ("simulate", "estimates.csv", "--units", "4", "--policy", "easy", "--json")
    extended, ended = betimes(*words).json(), betimes(*words, "--overrun", "kill").json()
    assert (extended["killed"], extended["makespan_s"]) == (0, 200.0)
    assert (ended["killed"], ended["makespan_s"]) == (1, 140.0)
    assert betimes(*words, "--overrun", "extend").json()["makespan_s"] == 200.0


def test_trials_and_grace_periods_are_drawn_by_the_seed(betimes: Call) -> None:
    words = ("simulate", "sample:rigid", "--policy", "fitgpp", "--json")
    marked = betimes(*words, "--trial", "run:300", "--grace", "60:120").json()
    assert marked["jobs_trial"] + marked["jobs_best_effort"] == 300
    assert marked["preemptions"] > 0
    drawn = (*words, "--trial", "random:0.3", "--grace", "60")
    one, two = (betimes(*drawn, "--seed", seed).json() for seed in ("1", "2"))
    assert (one["jobs_trial"], two["jobs_trial"]) == (90, 90)
    assert one["jct_mean_s"] != two["jct_mean_s"]
    both = betimes(*drawn, "--seed", "1", "--seeds", "2")
    assert both.err == ""
    assert both.json()["jct_mean_s"] == pytest.approx((one["jct_mean_s"] + two["jct_mean_s"]) / 2)
    on_a_pool = betimes("simulate", "sample:rigid", "--policy", "srsf", "--trial", "run:300", "--json").json()
    assert on_a_pool["jobs_trial"] == marked["jobs_trial"]


@pytest.mark.usefixtures("folder")
def test_the_load_on_nodes_is_that_of_the_resource_most_in_demand(betimes: Call) -> None:
    # 8 x 60 + 4 x 5 + 4 x 5 GPU-seconds on 8 GPUs within 20 s.
    info = betimes("trace", "info", "b2.csv", "--cluster", "node.toml", "--json").json()
    assert (info["offered_load_frac"], info["nodes"], info["wider_than_units"]) == (3.25, 1, 0)
    assert "3.25 of 1 node\n" in betimes("trace", "info", "b2.csv", "--cluster", "node.toml").out
    words = ("simulate", "b2.csv", "--cluster", "node.toml", "--policy", "fifo", "--json", "--load", "0.65")
    assert betimes(*words).json()["makespan_s"] == 105.0  # submitted at 0, 50 and 100


@pytest.mark.usefixtures("folder")
def test_a_generated_workload_keeps_its_load_on_the_nodes_at_hand(betimes: Call, tmp_path: Path) -> None:
    at_home, made = tmp_path / "home.parquet", tmp_path / "made.parquet"
    assert betimes("trace", "generate", GENERATED, at_home).code == 0
    words = ("--policy", "fifo", "--json")
    direct = without_timing(betimes("simulate", GENERATED, *words).json())
    assert without_timing(betimes("simulate", at_home, *words).json()) == direct
    line = refused(betimes, "simulate", str(at_home), "--policy", "srsf")
    assert "was generated for nodes; give --engine nodes" in line
    assert betimes("trace", "generate", GENERATED, made, "--cluster", "node.toml").code == 0
    elsewhere = betimes("simulate", GENERATED, *words, "--cluster", "node.toml").json()
    again = betimes("simulate", made, *words, "--cluster", "node.toml").json()
    assert without_timing(again) == without_timing(elsewhere)
    assert elsewhere["makespan_s"] > 2 * float(str(direct["makespan_s"]))  # a third of the nodes


def test_results_and_pictures_of_nodes(betimes: Call, tmp_path: Path) -> None:
    out, plots = tmp_path / "out", tmp_path / "plots"
    words = ("compare", GENERATED, "--policies", "fifo,fitgpp", "--out", out, "--plots", plots, "--predict")
    assert betimes(*words, "--report").err == ""
    assert sorted(path.name for path in (out / "fitgpp").iterdir()) == [
        *("absences.parquet", "decisions.parquet", "jobs.parquet", "summary.json", "timeline.parquet")
    ]
    assert not (out / "fifo" / "absences.parquet").exists()
    pictures = {path.name for path in (out / "pictures").iterdir()}
    assert {"nodes-fitgpp.svg", "nodes-fitgpp.png", "jobs-fifo.svg", "promises.png"} <= pictures
    result = load(out / "fitgpp")
    assert result.absences is not None
    written = json.loads((out / "fitgpp" / "summary.json").read_text())
    assert written["preemptions"] == result.jobs.preemptions.sum() == len(result.absences)
    assert [each["name"] for each in written["run"]["resources"]] == ["gpu", "cpu", "memory_gib"]
    names = sorted(path.name for path in plots.iterdir())
    assert names == [
        *("jct-cdf.svg", "prediction-error-cdf.svg", "slowdown-cdf.svg", "timeline-fifo.svg"),
        "timeline-fitgpp.svg",
    ]
    assert all(ET.parse(plots / name).getroot().tag.endswith("svg") for name in names)


def test_processes_and_the_table(betimes: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    words = ("compare", GENERATED, "--policies", "fifo,rand,lowest-priority", "--seeds", "2")
    one, two = (betimes(*words, "--processes", number, "--json").json() for number in ("1", "2"))
    assert [without_timing(row) for row in one] == [without_timing(row) for row in two]
    table = betimes(*words).out
    assert "resumed p50" in table
    assert "p95 trial" in table


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("policy", "is_drawn"), [("easy:order=sjf", False), ("easy:order=random", True)])
def test_a_random_order_makes_seeds_worthwhile(betimes: Call, policy: str, is_drawn: bool) -> None:
    said = betimes("simulate", "b2.csv", "--cluster", "node.toml", "--policy", policy, "--seeds", "2")
    assert ("every seed gives the same" in said.err) != is_drawn


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "expected"), [("srsf", "[True, False]"), ("easy", "[False, True]")])
def test_an_engine_compiles_its_own_kernels_only(policy: str, expected: str) -> None:
    """A first simulation must not wait for the other engine, which takes most of a minute."""
    code = (
        "import sys; from betimes.cli.main import main; main(sys.argv[1:])\n"
        "from betimes.twin.pool import trace_loop; from betimes.twin.nodes import trace_loop as on_nodes\n"
        "print([each.run_rows.is_loaded for each in (trace_loop, on_nodes)], file=sys.stderr)"
    )
    words = [sys.executable, "-c", code, "simulate", "sample:rigid", "--policy", policy, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr.strip().endswith(expected), done.stderr


@pytest.mark.slow
def test_a_policy_of_ones_own_says_which_engine_it_is_for(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from betimes.policies.nodes.hooks import ordering\n"
        "@ordering(summary='last come, first served')\n"
        "def lifo(view, now, chosen, key):\n"
        "    for k in range(len(chosen)):\n"
        "        key[k] = -float(view.jobs[chosen[k]].seq)\n"
    )
    said = program("simulate", "sample:rigid", "--policy", "./mine.py:lifo", "--json", cwd=tmp_path)
    assert "killed" in said.json()
    said = program("policies", "./mine.py:lifo", "--json", cwd=tmp_path)
    assert (said.json()["engine"], said.json()["name"]) == ("nodes", "./mine.py:lifo")
    said = program("simulate", "sample:rigid", "--policy", "./mine.py:lif", cwd=tmp_path)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "'lif'" in said.err


def test_a_trace_on_nodes_needs_no_units(betimes: Call, tmp_path: Path) -> None:
    nodes, jobs = tmp_path / "nodes.toml", tmp_path / "jobs.csv"
    nodes.write_text("[[nodes]]\ntype = 'a'\ncpu = 4\nmemory_gib = 8\n")
    jobs.write_text("submit_s,work_s,max_units\n5,10,1\n5,20,1\n")
    said = betimes("trace", "info", jobs, "--cluster", nodes).out
    assert "--units" not in said
    assert "all jobs are submitted at one time" in said
    assert betimes("trace", "info", jobs, "--cluster", nodes, "--json").json()["offered_load_frac"] is None


def test_what_no_node_can_have_is_refused(betimes: Call, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.toml"
    nodes.write_text("[[nodes]]\ntype = 'a'\ncpu = 0.0001\nmemory_gib = 8\n")
    said = betimes("simulate", "sample:rigid", "--policy", "fifo", "--cluster", nodes)
    assert (said.code, "field cpu: expected at least a thousandth, found 0.0001" in said.err) == (2, True)
    said = betimes("simulate", "sample:rigid", "--policy", "fifo", "--cluster", "")
    assert (said.code, "empty" in said.err) == (2, True)
    said = betimes("simulate", "sample:rigid", "--policy", "fitgpp", "--trial", "run:1e300")
    assert (said.code, "at most" in said.err) == (2, True)


def test_it_is_said_how_many_jobs_the_figures_are_of(betimes: Call, tmp_path: Path) -> None:
    nodes, jobs = tmp_path / "nodes.toml", tmp_path / "jobs.csv"
    nodes.write_text("[[nodes]]\ntype = 'a'\ncpu = 4\nmemory_gib = 8\n")
    jobs.write_text("submit_s,work_s,max_units,cpu\n5,10,1,1\n6,20,1,1\n7,20,1,8\n")
    words = ("simulate", jobs, "--policy", "fifo", "--cluster", nodes)
    figures = betimes(*words, "--json").json()
    assert (figures["jobs"], figures["finished"], figures["refused"]) == (3, 2, 1)
    assert "Jobs that finished" in betimes(*words).out


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("file", "where", "policies", "engine"),
    [
        ("sample:elastic", (), "fifo,easy", "nodes"),  # easy has no other meaning
        ("sample:elastic", (), "fifo,nodes:fifo:placement=first", "nodes"),
        ("sample:elastic", ("--cluster", "wide.toml"), "fifo,srsf", "nodes"),
        ("sample:elastic", (), "fifo,srsf", "pool"),
        ("sample:rigid", (), "fifo", "nodes"),  # no policy resizes these
        ("sample:rigid", (), "pool:fifo", "pool"),
        ("sample:rigid", ("--engine", "pool"), "fifo", "pool"),
    ],
)
def test_a_name_that_both_engines_have_is_compared_with_its_like(
    betimes: Call, file: str, where: tuple[str, ...], policies: str, engine: str
) -> None:
    """First come first served beside backfilling keeps its order, instead of filling gaps by preemption."""
    rows = betimes("compare", file, *where, "--policies", policies, "--json").json()
    assert rows[0]["engine"] == engine
    assert ("widths" in rows[0]) == (len({row["engine"] for row in rows}) > 1)


@pytest.mark.usefixtures("folder")
def test_rows_of_two_engines_name_theirs(betimes: Call, tmp_path: Path) -> None:
    """In the table and in the report; the names that scripts read stay."""
    out = tmp_path / "out"
    words = ("compare", "sample:rigid", "--policies", "fifo,srsf", "--out", out, "--report")
    said = betimes(*words).out
    assert [line.split()[0] for line in said.splitlines() if ":" in line] == ["nodes:fifo", "pool:srsf"]
    page = (out / "report.html").read_text(encoding="utf-8")
    assert '<th scope="col">nodes:fifo</th><th scope="col">pool:srsf</th>' in page
    kept = json.loads((out / "comparison.json").read_bytes())["rows"]
    assert [(row["policy"], row["engine"]) for row in kept] == [("fifo", "nodes"), ("srsf", "pool")]


@pytest.mark.usefixtures("folder")
def test_a_note_says_whose_promises_a_portfolio_makes(betimes: Call) -> None:
    def noted(policy: str, *more: str) -> bool:
        words = ("simulate", "b2.csv", "--cluster", "node.toml", "--policy", policy)
        return "member in force when the job is submitted" in betimes(*words, *more).err

    assert noted("portfolio:members=fifo+widest", "--predict")
    assert not noted("portfolio:members=fifo+widest")
    assert not noted("portfolio:members=fifo+widest,shadow=true", "--predict")
    assert not noted("portfolio:members=fifo", "--predict")
