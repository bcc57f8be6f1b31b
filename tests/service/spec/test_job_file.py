"""Files of jobs: what they mean, and what is said of those that mean nothing."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.errors import JobFileError
from betimes.service.spec import job_file
from betimes.service.spec.job_file import read_drafts, read_jobs
from betimes.service.spec.job_spec import JobSpec

TOML = """
[defaults]
qos = "trial"
units = 2
estimate = "2h"
env = { SEED = "7", MODE = "fast" }
labels.team = "a"

[[jobs]]
name = "prepare"
command = ["./prepare.sh", "--all of it"]

[[jobs]]
name = "train"
command = "python train.py --name 'two words'"
gpu = 1
memory = "512MiB"
units = "1-8"
grace = "1m"
time_limit = "1-00:00:00"
steps = 1000
step = 0.8
after = 41
workdir = "runs"
checkpoint_dir = "/tmp/kept"
env.MODE = "slow"
curve.speedup = { 1 = 1.0, 2 = 1.9 }
"""
YAML = """
defaults:
  qos: trial
  units: 2
  estimate: 2h
  env: {SEED: "7", MODE: fast}
  labels: {team: a}
jobs:
  - name: prepare
    command: [./prepare.sh, --all of it]
  - name: train
    command: python train.py --name 'two words'
    gpu: 1
    memory: 512MiB
    units: 1-8
    grace: 1m
    time_limit: 1-00:00:00
    steps: 1000
    step: 0.8
    after: [41]
    workdir: runs
    checkpoint_dir: /tmp/kept
    env: {MODE: slow}
    curve:
      speedup: {1: 1.0, 2: 1.9}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(text: str | bytes, name: str = "jobs.toml") -> str:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return name


def refused(text: str | bytes, name: str) -> JobFileError:
    with pytest.raises(JobFileError) as caught:
        read_jobs(written(text, name))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(name)
    return caught.value


@pytest.mark.parametrize(
    ("text", "name"), [(TOML, "deep/jobs.toml"), (YAML, "deep/jobs.yaml"), (YAML, "deep/jobs.YML")]
)
def test_the_same_jobs_in_either_format(here: Path, text: str, name: str) -> None:
    shared: dict[str, Any] = {"qos": "trial", "labels": {"team": "a"}}
    assert read_jobs(written(text, name)) == [
        JobSpec(
            name="prepare",
            command=["./prepare.sh", "--all of it"],
            workdir=str(here),
            env={"SEED": "7", "MODE": "fast"},
            min_units=2,
            max_units=2,
            estimate_s=7200.0,
            **shared,
        ),
        JobSpec(
            name="train",
            command=["python", "train.py", "--name", "two words"],
            workdir=str(here / "deep" / "runs"),
            checkpoint_dir="/tmp/kept",
            env={"SEED": "7", "MODE": "slow"},
            gpu=1.0,
            memory_gib=0.5,
            min_units=1,
            max_units=8,
            grace_s=60.0,
            time_limit_s=86_400.0,
            steps=1000,
            step_s=0.8,
            after=["41"],
            curve={"speedup": {1: 1.0, 2: 1.9}},  # pyright: ignore[reportArgumentType]
            **shared,
        ),
    ]


def test_a_file_that_is_one_job(here: Path) -> None:
    assert read_jobs(written('command = ["a"]\ncpu = 2')) == [
        JobSpec(command=["a"], cpu=2, workdir=str(here))
    ]
    assert read_jobs(written("command: a b\ngpu: 1", "j.yaml"))[0].command == ["a", "b"]


@pytest.mark.usefixtures("here")
def test_a_job_may_take_a_default_away() -> None:
    jobs = "[{command: [a], estimate: null}, {command: [a], steps: 2, step_s: 3}]"
    text = f"defaults: {{estimate: 2h, gpu: 1}}\njobs: {jobs}"
    first, second = read_jobs(written(text, "j.yaml"))
    assert math.isnan(first.runtime_estimate_s)
    assert second.runtime_estimate_s == 6.0
    assert first.gpu == 1.0


@pytest.mark.usefixtures("here")
def test_words_of_yaml_mean_what_they_say() -> None:
    text = (
        "command: [no, on, 12:30, 2027-01-15, 0o17, 1_000, '3', \"4\", 007x]\n"
        "env: {A: yes, B: '1.10', C: =}\nestimate: 1e3\ncpu: .5\n"
    )
    spec = read_jobs(written(text, "j.yaml"))[0]
    assert spec.command == ["no", "on", "12:30", "2027-01-15", "0o17", "1_000", "3", "4", "007x"]
    assert spec.env == {"A": "yes", "B": "1.10", "C": "="}
    assert (spec.estimate_s, spec.cpu) == (1000.0, 0.5)


