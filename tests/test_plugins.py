"""Verbs, policies and generators of other installed packages: the how-to's package, and small ones made here."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

import betimes as library
from betimes import plugins
from betimes.cli.main import main
from betimes.errors import InputError, PolicyError
from betimes.foresight.engines import engines_of
from betimes.policies import parse_nodes_policy, parse_policy
from betimes.service.engines.named_policies import rents_for_jobs

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "own-package.md"
POLICIES = """
from betimes.policies.nodes.hooks import ordering
from .keys import by_width


@ordering(summary="The narrowest jobs first.")
def narrow(view, now, chosen, key):
    for k in range(len(chosen)):
        key[k] = by_width(view.jobs[chosen[k]].max_units)
"""
KEYS = """
from betimes.policies import kernel


@kernel
def by_width(units):
    return float(units)
"""

Install = Callable[[str, Mapping[str, str], Mapping[str, Mapping[str, str]]], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a package of these files with entry points by group, as pip would."""

    def one(package: str, files: Mapping[str, str], entry_points: Mapping[str, Mapping[str, str]]) -> None:
        folder, info = tmp_path / package, tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        for name, text in {"__init__.py": "", **files}.items():
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        named = package.replace("_", "-")
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {named}\nVersion: 1.0\nSummary: For a test\n"
        )
        (info / "entry_points.txt").write_text(
            "".join(
                f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
                for group, entries in entry_points.items()
            )
        )
        monkeypatch.syspath_prepend(tmp_path)

    yield one
    for name in [name for name in sys.modules if name.partition(".")[0] in {"of_a_test", "betimes_of_ours"}]:
        del sys.modules[name]


@pytest.fixture
def ours(install: Install) -> None:
    """The package that the how-to describes."""
    project, policies, workloads, verbs = re.findall(
        r"```(?:toml|python)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S
    )
    entry_points = tomllib.loads(project)["project"]["entry-points"]
    files = {"policies.py": policies, "workloads.py": workloads, "verbs.py": verbs}
    install("betimes_of_ours", files, entry_points)


@pytest.fixture
def narrow(install: Install) -> None:
    """A package with a policy for nodes, which imports a kernel of its own package relatively."""
    files = {"policies.py": POLICIES, "keys.py": KEYS}
    install("of_a_test", files, {"betimes.policies": {"narrowest": "of_a_test.policies:narrow"}})


@pytest.mark.usefixtures("ours")
def test_the_how_tos_verb_runs_and_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count-jobs", str(_trace())]) == 0
    assert capsys.readouterr().out == "300\n"
    assert main(["count-jobs", "--help"]) == 0
    assert "Count the jobs of a trace." in capsys.readouterr().out
    assert main(["count-jobs", "nowhere.swf"]) == 2
    assert main(["--help"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "count-jobs" in line]
    assert line.split() == ["count-jobs", "betimes-of-ours:", "For", "a", "test"]
    assert main(["count-job"]) == 2


@pytest.mark.usefixtures("ours")
def test_the_how_tos_policy_runs_and_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    workload = library.generate("demo:jobs=60", units=16, seed=1)
    result = library.simulate(workload, "widest-first", units=16)
    assert result.policy == "widest-first"
    assert result.jobs.finished.all()
    assert parse_policy("pool:widest-first").is_users
    assert main(["policies", "--json"]) == 0
    *_, last = (each for each in json.loads(capsys.readouterr().out) if each["engine"] == "pool")
    assert (last["name"], last["summary"]) == ("widest-first", "The widest jobs first.")
    assert main(["policies", "widest-firs"]) == 2
    assert "did you mean 'widest-first'?" in capsys.readouterr().err


@pytest.mark.usefixtures("ours")
def test_the_how_tos_generator_makes_workloads_and_is_suggested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = library.generate("monday:jobs=5", units=8, seed=1)
    assert (len(made), made.name, made.notes.header["generator"]) == (5, "monday:jobs=5", "monday:jobs=5")
    assert main(["trace", "generate", "monday", str(tmp_path / "made.csv")]) == 0
    assert main(["trace", "info", "mondy", "--json"]) == 2
    assert "(did you mean 'monday'?)" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"no parameter 'job' .did you mean 'jobs'"):
        library.generate("monday:job=5", units=8)


