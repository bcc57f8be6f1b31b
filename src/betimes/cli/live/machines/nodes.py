"""`betimes nodes`: list, add, drain and undrain machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from betimes.cli.live.jobs.completing import complete_node
from betimes.cli.render.tables import Column
from betimes.cli.verbs import Argument, Json, Option, Output, State
from betimes.errors import InputError, Refused

if TYPE_CHECKING:
    from betimes.client.plain import PlainClient
    from betimes.service.views.models import NodeView

Names = Annotated[
    list[str],
    Argument(metavar="NAME...", help="Names of nodes.", autocompletion=complete_node, show_default=False),
]


def _status_style(text: str) -> str:
    return {"up": "green", "booting": "yellow", "draining": "yellow", "lost": "red"}.get(text, "")


_COLUMNS = (
    Column("Node", flexible=True),
    Column("Kind", rank=4),
    Column("Status", style=_status_style),
    Column("Cores free", right=True),
    Column("GiB free", right=True),
    Column("GPUs free", right=True),
    Column("$/h", rank=2, right=True),
    Column("Seen", rank=3),
    Column("Jobs", rank=1, flexible=True),
)


def list_nodes(output: Output = None, state: State = None, as_json: Json = False) -> None:
    """List the machines: what each has, what of it is free, and which jobs it runs."""
    from betimes.cli.live.connection import connect

    with connect(state) as service:
        _print(service.nodes(), as_json, wide=output is not None)


def add(
    kind_name: Annotated[
        str, Argument(metavar="TYPE", help="What these nodes are called.", show_default=False)
    ],
    cpu: Annotated[
        float | None, Option("--cpu", metavar="N", help="Cores of each.", show_default=False)
    ] = None,
    memory: Annotated[
        str | None,
        Option("--memory", metavar="SIZE", help="Memory of each, as in 64GiB.", show_default=False),
    ] = None,
    gpu: Annotated[
        float | None,
        Option("--gpu", metavar="N", help="GPUs of each; by default none.", show_default=False),
    ] = None,
    count: Annotated[int, Option("--count", metavar="N", min=1, help="How many.")] = 1,
    usd_per_h: Annotated[
        float | None,
        Option("--usd-per-h", metavar="USD", help="The price of each, an hour.", show_default=False),
    ] = None,
    labels: Annotated[
        list[str] | None,
        Option(
            "--label",
            metavar="K=V",
            help="A label of each, which jobs may require (`betimes submit --require`). Repeatable.",
            show_default=False,
        ),
    ] = None,
    family: Annotated[
        str | None,
        Option(
            "--family",
            metavar="NAME",
            help="The family of these, on which a unit of a job needs the same (`betimes submit --demand`); by default "
            "what TYPE has before its dot.",
            show_default=False,
        ),
    ] = None,
    kind: Annotated[
        Literal["virtual", "fake-cloud", "rented", "cloud"] | None,
        Option(
            "--kind",
            help="virtual: jobs there only take time; by default these, which a service that runs commands on this "
            "machine adds only if they are named. rented: from the cloud of `betimes up --cloud` or --fleet, which "
            "knows what its types have and cost; fake-cloud, cloud: the same.",
            show_default=False,
        ),
    ] = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Add nodes of one type, or rent them; rented ones boot first, and are given back by `nodes drain`."""
    from betimes.cli.live.connection import connect
    from betimes.cli.live.jobs.job_options import wrong_option
    from betimes.units import parse_gib

    amounts: dict[str, Any] = {"--cpu": cpu, "--gpu": gpu, "--usd-per-h": usd_per_h}
    for name, amount in amounts.items():
        if amount is not None and not 0 <= amount < float("inf"):
            raise InputError(f"{name} {amount:g}: give a number of 0 or more")
    try:
        gib = parse_gib(memory) if memory is not None else None
    except ValueError as error:
        raise InputError(f"--memory: {error}") from None
    spec = {
        "kind": kind,
        "type": kind_name,
        "count": count,
        "cpu": cpu,
        "memory_gib": gib,
        "gpu": gpu,
        "usd_per_h": usd_per_h,
        "labels": labels or [],
        "family": family,
    }
    with connect(state) as service:
        try:
            added = service.add_nodes({name: value for name, value in spec.items() if value is not None})
        except Refused as refused:
            field = refused.field or ""
            raise wrong_option(field, str(refused).removeprefix(f"{field}: ")) from None
    if not as_json and not added:
        from betimes.cli.render.tables import say

        say("The cloud has not answered yet; `betimes nodes` shows the machines once it has.")
        return
    if not as_json and added[0].kind not in ("rented", "cloud"):
        _say_what_they_are(added)
    _print(added, as_json)