JOB = 'command = ["a"]\n'
BAD_TOML = [
    ("", None, ["holds no job", "command = [...]"]),
    ("jobs = []", 1, ["field jobs", "one table or more"]),
    ("jobs = 3", 1, ["field jobs", "one table or more"]),
    ("jobs = [3]", 1, ["job 1", "expected a table"]),
    ("[defaults]\ngpu = 1", None, ["field jobs", "one table or more"]),
    ("defaults = 3\n[[jobs]]\n" + JOB, 1, ["field defaults", "expected a table"]),
    ("cpu = 1\n[[jobs]]\n" + JOB, 1, ["field cpu", "`defaults`"]),
    ("cpu = 1", None, ["field command", "missing"]),
    ("command = ", None, ["not TOML", "Invalid value"]),
    ("gpu = 1\ngpu = 2\n" + JOB, 2, ["not TOML", "overwrite"]),
    (JOB + "gpus = 1", 2, ["field gpus", "unknown", "did you mean 'gpu'"]),
    (JOB + "memory_gb = 1", 2, ["did you mean 'memory_gib'"]),
    ("[[jobs]]\n" + JOB + "[[jobs]]\n" + JOB + "\n\n# x\ngpu = -1", 8, ["job 2", "field gpu", "-1", "0 or more"]),
    ("[defaults]\ngpu = -1\n[[jobs]]\n" + JOB, 2, ["field gpu", "-1"]),
    (JOB + "cpu = nan", 2, ["field cpu", "nan", "finite"]),
    (JOB + "gpu = inf", 2, ["field gpu", "inf"]),
    (JOB + "cpu = true", 2, ["field cpu", "true", "none is a switch"]),
    (JOB + "cpu = 2027-01-15", 2, ["field cpu", "expected a number"]),
    (JOB + "memory = '4GB'", 2, ["field memory", "4GB", "4GiB"]),
    (JOB + "memory = 1e9", 2, ["field memory", "too large", "1,000,000"]),
    (JOB + "memory = '1GiB'\nmemory_gib = 1", 3, ["field memory_gib", "memory says the same"]),
    (JOB + "units = '1-4'\nmax_units = 8", 3, ["field max_units", "units says the same"]),
    (JOB + "min_units = 8\nmax_units = 4", None, ["min_units 8 is more than max_units 4"]),
    (JOB + "units = 0", 2, ["field units", "1 or more"]),
    (JOB + "units = 1.5", 2, ["field units", "whole number", "1.5"]),
    (JOB + "estimate = 'soon'", 2, ["field estimate", "soon", "1h30m"]),
    (JOB + "estimate = 0", 2, ["field estimate", "more than 0"]),
    (JOB + "estimate = '1h'\nsteps = 3\nstep = 1", None, ["estimate"]),
    (JOB + "steps = " + "9" * 400 + "\nstep = 1", 2, ["field steps", "this number is too large", "1,000,000,000,000"]),
    (JOB + "steps = 1_000_000\nstep = '1d'", None, ["steps times step_s", "at most 1e+09 s"]),
    (JOB + "steps = 3", None, ["steps and step_s go together"]),
    (JOB + "env = {A = 1}", 2, ["field env.A", "write it in quotes"]),
    (JOB + "env.A = 1", 2, ["field env.A", "write it in quotes"]),
    (JOB + "[env]\nB = ''\nA = 1", 4, ["field env.A", "write it in quotes"]),
    (JOB + "env = {BETIMES_X = '1'}", 2, ["field env", "BETIMES_"]),
    (JOB + "env = 'A=1'", 2, ["field env", "expected a table"]),
    (JOB + "labels = {A = ''}\npriority = 'high'", 3, ["field priority", "'high'"]),
    (JOB + "qos = 'best'", 2, ["field qos", "'trial' or 'best-effort'"]),
    (JOB + "curve = 'steep'", 2, ["field curve", "steep", "amdahl:F"]),
    (JOB + "curve = {speedup = {1 = 2.0}}", 2, ["field curve", "relative to one unit"]),
    (JOB + "curve = {speed = 2}", 2, ["field curve"]),
    (JOB + "after = 'prepare'", 2, ["field after", "41:any"]),
    (JOB + "after = [true]", 2, ["field after[0]", "expected text, found true"]),
    (JOB + "workload = ' x'", 2, ["field workload", "' x' is no name of a workload", "without spaces around"]),
    (JOB + "array = '5-1'", 2, ["field array", "empty range"]),
    ("command = []", 1, ["field command", "empty"]),
    ("command = ''", 1, ["field command", "empty"]),
    ("command = [1, 'a']", 1, ["field command[0]", "expected text, found 1"]),
    ("command = \"it's\"", 1, ["field command", "no closing quotation"]),
    ("command = {a = 1}", 1, ["field command", "expected a list"]),
    ('command = [\n "env=3",\n "[[jobs]]",\n]\nenv = 3', 5, ["field env"]),
    ('command = """\na\ngpu = 1"""\ngpu = -1', 4, ["field gpu"]),
    ("command = [\n" + '"a", # ]\n' * 200 + "]\ngpu = -1", 203, ["field gpu"]),
    (JOB + f'env = {{A = "{"a" * 60_000}", B = "{"a." * 30_000}"}}\ngpu = -1', 3, ["field gpu"]),
    (JOB + "env.A = \'\'\'\n[b]\"\"\"''\n\\\'\'\'\ngpu = -1", 5, ["field gpu"]),
    (JOB + 'workdir = "a\\u0000b"', 2, ["field workdir", "NUL"]),
    ("x = " + "[" * 20 + "]" * 20, None, ["nested more than"]),
    ("x = " + "[" * 5000 + "]" * 5000, None, ["nested more than"]),
    ("a." * 100_000 + "b = 1", None, ["nested more than"]),
    (b"command = ['\xff']", 1, ["not UTF-8"]),
]  # fmt: skip


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("text", "line", "parts"), BAD_TOML, ids=lambda value: repr(value)[:40])
def test_bad_toml(text: str | bytes, line: int | None, parts: list[str]) -> None:
    error = refused(text, "jobs.toml")
    assert [part for part in parts if part not in str(error)] == [], error
    assert error.line == line


