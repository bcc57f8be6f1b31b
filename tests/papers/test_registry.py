"""Finding experiments, and what a user is told who names none, or data that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from betimes_papers import EXPERIMENTS, find, reproduce
from betimes_papers.experiment import Workers
from betimes_papers.registry import check, data_directory

from betimes.errors import InputError


def test_every_experiment_is_listed_under_its_name_and_says_what_it_is():
    figures = {f"pcs-fig{number}" for number in (1, 3, 6, 7, 8, 9, 10, 11)}
    assert figures | {"fitgpp-fig1", "fitgpp-intervals"} <= set(EXPERIMENTS)
    for name, experiment in EXPERIMENTS.items():
        assert experiment.name == name
        assert len(experiment.summary) > 20
        for part in experiment.parts:
            assert find(f"{name}:{part}").name == f"{name}:{part}"


def test_parts_narrow_an_experiment_and_what_it_needs():
    one = find("pcs-fig7:b436b2")
    assert [need for need in one.needs if "b436b2" in need]
    assert not [need for need in one.needs if "2869ce" in need]
    assert len(find("pcs-fig7:2869ce+b436b2").needs) == 3
    assert find("pcs-fig7:b436b2+b436b2").needs == one.needs
    assert len(find("pcs-fig7:all").needs) == 5


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("pcs-fig12", "did you mean 'pcs-fig1'"),
        ("figure-one", "expected one of pcs-fig1, pcs-fig3, pcs-fig6, pcs-fig7, "),
        ("pcs-fig7:2869cf", "did you mean '2869ce'"),
        ("pcs-fig7:", "expected one of"),
        ("pcs-fig1:2869ce", "has no parts"),
        ("", "expected one of"),
    ],
)
def test_unknown_names_are_answered_with_what_there_is(name: str, told: str):
    with pytest.raises(InputError, match=told) as caught:
        find(name)
    assert "\n" not in str(caught.value)


def test_a_data_directory_is_named_by_option_then_by_environment_then_by_custom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BETIMES_DATA", raising=False)
    assert data_directory() is None
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("BETIMES_DATA", str(tmp_path / "there"))
    assert data_directory() == tmp_path / "there"
    assert data_directory(tmp_path / "here") == tmp_path / "here"
    monkeypatch.delenv("BETIMES_DATA")
    (tmp_path / "shared" / "data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    assert data_directory() == Path("../shared/data")


def test_a_named_folder_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(InputError, match=r"--data .*absent: there is no such folder"):
        data_directory(tmp_path / "absent")
    monkeypatch.setenv("BETIMES_DATA", str(tmp_path / "absent"))
    with pytest.raises(InputError, match=r"BETIMES_DATA .*absent: there is no such folder"):
        data_directory()


def test_missing_data_are_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(InputError, match=r"pcs-fig7 needs .*afs_pcs_speedup.*--data DIR"):
        reproduce("pcs-fig7", data=tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BETIMES_DATA", raising=False)
    with pytest.raises(InputError, match="no data directory is known; give --data DIR or set BETIMES_DATA"):
        reproduce("pcs-fig7")
    check("anything", (), None)


def test_an_experiment_without_data_does_not_mind_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BETIMES_DATA", "not-a-folder")
    assert reproduce("pcs-fig1")


def test_an_experiment_that_is_made_alone_says_why() -> None:
    alone = {name for name, experiment in EXPERIMENTS.items() if experiment.alone}
    assert alone == {"pcs-fig1", "eva-table4", "eva-table5"}
    for name in alone:
        with pytest.raises(
            InputError, match=f"{name}: {EXPERIMENTS[name].alone}; leave --processes and --ray out"
        ):
            reproduce(name, workers=Workers(2))
