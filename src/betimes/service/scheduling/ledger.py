"""The state of the service as its event log has it, and its snapshot; events alone change it (`fold`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import asdict, replace
from typing import Any

from betimes.errors import StoreError
from betimes.service.machines.budgets import DAY, DAY_S, MONTH, period_name, period_since
from betimes.service.scheduling.arrays import ComingArrays
from betimes.service.scheduling.beliefs import USUAL_S, RestartCost, RuntimeEstimates
from betimes.service.scheduling.charges import Charge
from betimes.service.scheduling.job import JOBS, Job, share_held, shared_spec
from betimes.service.scheduling.node import LOST, NODE, Node
from betimes.service.scheduling.policy_record import PolicyRecord
from betimes.service.scheduling.promises import PromiseErrors
from betimes.service.scheduling.shares import SHARES, Shares
from betimes.service.scheduling.throughputs import MeasuredRates
from betimes.service.scheduling.windows import Windows
from betimes.service.spec.users import User

FORMAT = 1  # of a snapshot


class Ledger:
    """Jobs that are not over, nodes, and the policy in force."""

    def __init__(self, default_run_s: float = USUAL_S) -> None:
        self.runtime_estimates = RuntimeEstimates(default_run_s)
        self.restart_cost = RestartCost()
        self.measured_rates = MeasuredRates()
        self.promise_errors = PromiseErrors()
        self.jobs: dict[int, Job] = {}
        self.arrays = ComingArrays()
        self.nodes: dict[str, Node] = {}
        self.shares = Shares()
        self.users: dict[str, User] = {}  # by name; none: whoever has the operator's token does everything
        self.maintenance = Windows()
        self.rented: dict[str, int] = {}  # machines that were ever rented, by type: no name is used twice
        self.gone_usd: dict[str, float] = {}  # all charges, by the present day and month, as `day 1767225600`
        # Machines gone within a day, and what was counted for them: the cloud's bill may follow.
        self.gone_nodes: dict[str, dict[str, Any]] = {}
        # On rented machines, by user, and by month and present day.
        self.spent_usd: dict[str, dict[str, float]] = {}
        # Budgets at their end, which holds until `until_at`, by whose it is and its period.
        self.reached: dict[str, dict[str, Any]] = {}
        self.charges: list[Charge] = []  # of the last event, for rented machines
        # The status of jobs that are over and that others may wait for, by number.
        self.over: dict[int, str] = {}
        self.moved: set[int] = set()  # jobs that run after a move whose saving is counted
        self.reconfiguration: dict[str, Any] | None = (
            None  # the last round that moved jobs between rented machines
        )
        self.epoch_at = 0.0  # engines count seconds from here
        self.policy = ""
        self.policy_since_at = 0.0
        self.member: str | None = None  # of the portfolio in force, that decides; null: the first
        self.record = PolicyRecord()  # of the policy in force
        self.idle: dict[str, Any] | None = None  # why a decision did nothing, as was logged last
        # Inputs that could not be carried out, of the last day and of jobs that are not over.
        self.set_aside: list[dict[str, Any]] = []
        self.next_job = 1
        self.next_event = 1
        self.last_at = 0.0

    def away(self) -> Iterator[Node]:
        """Nodes that take no work against the plan, and those that were lost for good within a day."""
        yield from (node for node in self.nodes.values() if node.is_away)
        for name, gone in self.gone_nodes.items():
            is_new = gone["counted_at"] >= self.last_at - DAY_S
            if is_new and name not in self.nodes and gone.get("why", "given-back") != "given-back":
                yield replace(NODE.validate_python(gone), status=LOST, since_at=gone["counted_at"])

    def to_bytes(self, *, promises: bool = True) -> bytes:
        """A snapshot; promises: with what past ones taught, which takes most of the room."""
        learned = {"promises": self.promise_errors.to_json()} if promises else {}
        return json.dumps(
            {
                "format": FORMAT,
                "jobs": JOBS.dump_python(
                    list(self.jobs.values()), mode="json", by_alias=True, exclude_defaults=True
                ),
                "nodes": [
                    node.to_json() | ({"account": asdict(node.account)} if node.account.settled_at else {})
                    for node in self.nodes.values()
                ],
                **(
                    {"users": [user.model_dump(mode="json") for user in self.users.values()]}
                    if self.users
                    else {}
                ),
                **self.maintenance.to_json(),
                **self.arrays.to_json(),
                **({"shares": SHARES.dump_python(self.shares, mode="json")} if self.shares.accounts else {}),
                "rented": self.rented,
                "spent_usd": self.spent_usd,
                **({"gone_usd": self.gone_usd} if self.gone_usd else {}),
                **({"gone_nodes": self.gone_nodes} if self.gone_nodes else {}),
                **({"reached": self.reached} if self.reached else {}),
                "over": sorted(self.over.items()),
                "run_times": self.runtime_estimates.to_json(),
                "restarts": asdict(self.restart_cost),
                "rates": self.measured_rates.to_json(),
                **learned,
                "epoch_at": self.epoch_at,
                "policy": self.policy,
                "policy_since_at": self.policy_since_at,
                "member": self.member,
                "record": asdict(self.record),
                "idle": self.idle,
                **({"set_aside": self.set_aside} if self.set_aside else {}),
                **({"reconfiguration": self.reconfiguration} if self.reconfiguration else {}),
                "next_job": self.next_job,
                "next_event": self.next_event,
                "last_at": self.last_at,
            },
            allow_nan=False,
        ).encode()

    @classmethod
    def from_bytes(cls, body: bytes, default_run_s: float = USUAL_S) -> Ledger:
        """The ledger of a snapshot."""
        found = json.loads(body)
        if found["format"] != FORMAT:
            raise StoreError(f"a snapshot of format {found['format']}, and this version reads {FORMAT}")
        ledger = cls(default_run_s)
        ledger.runtime_estimates = RuntimeEstimates.from_json(found["run_times"], default_run_s)
        for job in JOBS.validate_python(found["jobs"]):
            job.spec = shared_spec(job.spec, ledger.jobs.get(job.job_id - 1))
            ledger.jobs[job.job_id] = job
        ledger.moved = {job.job_id for job in ledger.jobs.values() if job.move is not None}
        nodes = map(NODE.validate_python, found["nodes"])
        ledger.nodes = {node.machine.name: node for node in nodes}
        ledger._open_accounts()
        ledger.users = {one["name"]: User(**one) for one in found.get("users", ())}
        ledger.maintenance = Windows.from_json(found)
        ledger.arrays = ComingArrays.from_json(found)
        if "shares" in found:
            ledger.shares = SHARES.validate_python(found["shares"])
        ledger.restart_cost = RestartCost(**found.get("restarts", {}))  # earlier versions measured none
        ledger.measured_rates = MeasuredRates.from_json(found.get("rates", {}))
        if "promises" in found:  # earlier versions learned otherwise, or not at all
            ledger.promise_errors = PromiseErrors.from_json(found["promises"])
        ledger.rented = found.get("rented", {})  # earlier versions rented nothing
        ledger.spent_usd, ledger.gone_usd = found.get("spent_usd", {}), found.get("gone_usd", {})
        ledger.gone_nodes, ledger.reached = found.get("gone_nodes", {}), found.get("reached", {})
        ledger.member, ledger.record = found.get("member"), PolicyRecord(**found.get("record", {}))
        ledger.over, ledger.idle = dict(found["over"]), found.get("idle")
        ledger.set_aside, ledger.reconfiguration = found.get("set_aside", []), found.get("reconfiguration")
        for name in ("epoch_at", "policy", "policy_since_at", "next_job", "next_event", "last_at"):
            setattr(ledger, name, found[name])
        return ledger

    def copied(self) -> Ledger:
        """The same apart from this one, but for what promises taught, which it only reads: no decision rests on it."""
        rest = copy(self)
        rest.jobs, rest.users = {}, {}
        made = Ledger.from_bytes(rest.to_bytes(promises=False), self.runtime_estimates.default_s)
        made.promise_errors = PromiseErrors(self.promise_errors.run_times)
        made.users = dict(self.users)
        made.jobs, made.moved = {n: job.copied() for n, job in self.jobs.items()}, set(self.moved)
        return made

    def hold_nodes(self, job: Job, at: float) -> None:
        """The job's run holds its part of the rented machines that it shares, and no more of others."""
        if job.run is None or job.run.started_at is None:
            return
        unit, places = job.spec.unit, job.run.places
        for name, units in places:
            node = self.nodes.get(name)
            if node is not None and node.rented_at is not None and node.is_shared:
                node.account.hold(node.prices, job.job_id, job.user, units * share_held(unit, node), at)

    def leave_nodes(self, job: Job, at: float, places: Iterable[tuple[str, int]], now_at: float) -> None:
        """The job's run holds nothing any more of the machines of these places, and is charged for what it held."""
        for name, _ in places:
            node = self.nodes.get(name)
            charge = None if node is None else node.account.leave(node.prices, name, job.job_id, at)
            if charge is not None:
                self.charge(charge, now_at)

    def charge(self, charge: Charge, now_at: float) -> None:
        """Add a charge to the present day and month, and to what its user has spent in them."""
        self.charges.append(charge)
        counted = dict[str, float]()
        for period in (DAY, MONTH):
            since_at = period_since(period, now_at)
            key, usd = f"{period} {since_at:.0f}", charge.usd_in(since_at)
            counted[key] = self.gone_usd.get(key, 0.0) + usd
        self.gone_usd = counted
        if charge.user is None:
            return
        spent, today = self.spent_usd.setdefault(charge.user, {}), period_name(DAY, now_at)
        for name in [name for name in spent if len(name) == len(today) and name != today]:
            del spent[name]
        for period in (DAY, MONTH):
            name = period_name(period, now_at)
            spent[name] = spent.get(name, 0.0) + charge.usd_in(period_since(period, now_at))

    def _open_accounts(self) -> None:
        """Runs hold their parts of rented machines, also by a snapshot of an earlier version, which does not say so."""
        running = [
            job for job in self.jobs.values() if job.run is not None and job.run.started_at is not None
        ]
        for job in sorted(running, key=lambda job: (job.run and job.run.started_at) or 0.0):
            if job.run is not None and not any(
                name in self.nodes and job.job_id in self.nodes[name].account.holdings
                for name, _ in job.run.places
            ):
                self.hold_nodes(job, job.run.started_at or 0.0)

    def forget(self, job: Job) -> None:
        """Drop a job that is over, except its status while others wait for it: the store keeps it."""
        del self.jobs[job.job_id]
        self.moved.discard(job.job_id)
        self.over[job.job_id] = job.status.value