BAD_YAML = [
    ("", None, ["holds no job"]),
    ("# nothing\n", None, ["holds no job"]),
    ("- command: [a]", 1, ["`jobs:`"]),
    ("prose", 1, ["`jobs:`"]),
    ("command: [a", None, ["not YAML"]),
    ("command: [a]\n\tgpu: 1", 2, ["not YAML"]),
    ("command: [a]\ngpu: 1\ngpu: 2", 3, ["'gpu' stands here twice"]),
    ("command: [a]\nenv: {A: b, A: c}", 2, ["'A' stands here twice"]),
    ("command: &x [a]\nlabels: {l: *x}", 2, ["aliases (*x)", "`defaults:`"]),
    ("a: &a [x]\nb: &b [*a, *a]", 2, ["aliases"]),
    ("<<: {gpu: 1}\ncommand: [a]", 1, ["merges"]),
    ("command: !!python/object/apply:os.system ['true']", 1, ["tags", "python/object"]),
    ("command: [!!binary aGk=]", 1, ["tags"]),
    ("command: [a]\n? [b]\n: c", 2, ["must be a word"]),
    ("command: [a]\n---\ncommand: [b]", 2, ["second document", "`jobs:`"]),
    ("jobs:\n - command: [a]\n - gpu: 1\n", 3, ["job 2", "field command", "missing"]),
    ("jobs:\n - command: [a]\n   env:\n     A: b\n     C: 3\n", 5, ["job 1", "field env.C", "in quotes"]),
    ("jobs:\n - command:\n   - a\n   - true\n", 4, ["field command[1]", "found true"]),
    ("jobs:\n - command: [a]\n   cpu: .nan\n", 3, ["field cpu", "nan", "finite"]),
    ("jobs:\n - command: [a]\n   cpu: -.inf\n", 3, ["field cpu", "-inf"]),
    ("command: [a]\nmin_units: 9\nmax_units: 3", 1, ["min_units 9 is more than max_units 3"]),
    ("command: [a]\nretries: " + "9" * 31, 2, ["field retries", "too large", "1,000"]),
    ("a: " + "[" * 3000 + "]" * 3000, 1, ["nested more than"]),
    ("a: " + "{b: " * 3000, 1, ["nested more than"]),
    ("- " * 3000, 1, ["nested more than"]),
    ("? 'a\n\n  b'\n: 1", 1, ["field 'a\\nb'", "unknown field"]),
    ("command: [\x01]", None, ["not YAML"]),
    (b"command: [\xff]", 1, ["not UTF-8"]),
]  # fmt: skip


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("text", "line", "parts"), BAD_YAML, ids=lambda value: repr(value)[:40])
@pytest.mark.parametrize("parser", ["CSafeLoader", "SafeLoader"])
def test_bad_yaml(
    monkeypatch: pytest.MonkeyPatch, parser: str, text: str | bytes, line: int | None, parts: list[str]
) -> None:
    monkeypatch.setattr("betimes.service.spec.yaml_document._PARSER", getattr(yaml, parser))
    error = refused(text, "jobs.yaml")
    assert [part for part in parts if part not in str(error)] == [], error
    if line is not None:
        assert error.line == line


