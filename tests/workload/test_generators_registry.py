"""Specifications: parsing, clear refusals, determinism; the synthetic and demo generators; samples."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

from betimes import plugins
from betimes.errors import InputError
from betimes.workload import Workload, read_trace
from betimes.workload.generators import GENERATORS, Parameter, generate, is_spec, named, parse_spec
from betimes.workload.generators.arrivals import speedup_at_max
from betimes.workload.samples import SAMPLES, path


def full_width_load(workload: Workload, units: int) -> float:
    speedup = speedup_at_max(workload.curve_names, workload.curve.astype(np.int64), workload.max_units)
    return workload.offered_load(units, speedup)


# --- specifications ------------------------------------------------------------------------------


def test_every_generator_declares_its_function_exactly() -> None:
    assert set(GENERATORS) == {"demo", "synthetic", "fitgpp", "year"}
    for name in (*GENERATORS, *plugins.OF_PAPERS[plugins.WORKLOADS]):
        generator = named(name)
        assert generator.name == name
        accepted = set(inspect.signature(generator.function).parameters)
        assert accepted == {"units", "seed", *(parameter.name for parameter in generator.parameters)}
        for parameter in generator.parameters:
            assert parameter.description
            if parameter.default not in {None, ""}:
                assert parameter.read(str(parameter.default)) == parameter.default
            if parameter.used_with is not None:
                other = {p.name: p for p in generator.parameters}[parameter.used_with[0]]
                for value in parameter.used_with[1]:
                    other.read(value)


def test_a_spec_sets_parameters_and_leaves_defaults() -> None:
    generator, values = parse_spec(" synthetic : jobs = 30 , load=1.5e-1,rigid=yes ".replace(" : ", ":"))
    assert generator.name == "synthetic"
    assert values["jobs"] == 30
    assert values["load"] == 0.15
    assert values["rigid"] is True
    assert values["widths"] == "1"


def test_a_generated_workload_says_where_it_comes_from() -> None:
    made = generate("demo:jobs=10", units=8, seed=3)
    assert made.name == "demo:jobs=10"
    assert made.notes.format == "generated"
    assert made.notes.header == {"generator": "demo:jobs=10", "units": "8", "seed": "3"}
    assert made.machine_units == 8
    assert len(made) == 10
    assert is_spec("demo")
    assert is_spec("demo:jobs=10")
    assert not is_spec("demo.csv")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("syntetic", "no generator 'syntetic' .did you mean 'synthetic'.*there are demo"),
        ("", "no generator ''"),
        ("demo:", "expected name=value"),
        ("demo:jobs", "expected name=value joined by commas, got 'jobs'"),
        ("demo:jobs=", "parameter jobs: expected a whole number from 1 to 1000000, got ''"),
        ("demo:=3", "expected name=value"),
        ("demo:jobs=3,jobs=4", "jobs is given twice"),
        ("demo:job=3", "no parameter 'job' .did you mean 'jobs'.*it has jobs, load"),
        ("demo:jobs=0", "jobs: expected a whole number from 1 to 1000000, got '0'"),
        ("demo:jobs=2.5", "jobs: expected a whole number"),
        ("demo:jobs=many", "jobs: expected a whole number .*'many'"),
        ("demo:load=0", "load: expected a number above 0, got '0'"),
        ("demo:load=nan", "load: expected a number above 0, got 'nan'"),
        ("demo:load=inf", "load: expected a number above 0"),
        ("synthetic:sizes=lognorm", "sizes: expected one of exponential.*did you mean 'lognormal'"),
        ("synthetic:rigid=perhaps", "rigid: expected true or false, got 'perhaps'"),
        ("synthetic:shape=2", "shape: it has a meaning only with sizes=pareto, not with sizes=exponential"),
        ("synthetic:burst_jobs=9", "burst_jobs: it has a meaning only with arrivals=mmpp"),
        ("synthetic:widths=0@1", "numbers of units"),
        ("synthetic:curves=amdahl:7", "fraction F"),
        ("synthetic:curves=resnet", "expected speed-up curves"),
        ("synthetic:sizes=cdf", "needs cdf=PATH"),
        ("synthetic:sizes=cdf,cdf=x.csv,cdf_of=themis1", "expected KIND/WORKLOAD"),
        ("synthetic:arrivals=replay", "need gaps_of=PATH"),
        ("synthetic:sizes=pareto,min_s=9,max_s=8", "min_s below max_s"),
        ("synthetic:jobs=2,arrivals=batches,batch_jobs=1e9,exact=true", "one instant"),
    ],
)
def test_bad_specs_are_refused_on_one_line(spec: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        generate(spec, units=64, seed=1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("units", "seed"), [(0, 1), (-3, 1), (4, -1)])
def test_bad_machines_and_seeds_are_refused(units: int, seed: int) -> None:
    with pytest.raises(InputError, match=r"at least 1 unit|seed from 0"):
        generate("demo:jobs=5", units=units, seed=seed)


def test_a_parameter_says_what_it_expects() -> None:
    assert (
        Parameter("a", "float", 1.0, "", minimum=0.001, maximum=0.999).expected
        == "a number from 0.001 to 0.999"
    )
    assert Parameter("a", "float", 1.0, "").expected == "a number"
    assert Parameter("a", "path", None, "").expected == "the path of a file"


@pytest.mark.parametrize("spec", ["demo:jobs=200", "year:jobs=200", "synthetic:jobs=200,arrivals=mmpp"])
def test_the_same_seed_gives_the_same_workload(spec: str) -> None:
    first, again, other = (generate(spec, units=16, seed=seed) for seed in (5, 5, 6))
    assert first.fingerprint() == again.fingerprint()
    assert first.fingerprint() != other.fingerprint()


def test_generators_leave_the_global_random_state_alone() -> None:
    before = np.random.get_state(legacy=False)["state"]["key"].copy()  # noqa: NPY002 - it is what is guarded
    generate("demo:jobs=20", units=16, seed=5)
    np.testing.assert_array_equal(before, np.random.get_state(legacy=False)["state"]["key"])  # noqa: NPY002


# --- synthetic -----------------------------------------------------------------------------------


def test_the_aspects_have_their_own_streams() -> None:
    """Other arrivals leave sizes, widths and curves as they were; so one factor can be changed."""
    base = "synthetic:jobs=300,widths=1+4,curves=linear+power:0.5"
    plain, bursty = (generate(f"{base},arrivals={a}", units=16, seed=5) for a in ("poisson", "mmpp"))
    np.testing.assert_array_equal(plain.work_s, bursty.work_s)
    np.testing.assert_array_equal(plain.max_units, bursty.max_units)
    np.testing.assert_array_equal(plain.curve, bursty.curve)
    assert not np.array_equal(plain.submit_s, bursty.submit_s)


@pytest.mark.parametrize("arrivals", ["poisson", "batches", "mmpp"])
@pytest.mark.parametrize("load", [0.3, 1.2])
def test_load_is_met_on_average_and_exactly_on_request(arrivals: str, load: float) -> None:
    spec = (
        f"synthetic:jobs=20000,load={load},arrivals={arrivals},widths=1+4@0.5+16@0.1,curves=linear+amdahl:0.1"
    )
    assert full_width_load(generate(spec, units=32, seed=2), 32) == pytest.approx(load, rel=0.08)
    assert full_width_load(generate(spec + ",exact=true", units=32, seed=2), 32) == pytest.approx(
        load, rel=1e-9
    )


def test_exponential_sizes_and_poisson_arrivals_make_an_m_m_queue() -> None:
    made = generate("synthetic:jobs=50000,load=0.5,mean_s=100", units=1, seed=9)
    assert made.work_s.mean() == pytest.approx(100, rel=0.02)
    gaps = np.diff(made.submit_s)
    assert gaps.mean() == pytest.approx(200, rel=0.02)
    assert np.corrcoef(gaps[:-1], gaps[1:])[0, 1] == pytest.approx(0, abs=0.02)
    assert np.all(made.max_units == 1)


def test_rigid_jobs_and_the_resolution() -> None:
    made = generate("synthetic:jobs=500,mean_s=20,widths=2+8,rigid=true,resolution_s=5", units=16, seed=1)
    np.testing.assert_array_equal(made.min_units, made.max_units)
    for times in (made.submit_s, made.work_s):
        np.testing.assert_array_equal(times, np.round(times / 5) * 5)
    assert made.work_s.min() == 5


def test_sizes_from_a_table_and_gaps_from_a_trace(tmp_path: Path) -> None:
    table = tmp_path / "sizes.csv"
    table.write_text("value,cdf\n100,0\n300,1\n")
    trace = tmp_path / "trace.csv"
    Workload.from_columns(submit_s=[5, 6, 8, 8], work_s=1.0).to_csv(trace)
    base = f"synthetic:jobs=9,sizes=cdf,cdf={table},gaps_of={trace}"
    made = generate(f"{base},arrivals=replay", units=4, seed=1)
    assert np.all((made.work_s >= 100) & (made.work_s <= 300))
    gaps = np.diff(made.submit_s)
    np.testing.assert_allclose(gaps / gaps[0], [1, 2, 0, 1, 2, 0, 1, 2])
    assert made.offered_load(4) == pytest.approx(0.8)
    drawn = np.diff(generate(f"{base},arrivals=resample", units=4, seed=1).submit_s)
    step = drawn[drawn > 0].min()
    assert set(np.round(drawn / step, 6)) <= {0.0, 1.0, 2.0}


# --- demo ----------------------------------------------------------------------------------------


def test_demo_is_a_busy_cluster_of_mixed_elastic_jobs() -> None:
    made = generate("demo", units=64, seed=1)
    assert len(made) == 2000
    assert full_width_load(made, 64) == pytest.approx(0.9, abs=1e-3)
    assert np.all(made.min_units == 1)
    assert set(made.max_units) == {1, 2, 4, 8, 16}
    assert len(made.curve_names) == 4
    assert np.std(made.work_s) / np.mean(made.work_s) > 2.5
    share = np.sort(made.work_s)[::-1].cumsum() / made.work_s.sum()
    assert share[len(made) // 20] > 0.5  # the largest 5% of the jobs are over half of the work
    for times in (made.submit_s, made.work_s):
        np.testing.assert_array_equal(times, np.round(times))
    speedup = speedup_at_max(made.curve_names, made.curve.astype(np.int64), made.max_units)
    too_low = np.mean(made.estimate_s < made.work_s / speedup)
    assert 0.02 < too_low < 0.08


def test_demo_fits_a_small_machine() -> None:
    assert generate("demo:jobs=50", units=3, seed=1).max_units.max() == 3
    assert len(generate("demo:jobs=1", units=1, seed=1)) == 1


# --- samples -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(SAMPLES))
def test_a_sample_is_what_its_specification_generates(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    made = sample.generate()
    made.to_csv(tmp_path / "again.csv")
    assert path(name).read_bytes() == (tmp_path / "again.csv").read_bytes()
    assert read_trace(path(name)) == made
    assert made.max_units.max() <= sample.units
    assert path(name).stat().st_size < 40_000


def test_an_unknown_sample_is_refused() -> None:
    with pytest.raises(InputError, match="no sample 'huge'; there are tiny"):
        path("huge")