def drain(
    names: Names,
    reason: Annotated[
        str, Option("--reason", metavar="TEXT", help="Shown with the nodes, beside who drained them.")
    ] = "",
    state: State = None,
    as_json: Json = False,
) -> None:
    """Start no more jobs on these nodes; those that run there go on to their end."""
    _each(names, state, as_json, lambda service, name: service.drain(name, reason))


def undrain(names: Names, state: State = None, as_json: Json = False) -> None:
    """Let jobs start on these nodes again."""
    _each(names, state, as_json, lambda service, name: service.undrain(name))


def _each(
    names: Sequence[str], state: str | None, as_json: bool, ask: Callable[[PlainClient, str], NodeView]
) -> None:
    from betimes.cli.live.connection import connect

    with connect(state) as service:
        _print([ask(service, name) for name in names], as_json)


def _say_what_they_are(added: Sequence[NodeView]) -> None:
    """Print the names of the added nodes, and that none of them executes commands."""
    from betimes.cli.render.tables import say

    several = len(added) > 1
    which = f"Nodes {added[0].name} to {added[-1].name} are" if several else f"Node {added[0].name} is"
    what = "rented from a made-up cloud" if added[0].kind == "fake-cloud" else "virtual"
    say(f"{which} {what}: a job there only takes time, and its command is not executed.")


def _print(found: Sequence[NodeView], as_json: bool, *, wide: bool = False) -> None:
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import say, show
    from betimes.cli.render.times import now, relative, to_the_minute
    from betimes.units import amount

    if as_json:
        print_json(found)
        return
    if not found:
        say("There is no node; `betimes nodes add` adds some.")
        return
    at_now = now()
    rows = []
    for node in found:
        price = f"{node.usd_per_h:,.2f}" if node.usd_per_h is not None else ""
        seen = relative(node.last_seen_at, at_now) if node.last_seen_at is not None else ""
        free = [
            f"{amount(part)} of {amount(whole)}" if whole else "-"
            for part, whole in (
                (node.free_cpu, node.cpu),
                (node.free_memory_gib, node.memory_gib),
                (node.free_gpu, node.gpu),
            )
        ]
        rows.append([node.name, node.kind, node.status, *free, price, seen, ", ".join(map(str, node.jobs))])
    columns = _COLUMNS
    if any(node.since_at is not None for node in found):
        columns = (*columns[:3], Column("Since", rank=5), *columns[3:])
        for row, node in zip(rows, found, strict=True):
            row.insert(3, relative(node.since_at, at_now) if node.since_at is not None else "")
    if any(node.drained_by for node in found):
        columns = (*columns, Column("Drained", flexible=True))
        for row, node in zip(rows, found, strict=True):
            by = f"by {node.drained_by}" if node.drained_by else ""
            row.append(f"{node.drain_reason} ({by})" if node.drain_reason else by)
    if any(node.labels for node in found):
        columns = (*columns, Column("Labels", rank=5, flexible=True))
        for row, node in zip(rows, found, strict=True):
            row.append(", ".join(f"{key}={value}" for key, value in node.labels.items()))
    if any(node.maintenance is not None for node in found):
        columns = (*columns, Column("Maintenance"))
        for row, node in zip(rows, found, strict=True):
            window = node.maintenance
            if window is None:
                row.append("")
            elif window.from_at <= at_now:
                row.append(f"until {to_the_minute(window.to_at, at_now)}")
            else:
                row.append(
                    f"{to_the_minute(window.from_at, at_now)} to {to_the_minute(window.to_at, at_now)}"
                )
    if wide:
        columns = (*columns, Column("Family", rank=6))
        for row, node in zip(rows, found, strict=True):
            row.append(node.family)
    show(columns, rows, wide=wide)