@pytest.mark.usefixtures("here")
def test_files_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, part in (
        ("none.toml", "No such file"),
        ("jobs.txt", "neither TOML nor YAML"),
        ("x\0.toml", "null"),
    ):
        with pytest.raises(JobFileError, match=part):
            read_jobs(name)
    Path("folder.toml").mkdir()
    with pytest.raises(JobFileError, match="cannot be read"):
        read_jobs("folder.toml")
    monkeypatch.setattr(job_file, "MOST_BYTES", 2**20)
    with pytest.raises(JobFileError, match="larger than 1 MiB"):
        read_jobs(written(b"#" * (2**20 + 1)))
    monkeypatch.setattr(job_file, "MOST_JOBS", 2)
    with pytest.raises(JobFileError, match="3 jobs; a file has at most 2"):
        read_jobs(written("jobs: [{command: [a]}, {command: [a]}, {command: [a]}]", "j.yaml"))


@pytest.mark.usefixtures("here")
def test_a_directory_is_beside_its_file_and_read_where_it_can_be_sent() -> None:
    path = written(JOB + 'upload = "code"')
    [draft] = read_drafts(path)
    assert draft.directory() == Path.cwd() / "code"
    assert draft.directory(upload="/other") == Path("/other")
    assert draft.spec().workdir is None
    with pytest.raises(
        JobFileError, match="line 2, field upload: names a directory, which `betimes submit` sends"
    ):
        read_jobs(path)
    [sent] = read_jobs(written(JOB + f'upload = "{"5f" * 32}"'))
    assert (sent.upload, sent.workdir) == ("5f" * 32, None)


@pytest.mark.usefixtures("here")
def test_what_is_given_over_a_file_is_not_blamed_on_it() -> None:
    [draft] = read_drafts(written(JOB + "estimate = 5\nenv.A = 'x'"))
    spec = draft.spec(steps=2, step_s=3.0, env={"B": "y"}, workdir="/elsewhere")
    assert (spec.runtime_estimate_s, spec.env, spec.workdir) == (6.0, {"A": "x", "B": "y"}, "/elsewhere")
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        draft.spec(gpu=-1)


words = st.text(max_size=12)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    words,
    st.sampled_from(["2h", "4GiB", "1-8", "1-9%2"]),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3)
)
names = st.sampled_from(job_file.KNOWN) | words
tables = st.dictionaries(names, values, max_size=6)
files = tables | st.fixed_dictionaries(
    {"jobs": st.lists(tables | values, max_size=3)}, optional={"defaults": tables | values}
)


def judged(name: str, text: bytes) -> None:
    """It is read, or refused on one line that begins with the file's name: nothing else may happen."""
    try:
        specs = read_jobs(written(text, name))
    except JobFileError as error:
        said = str(error)
    else:
        said = name
        assert specs
        assert all(JobSpec.model_validate_json(spec.model_dump_json()) == spec for spec in specs)
    assert said.startswith(name)
    assert "\n" not in said


@settings(max_examples=60)
@given(content=files)
def test_any_tables_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("any"))
        judged("j.yaml", yaml.safe_dump(content, allow_unicode=True).encode("utf-8", "surrogatepass"))
        judged("k.yaml", json.dumps(content).encode())


@settings(max_examples=60)
@given(
    text=st.binary(max_size=200) | st.text(alphabet="ajobs[]{}=:'\"\n -&*!#1.,", max_size=80).map(str.encode)
)
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("any"))
        judged("j.yaml", text)
        judged("j.toml", text)


@settings(max_examples=50)
@given(
    jobs=st.lists(
        st.fixed_dictionaries(
            {
                "command": st.lists(
                    st.sampled_from(["a", "b c", "[x]", "gpu = 1", "'''"]), min_size=1, max_size=3
                )
            },
            optional={"priority": st.integers(-5, 5), "array": st.just("1-3")},
        ),
        min_size=1,
        max_size=4,
    ),
    at=st.integers(0, 3),
    spread=st.booleans(),
)
def test_the_line_of_a_fault_is_its_own(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[dict[str, Any]], at: int, spread: bool
) -> None:
    at %= len(jobs)
    lines: list[str] = []
    expected = 0
    for number, job in enumerate(jobs):
        lines += ["[[jobs]]", "# gpu = -1", 'labels.note = """', "gpu = -1", '"""']
        for name, value in job.items():
            text = json.dumps(value)
            lines += f"{name} = {text}".replace(", ", ",\n  ").split("\n") if spread else [f"{name} = {text}"]
        if number == at:
            lines.append("gpu = -1")
            expected = len(lines)
    text = "\n".join(lines)
    assert len(tomllib.loads(text)["jobs"]) == len(jobs)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("any"))
        error = refused(text, "j.toml")
    assert (error.line, error.field) == (expected, "gpu")
    assert f"job {at + 1}," in str(error)
