"""A cluster file with a table `[fleet]` says what `--fleet`, `--cloud` and `--ray` say."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from betimes import read_cluster
from betimes.errors import ClusterError, InputError
from betimes.service.machines.fleet_table import fleet_settings
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig

OFFER = """
[[offers]]
type = "small"
cpu = 1
memory_gib = 1
usd_per_h = 0.05
"""


def written(folder: Path, text: str) -> str:
    path = folder / "desks.toml"
    path.write_text(text)
    return str(path)


def test_a_table_is_three_options(tmp_path: Path) -> None:
    assert fleet_settings(written(tmp_path, OFFER)) == {}
    assert fleet_settings("m5") == {}
    path = written(tmp_path, f'[fleet]\nkind = "local"\n{OFFER}')
    assert fleet_settings(path) == {"fleet": "local", "cloud": path}
    path = written(tmp_path, f'[fleet]\nkind = "command"\nscripts = "rack"\nray = "10.0.0.5:6379"\n{OFFER}')
    assert fleet_settings(path) == {
        "fleet": f"command:{tmp_path}/rack",
        "cloud": path,
        "ray": "10.0.0.5:6379",
    }
    assert [offer.type for offer in read_cluster(path).offers] == ["small"], "simulations read it, too"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'kind = "azure"',
            "desks.toml, field fleet.kind: 'azure' is not known; give 'local', 'ec2' or 'command'",
        ),
        ('scripts = "rack"', "field fleet.kind: missing"),
        (
            'kind = "local"\nspeed = 2',
            "field fleet.speed: unknown field 'speed'; known are kind, scripts, ray",
        ),
        ('kind = "local"\nscripts = "rack"', "field fleet.scripts: it names the folder of the scripts"),
        ('kind = "command"', "field fleet.scripts: it names the folder of the scripts"),
        ('kind = "local"\n[[nodes]]\ntype = "a"\ncpu = 1\nmemory_gib = 1', "leave \\[\\[nodes\\]\\] out"),
    ],
)
def test_what_a_table_cannot_say(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        fleet_settings(written(tmp_path, f"[fleet]\n{text}\n{OFFER}"))


def test_a_service_rents_as_the_file_says(tmp_path: Path) -> None:
    asyncio.run(rents(tmp_path))


async def rents(tmp_path: Path) -> None:
    path = written(tmp_path, f'[fleet]\nkind = "local"\n{OFFER}')
    config = ServiceConfig(state=tmp_path / "state", cluster=path, policy="eva")
    async with running(config) as service:
        assert service.controller.rentals is not None
        assert service.controller.rentals.kind == "rented"
        assert [offer.type for offer in service.controller.rentals.offers] == ["small"]
    joins = written(tmp_path, f'[fleet]\nkind = "ec2"\n{OFFER}')
    with pytest.raises(InputError, match="machines join a Ray cluster"):
        async with running(ServiceConfig(state=tmp_path / "state", cluster=joins)):
            pass