@pytest.mark.usefixtures("narrow")
def test_a_policy_for_nodes_runs_alone_and_as_a_member_of_a_portfolio() -> None:
    assert engines_of("narrowest") == ("nodes",)
    assert not rents_for_jobs("nodes:narrowest")
    with pytest.raises(PolicyError, match="unknown policy 'narrowest'; `betimes policies` lists all"):
        parse_policy("narrowest")
    workload = library.generate("demo:jobs=60", units=16, seed=1)
    assert library.simulate(workload, "narrowest", units=16).jobs.finished.all()
    chosen = parse_nodes_policy("portfolio:members=narrowest+sjf")
    assert [member.name for member in chosen.policy.in_turn(chosen.values)] == ["narrowest", "sjf"]
    assert chosen.is_users
    twice = parse_nodes_policy("portfolio:members=narrowest+narrowest/placement=best")
    with pytest.raises(PolicyError, match="narrowest/placement=best and narrowest are the same policy"):
        twice.policy.in_turn(twice.values)


def test_what_a_package_cannot_load_is_told_and_hides_nothing(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install(
        "of_a_test",
        {"broken.py": "import nothing_of_the_kind\n", "empty.py": ""},
        {
            "betimes.policies": {
                "broken": "of_a_test.broken:one",
                "gone": "of_a_test.gone:one",
                "empty": "of_a_test.empty:one",
                "fifo": "of_a_test.broken:one",
            },
            "betimes.verbs": {"broken": "of_a_test.broken:one", "jobs": "of_a_test.broken:one"},
            "betimes.workloads": {"none": "of_a_test.empty:__name__", "demo": "of_a_test.broken:one"},
        },
    )
    says = {
        "broken": "policy broken of the package of-a-test, line 1: ModuleNotFoundError: No module named 'nothing_of",
        "gone": "policy gone of the package of-a-test: there is no file of_a_test.gone.py",
        "empty": "policy empty of the package of-a-test: 'one' is not a policy; decorate",
    }
    for name, expected in says.items():
        with pytest.raises(PolicyError) as error:
            parse_policy(name)
        assert str(error.value).startswith(expected)
    assert parse_policy("fifo").policy.name == "fifo"
    with pytest.raises(InputError, match="generator none of the package of-a-test: of_a_test"):
        library.generate("none", units=4)
    assert len(library.generate("demo:jobs=5", units=4)) == 5
    assert main(["broken"]) == 1
    assert "broken, of the package of-a-test: ModuleNotFoundError" in capsys.readouterr().err
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    assert listed.count("of-a-test") == 1
    assert main(["policies"]) == 0
    found = capsys.readouterr()
    assert "wfq" in found.out
    assert found.err.count("\n") == len(says)


def test_what_the_papers_package_adds_is_known_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    of_papers = {plugins.VERBS: ("redo",), plugins.POLICIES: ("tetris",), plugins.WORKLOADS: ("tuesday",)}
    monkeypatch.setattr(plugins, "OF_PAPERS", of_papers)
    assert main(["redo", "all"]) == 2
    assert capsys.readouterr().err == (
        "betimes: there is no verb 'redo': it is in the package betimes-papers, which is not installed; "
        "`pip install betimes-papers`\n"
    )
    assert main(["trace", "info", "tuesday:jobs=3"]) == 2
    assert capsys.readouterr().err == (
        "betimes: tuesday:jobs=3: there is no such file, and no such generator: it is in the package betimes-papers, "
        "which is not installed; `pip install betimes-papers`\n"
    )
    with pytest.raises(InputError, match="no generator 'tuesday': it is in the package betimes-papers"):
        library.generate("tuesday", units=4)
    for policy in ("tetris:x=1", "nodes:tetris", "portfolio:members=eva+tetris/x=1"):
        with pytest.raises(PolicyError, match="; `pip install betimes-papers`"):
            library.simulate(library.generate("demo:jobs=6", units=4), policy, units=4)


def test_nobody_looks_at_other_packages_for_what_ships(monkeypatch: pytest.MonkeyPatch) -> None:
    def added(group: str) -> None:
        raise AssertionError(group)

    monkeypatch.setattr(plugins, "added", added)
    assert parse_policy("wfq").policy.name == "wfq"
    assert engines_of("portfolio:members=easy/order=sjf+conservative") == ("nodes",)
    assert main(["trace", "info", "sample:tiny", "--json"]) == 0
    with pytest.raises(AssertionError):
        parse_policy("another")


def _trace() -> Path:
    from betimes.workload import samples

    return samples.path("rigid")
