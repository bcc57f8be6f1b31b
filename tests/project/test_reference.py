"""The reference pages say what the code declares."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import betimes
from betimes import plugins
from betimes.cluster import Spot, read_cluster
from betimes.policies import NODES_POLICIES, Policy
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.policies.registry import POLICIES
from betimes.service.spec.job_file import KNOWN, read_jobs
from betimes.service.spec.job_spec import JobSpec
from betimes.workload.readers.registry import FORMATS
from tools import pictures, reference, synchronous_client

ROOT = Path(__file__).resolve().parents[2]
FOLDER, SOURCE = ROOT / "docs" / "reference", ROOT / "src" / "betimes"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference.pages()


def test_pages_are_up_to_date(pages: dict[str, str]) -> None:
    old = [name for name, text in pages.items() if (FOLDER / name).read_text(encoding="utf-8") != text]
    assert old == [], "run `make docs`"


def test_the_synchronous_client_is_up_to_date() -> None:
    assert synchronous_client.MADE.read_text(encoding="utf-8") == synchronous_client.made(), (
        "run `make client`"
    )


def test_every_public_name_has_its_section(pages: dict[str, str]) -> None:
    text = pages["python-api.md"] + pages["python-client.md"]
    for name in betimes.__all__:
        assert (
            re.search(rf"^#+ (betimes\.)?{name}$|^\| `{name}` \|", text, re.MULTILINE)
            or name == "AsyncClient"
        )


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_picture_is_up_to_date_and_names_modules_that_exist(name: str) -> None:
    drawn = pictures.PICTURES[name]
    assert (reference.IMAGES / name).read_text(encoding="utf-8") == pictures.draw(drawn), "run `make docs`"
    assert [one for step in drawn.steps for one in step.modules if not (SOURCE / one).exists()] == []


def test_every_module_that_the_architecture_names_exists() -> None:
    text = (FOLDER.parent / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py|/))`", text))
    assert len(named) > 20
    assert sorted(one for one in named if not any((root / one).exists() for root in (SOURCE, ROOT))) == []


def test_every_policy_and_format_has_its_section(pages: dict[str, str]) -> None:
    assert [line[3:] for line in pages["policies.md"].splitlines() if line.startswith("## ")] == [
        *POLICIES,
        "Renting",
    ]
    nodes = [line[3:] for line in pages["nodes-policies.md"].splitlines() if line.startswith("## ")]
    assert nodes == [*NODES_POLICIES, *plugins.OF_PAPERS[plugins.POLICIES], "Orders", "Placement"]
    assert [line[3:] for line in pages["formats.md"].splitlines() if line.startswith("## ")] == [*FORMATS]


@pytest.mark.parametrize("engine", ["pool", "nodes"])
def test_parameters_are_listed_with_default_and_range(pages: dict[str, str], engine: str) -> None:
    page = pages["policies.md" if engine == "pool" else "nodes-policies.md"]
    policies: list[Policy | NodesPolicy] = (
        [*POLICIES.values()] if engine == "pool" else [*NODES_POLICIES.values()]
    )
    for policy in policies:
        section = page.partition(f"## {policy.name}\n")[2].partition("\n## ")[0]
        for parameter in policy.parameters:
            assert f"| `{parameter.name}` |" in section


def test_the_example_of_a_cluster_file_is_one(pages: dict[str, str], tmp_path: Path) -> None:
    page = pages["cluster-files.md"]
    example = page.partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "example.toml").write_text(example, encoding="utf-8")
    cluster = read_cluster(tmp_path / "example.toml")
    assert (cluster.name, len(cluster), cluster.grace_limit_s) == ("two racks", 4, 1200)
    (offer,) = cluster.offers
    assert offer.spot == Spot()
    for described in (cluster, cluster.groups[0], offer):
        for field in fields(described):
            assert field.name == "groups" or re.search(rf"^\| `(\[\[)?{field.name}", page, re.MULTILINE)


@pytest.mark.parametrize("suffix", ["toml", "yaml"])
def test_the_examples_of_a_job_file_are_the_same_two_jobs(
    pages: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.chdir(tmp_path)
    page = pages["job-file.md"]
    example = page.partition(f"```{suffix}\n")[2].partition("```")[0]
    (tmp_path / f"jobs.{suffix}").write_text(example, encoding="utf-8")
    prepare, train = read_jobs(tmp_path / f"jobs.{suffix}")
    env = {"SEED": "7"}
    assert prepare == JobSpec(
        name="prepare", command=["./prepare.sh", "--all"], workdir=str(tmp_path), qos="trial", env=env
    )
    assert (train.title, train.max_units, train.memory_gib, train.runtime_estimate_s) == (
        "train",
        8,
        16.0,
        7200.0,
    )
    for field in KNOWN:
        assert f"`{field}`" in page
