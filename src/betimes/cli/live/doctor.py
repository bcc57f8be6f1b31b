"""`betimes doctor`: checks that the service is well, and that a cluster is fit to run jobs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from betimes.cli.verbs import Json, State
from betimes.errors import InputError

if TYPE_CHECKING:
    from betimes.service.executors.ray.doctor import Finding


def doctor(
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray",
            metavar="auto|HOST:PORT",
            help="Check this Ray cluster; auto: that which runs here. By default that of the service, if it is on one.",
            show_default=False,
        ),
    ] = None,
    shared: Annotated[
        Path | None,
        typer.Option(
            "--shared", metavar="DIR", help="A directory that every machine should see.", show_default=False
        ),
    ] = None,
    slurm: Annotated[
        bool, typer.Option("--slurm", help="Check an existing Slurm instead, as its users may read it.")
    ] = False,
    slurm_bin: Annotated[
        Path | None,
        typer.Option(
            "--slurm-bin",
            metavar="DIR",
            help="The directory of Slurm's commands, if not in PATH.",
            show_default=False,
        ),
    ] = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Check the service, and its Ray cluster or one for `betimes up --ray`: versions, clocks, GPUs, ports, files.

    With --slurm: what this user may read of a Slurm, what is modelled of it, what is not, and what follows from that.
    Nothing is written to it. Exits with 1 if no job there could be promised an end.

    Of the service it shows why it takes no jobs, and what it could not carry out and has set aside; where it is one of
    this machine's users, also whether they can run this Python. Exits with 1 if something is wrong. With --json an
    array of `check`, `node` (null: the service, the cluster, or this machine), `ok`, `text`.
    """
    import asyncio
    import sys

    from betimes.service.access.address import MACHINE_SOCKET
    from betimes.service.access.unix_users import why_others_cannot_run
    from betimes.service.executors.ray.doctor import Finding, examine

    if slurm:
        from betimes.slurm.commands import Commands
        from betimes.slurm.doctor import examine as examine_slurm

        checks = examine_slurm(Commands(slurm_bin))
        show_findings([Finding(each.check, None, each.ok, each.text) for each in checks], as_json)
        return
    if slurm_bin is not None:
        raise InputError("--slurm-bin is about an existing Slurm; add --slurm")
    of_service, kinds = _of_service(state)
    found = list[Finding]()
    if ray is not None or shared is not None or "ray" in kinds:  # else no job runs on a cluster
        found = asyncio.run(examine(ray or "auto", shared))
    if MACHINE_SOCKET.is_socket():
        why = why_others_cannot_run(sys.executable)
        found.append(
            Finding("python", None, why is None, why or "the other users of this machine can run it")
        )
    show_findings([*of_service, *found], as_json)


def _of_service(state: str | None) -> tuple[list[Finding], set[str]]:
    """The findings that a service reports of itself, if one runs, and the kinds of its nodes that it shows."""
    from betimes.cli.live import connection
    from betimes.errors import NotAllowed, NotReachable, ServiceError
    from betimes.service.executors.ray.doctor import Finding

    try:
        with connection.connect(state) as service:
            health = service.health()
            kinds = set[str]()
            with suppress(NotAllowed):  # health is told to everybody, nodes are not
                kinds = {node.kind for node in service.nodes()}
    except NotReachable as error:
        return [Finding("service", None, True, str(error))], set()
    except ServiceError as error:
        return [Finding("service", None, False, str(error))], set()
    wrong = [Finding("service", None, False, text) for text in (*health.problems, *health.notes)]
    does = "takes jobs" if health.watches is None else "watches Slurm"
    return wrong or [Finding("service", None, True, f"Betimes {health.version}, {does}")], kinds


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
