"""`betimes doctor`: checks that a cluster is fit to run jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from betimes.cli.verbs import Json

if TYPE_CHECKING:
    from betimes.service.executors.ray.doctor import Finding


def doctor(
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray",
            metavar="auto|HOST:PORT",
            help="Which Ray cluster; auto, the default: that which runs here.",
            show_default=False,
        ),
    ] = None,
    shared: Annotated[
        Path | None,
        typer.Option(
            "--shared", metavar="DIR", help="A directory that every machine should see.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a Ray cluster for `betimes up --ray`: versions, clocks, GPUs, ports and the shared directory.

    Where a service of this machine's users listens, also whether they can run this Python. Exits with 1 if something is
    wrong. Where Ray is not installed there is no cluster to check. With --json an array of `check`, `node` (null: the
    cluster, or this machine), `ok`, `text`.
    """
    import asyncio
    import sys
    from importlib.util import find_spec

    from betimes.service.access.address import MACHINE_SOCKET
    from betimes.service.access.unix_users import why_others_cannot_run
    from betimes.service.executors.ray.doctor import Finding, examine

    if ray is None and find_spec("ray") is None:
        none = "Ray is not installed, which jobs on this machine do not need; for several: pip install 'betimes[ray]'"
        found = [Finding("cluster", None, True, none)]
    else:
        found = asyncio.run(examine(ray or "auto", shared))
    if MACHINE_SOCKET.is_socket():
        why = why_others_cannot_run(sys.executable)
        found.append(
            Finding("python", None, why is None, why or "the other users of this machine can run it")
        )
    show_findings(found, as_json)


def show_findings(found: list[Finding], as_json: bool) -> None:
    """Show the outcome of checks. Raises Left(1) if something is wrong."""
    from dataclasses import asdict

    from betimes.cli.live.following import Left
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import show_pairs

    if as_json:
        print_json([asdict(one) for one in found])
    else:
        names = [f"{one.node}  {one.check}" if one.node else one.check for one in found]
        show_pairs(
            [
                (name, one.text if one.ok else f"WRONG: {one.text}")
                for name, one in zip(names, found, strict=True)
            ]
        )
    if not all(one.ok for one in found):
        raise Left(1)
