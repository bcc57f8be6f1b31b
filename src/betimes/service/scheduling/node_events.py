"""The kinds of events about nodes, owned and rented: there, away, gone, and what they have cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from betimes.service.machines.budgets import DAY_S
from betimes.service.machines.machine import RENTED
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.job import Job, Rental
from betimes.service.scheduling.kind import ACCOUNT, REASON, Data, Kind, reason_text
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.node import NODE, UP, charges_until
from betimes.service.scheduling.reasons import REQUEUED, reason
from betimes.units import instant, usd


def _rents(_: Ledger, event: Event, job: Job) -> None:
    """Machines are requested for the job alone."""
    data = event.data
    job.rental = Rental(
        data["type"],
        [int(units) for units in data["units"]],
        data["units_per_task"],
        event.at_s,
        data.get("speculates_until_s"),
        data["expected_usd"],
    )
    job.settle(data["account"])
    job.reason, job.binding = data.get("reason"), None


def _unrented(_: Ledger, event: Event, job: Job) -> None:
    """The job has lost its rented machines; its run, if there is one, is still to leave them."""
    job.rental, job.units, job.places = None, 0, []
    job.settle(event.data["account"])
    job.reason = event.data.get("reason")
    if job.run is not None and not job.run.launched:
        job.run = None


def _node_added(ledger: Ledger, event: Event, _: Job | None) -> None:
    node = NODE.validate_python(event.data)
    name, kind = node.machine.name, node.machine.type
    job = ledger.jobs.get(node.for_job) if node.for_job is not None else None
    if job is not None and job.rental is not None and name not in job.rental.nodes:
        job.rental.nodes.append(name)
    before = ledger.nodes.get(name)
    if node.rented_at is not None and before is None:
        ledger.rented[kind] = ledger.rented.get(kind, 0) + 1
    elif node.rented_at is not None and before is not None:
        node.earlier_prices = before.earlier_prices
        if before.machine.usd_per_h not in (None, node.machine.usd_per_h):
            node.earlier_prices += ((event.at_s, before.machine.usd_per_h),)
    if before is not None:
        node.account = before.account
    ledger.nodes[name] = node


def _node_is(ledger: Ledger, event: Event, _: Job | None) -> None:
    node, status = ledger.nodes[str(event.node)], event.data["status"]
    if status != node.status or node.since_at is None:  # else a drain has another reason
        node.status = status
        node.since_at = event.at_s if node.is_away else None
    if status == UP:
        node.drained_by, node.drain_reason = None, ""
    elif "drained_by" in event.data:
        node.drained_by, node.drain_reason = event.data["drained_by"], event.data["drain_reason"]
    if node.status == UP and node.rented_at is not None and node.up_at is None:
        node.up_at = event.data.get("up_at", event.at_s)


def _node_goes(ledger: Ledger, event: Event, _: Job | None) -> None:
    if (budget := event.data.get("budget")) is not None:
        known = ledger.reached.items()
        ledger.reached = {key: each for key, each in known if each["until_at"] > event.at_s}
        ledger.reached[budget_key(budget["user"], budget["period"])] = budget
    if event.node is None:
        return  # a user's budget is spent
    node = ledger.nodes[event.node]
    node.goes_at, node.goes_since = event.data.get("goes_at"), event.data.get("text")


def budget_key(user: str | None, period: str) -> str:
    """Of a budget in `Ledger.reached`; null: of all rented machines together."""
    return f"{period} {user or ''}"


def _node_watched(ledger: Ledger, event: Event, _: Job | None) -> None:
    ledger.nodes[str(event.node)].watched = True


def _node_gone(ledger: Ledger, event: Event, _: Job | None) -> None:
    name = str(event.node)
    node = ledger.nodes.pop(name)
    ledger.record.machine_s += event.data.get("charged_s", 0.0)
    usd = event.data.get("cost_usd", 0.0)
    if usd or node.account.holdings or node.account.charged_usd:
        for charge in charges_until(node, usd, event.data.get("ended_at", event.at_s)):
            ledger.charge(charge, event.at_s)
    if event.data["machine"]["kind"] in RENTED or event.data["why"] != "given-back":
        _note_gone(ledger, event)


def _node_billed(ledger: Ledger, event: Event, _: Job | None) -> None:
    node, until_at = NODE.validate_python(event.data), event.data.get("ended_at", event.at_s)
    for charge in charges_until(node, event.data["more_usd"], until_at):
        ledger.charge(charge, event.at_s)
    _note_gone(ledger, event)


def _note_gone(ledger: Ledger, event: Event) -> None:
    ledger.gone_nodes[str(event.node)] = {**event.data, "counted_at": event.at_s}
    for name, gone in list(ledger.gone_nodes.items()):
        if gone["counted_at"] < event.at_s - DAY_S:
            del ledger.gone_nodes[name]


def _node_words(data: Data) -> str:
    machine = data["machine"]
    gpus = f", {machine['gpu']:g} GPU{'' if machine['gpu'] == 1 else 's'}" if machine["gpu"] else ""
    rented = f", rented, {data['status']}" if data.get("rented_at") is not None else ""
    return f"{machine['cpu']:g} cores, {machine['memory_gib']:.3g} GiB{gpus}{rented}"


_GONE = {
    "given-back": "given back",
    "reclaimed": "reclaimed by the cloud",
    "boot-failed": "it did not boot",
    "left": "it has left its cluster",
}


def _billed_words(data: Data) -> str:
    more_usd = data["more_usd"]
    more = f"{usd(abs(more_usd))} {'more' if more_usd > 0 else 'less'}"
    return f"{usd(data['cost_usd'])}, {more} than was counted"


def booting(type: str, count: int) -> dict[str, Any]:  # noqa: A002
    """The reason of a job whose rented machines boot."""
    what = f"a machine of type {type}" if count == 1 else f"{count} machines of type {type}"
    return reason("booting", f"{what} is rented for it alone, and boots", type=type, count=count)


def speculated() -> dict[str, Any]:
    """The reason of a job that took longer on a rented machine than a short job may."""
    text = "it ran on a rented machine for as long as a short job may; it starts anew, and waits if it must"
    return reason("speculated", text)


def not_rented(type: str, text: str, again_s: float) -> dict[str, Any]:  # noqa: A002
    """The reason of a job for which the cloud gave out no machine."""
    when = f"; asked again in {again_s:g} s" if again_s else ""
    return reason("not-rented", f"no machine of type {type} is rented for it: {text}{when}", type=type)


def lease_ended(node: str, why: str) -> dict[str, Any]:
    """The reason of a job whose rented machine had to go; why: completes `since`."""
    return reason("lease-ended", f"node {node}, where it ran, was given back, since {why}", node=node)


def node_lost(name: str) -> dict[str, Any]:
    """The reason of a job whose node was lost."""
    return reason("node-lost", f"node {name} was lost{REQUEUED}", node=name)


def reclaimed(name: str) -> dict[str, Any]:
    """The reason of a job whose rented node the cloud has reclaimed."""
    return reason("reclaimed", f"the cloud reclaimed node {name}{REQUEUED}", node=name)


def _for_a_reason(data: Mapping[str, Any]) -> str:
    return f": {data['drain_reason']}" if data.get("drain_reason") else ""


_NODE: Mapping[str, Any] = {
    "machine": Annotated[dict[str, Any], "its name, kind and type, what it has, and its price"],
    "status": str,
    "rented_at": float | None,
    "watched": Annotated[bool, "it sends heartbeats"],
}
_MORE_OF_NODE: Mapping[str, Any] = {
    "for_job": int,
    "for_user": str,
    "by_policy": bool,
    "up_at": float,
    "goes_at": float,
    "goes_since": str,
    "since_at": float,
    "drained_by": str,
    "drain_reason": str,
    "earlier_prices": Annotated[list[tuple[float, float]], "until when, and USD an hour"],
}


KINDS: dict[str, Kind[Ledger]] = {
    "node-added": Kind(
        "a node is there from now on, or has come back with more or less than it had",
        _node_added,
        _node_words,
        data={**_NODE},
        more={**_MORE_OF_NODE},
    ),
    "node-status": Kind(
        "a node is up, draining, drained or lost",
        _node_is,
        lambda data: data["status"] + _for_a_reason(data),
        data={"status": str},
        more={"up_at": float, "drained_by": str, "drain_reason": str},
    ),
    "node-watched": Kind(
        "a node has sent its first heartbeat, and is lost if later ones do not arrive", _node_watched
    ),
    "node-noticed": Kind(
        "the cloud will take a rented node away: what runs there is stopped in time",
        _node_goes,
        lambda data: f"the cloud takes it away {instant(data['goes_at'])}",
        data={"goes_at": float},
    ),
    "node-gone": Kind(
        "a rented node was given back, reclaimed by the cloud, or never booted; or a node left its cluster",
        _node_gone,
        lambda data: _GONE[data["why"]] + _for_a_reason(data),
        data={"why": str, **_NODE},
        more={"ended_at": float, "cost_usd": float, "charged_s": float, **_MORE_OF_NODE},
    ),
    "node-billed": Kind(
        "the cloud's times for a rented machine that is gone: it has cost more or less than was counted",
        _node_billed,
        _billed_words,
        data={"ended_at": float, "cost_usd": float, "more_usd": float, **_NODE},
        more={**_MORE_OF_NODE},
    ),
    "not-rented": Kind(
        "the cloud refused a machine that the policy ordered, or nodes after it had accepted the request",
        words=lambda data: data["text"],
        data={"type": str, "text": str},
    ),
    "limit-reached": Kind(
        "a rented machine has to go by a limit of the operator's: nothing more starts there; without a node: a user's "
        "budget is spent",
        _node_goes,
        lambda data: data["text"],
        data={"text": str},
        more={
            "goes_at": float,
            "user": str,
            "until_at": float,
            "budget": Annotated[dict[str, Any], "`user`, `period`, `budget_usd`, `until_at`"],
        },
    ),
    "ordered": Kind(
        "the policy has a machine rented that jobs can share",
        words=lambda data: f"a machine of type {data['type']}",
        data={"type": str},
    ),
    "rents": Kind(
        "the policy has a machine, or several, rented for a job alone",
        _rents,
        reason_text,
        data={
            "type": str,
            "units": Annotated[list[int], "on each machine"],
            "units_per_task": int,
            "expected_usd": float,
            "account": ACCOUNT,
            "reason": REASON,
        },
        more={"speculates_until_s": float},
    ),
    "unrented": Kind(
        "a job has none of its own any more: its speculative run is over, or the cloud lost or refused it",
        _unrented,
        reason_text,
        data={"account": ACCOUNT, "reason": REASON},
    ),
}
