"""Users' policies: the service imports those in the folder that its operator names, and no other file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from betimes.client import AsyncClient
from betimes.errors import InputError, PolicyError
from betimes.service.compiling.kernels import Kernels
from betimes.service.machines.machine import Machine
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig

MACHINE = Machine("n-0", "virtual", "n", 4.0, 8.0, 0.0)
WAYS = ("{}", "pool:{}", "nodes:{}", "portfolio:members=fifo+{}", "nodes:portfolio:members={}")
POLICY = """
from pathlib import Path

from betimes.policies import priority

Path(__file__).with_suffix(".seen").touch()


@priority(summary="Whoever came last.")
def newest(view, now, chosen, key):
    for k in range(len(chosen)):
        key[k] = -view.jobs[chosen[k]].submit_s
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a policy, and beside it a file that is none of the operator's."""
    folder = tmp_path / "policies"
    folder.mkdir()
    for file in (folder / "mine.py", tmp_path / "other.py"):
        file.write_text(POLICY)
    (folder / "link.py").symlink_to("../other.py")
    return folder


def options(tmp_path: Path, folder: Path | None, policy: str | None = None) -> ServiceConfig:
    async def compiled(policy: str) -> None:
        """Whether one may be put in force does not hang on its machine code."""

    kernels = Kernels(compiled, is_cached=bool)
    return ServiceConfig(
        state=tmp_path / "state", machines=[MACHINE], policy=policy, policy_files=folder, kernels=kernels
    )


async def refused(client: AsyncClient, policy: str) -> str:
    with pytest.raises(InputError) as caught:
        await client.set_policy(policy)
    return str(caught.value)


@pytest.mark.parametrize("named", [True, False])
def test_no_other_file_is_imported_whatever_names_it(tmp_path: Path, folder: Path, named: bool) -> None:
    async def main() -> None:
        async with (
            running(options(tmp_path, folder if named else None)) as service,
            AsyncClient(service.url, token=service.token) as client,
        ):
            why = (
                f"takes policy files from {folder} only" if named else "takes only policies that ship with it"
            )
            for file in (tmp_path / "other.py", folder / ".." / "other.py", folder / "link.py", "nowhere.py"):
                for way in WAYS:
                    assert why in await refused(client, way.format(f"{file}:newest"))
            assert not (tmp_path / "other.seen").exists()
            if named:
                assert (await client.set_policy(f"{folder}/mine.py:newest")).engine == "pool"
                assert "for nodes" in await refused(client, f"nodes:{folder}/mine.py:newest")

    asyncio.run(main())


def test_what_cannot_be_a_file_is_refused(tmp_path: Path, folder: Path) -> None:
    async def main() -> None:
        async with (
            running(options(tmp_path, folder)) as service,
            AsyncClient(service.url, token=service.token) as client,
        ):
            for file in ("x" * 300 + ".py", "~nobody-of-this-name/x.py"):
                for way in WAYS:
                    assert "policy" in await refused(client, way.format(f"{folder}/{file}:newest"))
                    assert "policy" in await refused(client, way.format(f"{file}:newest"))
            for way in WAYS[:3]:
                assert "mine.py" in await refused(client, way.format(f"{folder}/mine.py:" + "x" * 300))
            for policy in ("a\0b.py:newest", "compound:waits=learned,model=a\0b"):
                assert "NUL" in await refused(client, policy)

    asyncio.run(main())


def test_the_operator_is_asked_for_the_folder_too(tmp_path: Path, folder: Path) -> None:
    async def main(folder: Path | None, policy: str | None = None) -> str:
        async with running(options(tmp_path, folder, policy)) as service:
            return (await service.backend.policy()).policy

    mine = f"{folder}/mine.py:newest"
    with pytest.raises(PolicyError, match="takes only policies that ship with it"):
        asyncio.run(main(None, mine))
    with pytest.raises(InputError, match=r"--policy-files .*missing: there is no such folder"):
        asyncio.run(main(tmp_path / "missing"))
    assert asyncio.run(main(folder, mine)) == mine
    assert asyncio.run(main(folder)) == mine
    with pytest.raises(PolicyError, match="betimes up --policy-files DIR"):
        asyncio.run(main(None))
