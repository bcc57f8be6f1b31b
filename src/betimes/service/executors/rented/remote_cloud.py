"""A cloud elsewhere, reached by three calls that take their time: `rent`, `release` and `list` (`Backend`).

A journal of the machines is written before `rent` is called, so that a service that starts again gives back those of
which its log knows nothing. What `list` shows counts: machines that it no longer shows are gone, and those
that nobody here asked for are given back. A list is late and has gaps: a machine that it does not show is booting, or
goes on, until several lists over two minutes have not shown it.
"""

from __future__ import annotations

import json
import logging
import math
import secrets
import time
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from betimes.cluster import Cluster
from betimes.cluster.billing import Prices, lease_usd, summed
from betimes.cluster.offer import Offer
from betimes.errors import CloudError, ServiceError, Unknown
from betimes.files import write_private
from betimes.service.executors.supervision import processes
from betimes.service.machines.machine import Kind, Machine
from betimes.service.machines.provider import (
    Billed,
    Booted,
    CloudEvent,
    Failed,
    NoCapacity,
    OpenCloud,
    PriceChanged,
    Reclaimed,
    ReclaimNotice,
    RequestId,
)

LOOK_S = 1.0  # between two calls of `list` while machines boot or go
QUIET_LOOKS = 10  # of these until the next call, while none does
AGAIN_LOOKS = 30  # until a release is asked for again
REFUSED_S = 60.0  # for so long a type that was refused is not asked for
MOST_BOOT_S = 1800.0  # or ten times the offer's, until a machine that is not up is given back
LOOKS, LATE_S = 3, 120.0  # in a row that do not show a machine, and for so long, until it counts as gone

log = logging.getLogger(__name__)


# --- what a cloud is asked, and what it answers ---

_STRICT = ConfigDict(extra="forbid", strict=True)


class Rented(BaseModel):
    """The answer of `rent`: nothing, or why there is no such machine."""

    model_config = _STRICT
    refused: Literal["capacity", "quota"] | None = None
    text: str = ""


class Listed(BaseModel):
    """A machine in the answer of `list`."""

    model_config = _STRICT
    name: str
    state: Literal["booting", "up"]
    pid: Annotated[int, Field(ge=1)] | None = None  # the process on this machine with which its jobs end
    notice_s: Annotated[float, Field(ge=0)] | None = None  # until it is taken away
    usd_per_h: Annotated[float, Field(ge=0)] | None = None


class Ended(BaseModel):
    """A machine in the answer of `list` that is gone."""

    model_config = _STRICT
    name: str
    at_s: float | None = None  # since 1970; null: now
    since_s: float | None = None  # it is paid for from then on; null: as the service has it
    why: str = "it has ended"


class Listing(BaseModel):
    """The answer of `list`: the service's machines that are not gone."""

    model_config = _STRICT
    machines: list[Listed]
    ended: list[Ended] = []  # those of which that is known; a machine that is in neither list may be gone
    usd_per_h: dict[str, float] = {}  # the present prices of types, rented or not


class Released(BaseModel):
    """The answer of `release`: nothing."""

    model_config = _STRICT


_A_co = TypeVar("_A_co", covariant=True)


class Call(Protocol[_A_co]):
    """A call under way."""

    @property
    def is_over(self) -> bool:
        """Whether it has been answered, has failed, or has taken too long."""
        ...

    def result(self) -> _A_co:
        """The answer, once it is over. Raises CloudError."""
        ...


class Backend(Protocol):
    """The calls to a cloud. Each begins at once and raises CloudError where it cannot.

    `service` tells apart the services that share a cloud; names are used once.
    """

    @property
    def name(self) -> str:
        """The name of its journal."""
        ...

    @property
    def kind(self) -> Kind:
        """The kind of its machines."""
        ...

    def rent(self, service: str, machine: Machine) -> Call[Rented]:
        """Rent a machine under its name; called once for each."""
        ...

    def release(self, service: str, name: str) -> Call[Released]:
        """Give a machine back; also one that is gone or never was."""
        ...

    def list(self, service: str) -> Call[Listing]:
        """The service's machines."""
        ...


def open_remote(
    backend: Backend, cluster: Cluster, folder: Path, nodes: Container[str] = (), look_s: float = LOOK_S
) -> OpenCloud:
    """The cloud behind a back end, with a cluster's offers; folder: of the journal. look_s: in place of `LOOK_S`.

    nodes: names of machines elsewhere that are nodes of the service's Ray cluster now, so that jobs can run there.
    """

    def open_cloud(held: Iterable[tuple[Machine, float]], made: Mapping[str, int]) -> RemoteCloud:
        return RemoteCloud(backend, cluster, folder, nodes, held, made, look_s)

    return open_cloud


@dataclass
class _Machine:
    machine: Machine
    request: RequestId | None
    asked_at_s: float
    state: Literal["asked", "boots", "up", "goes"]
    renting: Call[Rented] | None = None
    releasing: Call[Released] | None = None
    up_at_s: float = math.inf
    ended_at_s: float = math.inf
    missed: int = 0  # looks in a row that have not shown it
    missed_since_s: float = math.inf  # the first of these
    process: tuple[int, int | None] | None = None
    noticed: bool = False
    was_there: bool = False  # `rent` has answered so, or a list has shown it: else it is not paid for
    again_s: float = 0.0  # by the monotonic clock: when its release is asked for again

    @property
    def calls(self) -> list[Call[Rented] | Call[Released]]:
        """Those under way."""
        return [call for call in (self.renting, self.releasing) if call is not None]


class RemoteCloud:
    """A `Provider` behind a back end. `advance` reports its answers; a release is asked for until it is done.

    Capacity and quota are those of the offers, and what `rent` refuses.
    """

    def __init__(
        self,
        backend: Backend,
        cluster: Cluster,
        folder: Path,
        nodes: Container[str],
        held: Iterable[tuple[Machine, float]],
        made: Mapping[str, int],
        look_s: float,
    ) -> None:
        self._backend, self._nodes, self._look_s = backend, nodes, look_s
        self.kind: Kind = backend.kind
        self._journal = folder / f"{backend.name}.json"
        self._offers = {offer.type: offer for offer in cluster.offers}
        self._quota = cluster.quota
        self._prices = {offer.type: Prices(offer.charged_usd_per_h) for offer in cluster.offers}
        self._asked, self._made = Counter[str](), Counter[str](made)
        self._failed: set[RequestId] = set()
        self._refused: dict[str, tuple[float, NoCapacity]] = {}
        self._machines: dict[str, _Machine] = {}
        self._events: list[CloudEvent] = []
        self._listing: Call[Listing] | None = None
        self._look_at_s = 0.0
        self._trouble = ""
        self._now_s = -math.inf
        self._over: dict[str, _Machine] = {}  # for the bill
        self._billed: set[str] = set()  # machines that `list` shows as gone, and whose bill is reported
        for machine, asked_at_s in held:
            self._known(machine.type)
            request = RequestId(machine.type, self._asked[machine.type])
            self._asked[machine.type] += 1
            self._machines[machine.name] = _Machine(machine, request, asked_at_s, "boots", was_there=True)
        self._service = self._read_journal()

    def offers(self) -> list[Offer]:
        """The instance types in the order they were given."""
        return [*self._offers.values()]

    def quota(self) -> int | None:
        """The most machines that can be held at once, of all types together; null: any number."""
        return self._quota

    def prices(self) -> dict[str, float]:
        """The price of each type's machine now, USD an hour."""
        return {name: prices.latest for name, prices in self._prices.items()}

    def request(self, now_s: float, type: str, count: int) -> RequestId | NoCapacity:  # noqa: A002
        """Ask for machines, all or none. Raises CloudError, Unknown; ValueError for a count below 1."""
        self._now_s = now_s
        offer = self._known(type)
        if count < 1:
            raise ValueError(f"expected at least one machine to be asked for, found {count}")
        held = Counter(each.machine.type for each in self._machines.values() if each.state != "goes")
        if offer.capacity is not None and held[type] + count > offer.capacity:
            text = f"no capacity: {count} {type} asked for, {offer.capacity - held[type]} of {offer.capacity} free"
            return NoCapacity(type, count, "capacity", text)
        if self._quota is not None and held.total() + count > self._quota:
            text = f"over the quota: {count} {type} asked for, {held.total()} of {self._quota} machines held"
            return NoCapacity(type, count, "quota", text)
        until_s, refusal = self._refused.get(type, (0.0, None))
        if refusal is not None and time.monotonic() < until_s:
            return refusal
        request = RequestId(type, self._asked[type])
        self._asked[type] += 1
        asked: list[_Machine] = []
        for _ in range(count):
            machine = self._machine(offer, f"{type}-{self._made[type]}")
            self._made[type] += 1
            asked.append(_Machine(machine, request, now_s, "asked"))
            self._machines[machine.name] = asked[-1]
        self._write_journal()
        for each in asked:
            try:
                each.renting = self._backend.rent(self._service, each.machine)
            except CloudError as error:
                self._refuse(each, NoCapacity(type, count, "capacity", str(error)))
                break
        return request

    def release(self, now_s: float, id: RequestId | str) -> None:  # noqa: A002
        """Give a node back, or all of a request, booted or not; it is asked for until it is done. Raises Unknown."""
        self._now_s = now_s
        for each in list(self._machines.values()):
            if id in (each.request, each.machine.name):
                self._go(each)

    def next_at_s(self) -> float:
        """The time of the last call if there is an unreported event; infinity: none."""
        return self._now_s if self._events else math.inf

    def poll(self) -> bool:
        """Begin the calls that are due; whether one has ended, or a machine."""
        now_s = time.monotonic()
        for each in self._machines.values():
            if each.state == "goes" and each.calls == [] and now_s >= each.again_s:
                each.again_s = now_s + AGAIN_LOOKS * self._look_s
                with _logged():
                    each.releasing = self._backend.release(self._service, each.machine.name)
        if self._listing is None and now_s >= self._look_at_s:
            with _logged():
                self._listing = self._backend.list(self._service)
            quiet = all(each.state == "up" for each in self._machines.values())
            self._look_at_s = now_s + (QUIET_LOOKS if quiet else 1) * self._look_s
        machines = self._machines.values()
        return (self._listing is not None and self._listing.is_over) or any(
            any(call.is_over for call in each.calls) or (each.state == "up" and not self._runs_jobs(each))
            for each in machines
        )

    def _runs_jobs(self, each: _Machine) -> bool:
        """Whether a machine is there for jobs, here or as a node of the cluster."""
        name = each.machine.name
        return name in self._nodes or self.process_of(name) is not None

    def process_of(self, node: str) -> int | None:
        """The process of this machine with which a node's runs end, as `list` showed it; null: it has ended."""
        process = self._machines[node].process if node in self._machines else None
        return process[0] if process is not None and processes.lives(*process) else None

    def advance(self, now_s: float) -> list[CloudEvent]:
        """Unreported events until now, in the order of time."""
        self._now_s = now_s
        for each in list(self._machines.values()):
            if each.renting is not None and each.renting.is_over:
                renting, each.renting = each.renting, None
                self._rented(each, renting)
            elif each.releasing is not None and each.releasing.is_over:
                releasing, each.releasing = each.releasing, None
                self._released(each, releasing)
            elif each.state == "up" and not self._runs_jobs(each):
                self._lost(each)
        if self._listing is not None and self._listing.is_over:
            listing, self._listing = self._listing, None
            self._look(listing)
        events, self._events = self._events, []
        return events

    def machines(self) -> list[Machine]:
        """Booted machines held as of the last call, by type and number."""
        return self._sorted("up")

    def going(self) -> int:
        """The number of machines that are still being given back, without being held any more."""
        return sum(each.state == "goes" for each in self._machines.values())

    def given_out(self, request: RequestId) -> list[Machine] | None:
        """A request's machines held as of the last call; null: it has not been answered yet."""
        mine = [each for each in self._machines.values() if each.request == request]
        if request in self._failed or any(each.state == "asked" for each in mine):
            return None
        return [each.machine for each in mine if each.state != "goes"]

    def booting(self) -> list[Machine]:
        """Machines given out but not booted yet as of the last call, in the same order."""
        return self._sorted("boots")

    def cost_usd(self, now_s: float) -> float:
        """All charges until now, machines that are gone included."""
        self._now_s = now_s
        return float(summed(map(self._charge, (*self._over.values(), *self._machines.values()))))

    # --- answers ---

    def _rented(self, each: _Machine, call: Call[Rented]) -> None:
        type_ = each.machine.type
        try:
            answer = call.result()
        except CloudError as error:  # it may be rented all the same
            self._refuse(each, NoCapacity(type_, 1, "capacity", str(error)))
            return
        if answer.refused is not None:
            text = answer.text or f"there is no {type_}: {answer.refused}"
            self._refuse(each, NoCapacity(type_, 1, answer.refused, text))
            return
        each.was_there = True
        if each.state != "goes":  # given back before it was there
            each.state = "boots"

    def _released(self, each: _Machine, call: Call[Released]) -> None:
        try:
            call.result()
        except CloudError as error:
            log.warning("machine %s cannot be given back yet: %s", each.machine.name, error)
            return
        if each.ended_at_s == math.inf:
            each.ended_at_s = self._now_s

    def _refuse(self, one: _Machine, refusal: NoCapacity) -> None:
        """A request cannot be met: what it has got goes back."""
        assert one.request is not None, "only machines that were asked for are refused"
        self._refused[refusal.type] = (time.monotonic() + REFUSED_S, refusal)
        if one.request not in self._failed:
            self._failed.add(one.request)
            self._events.append(Failed(self._now_s, one.request, None, refusal.why, refusal.text))
        for each in list(self._machines.values()):
            if each.request == one.request:
                self._go(each)

    def _look(self, call: Call[Listing]) -> None:
        """Take what `list` shows."""
        try:
            answer = call.result()
            shown = {one.name: one for one in answer.machines}
            ended = {one.name: one for one in answer.ended}
        except CloudError as error:
            if self._trouble != str(error):
                self._trouble = str(error)
                log.warning("what is rented cannot be seen: %s", error)
            return
        self._trouble = ""
        for type_, usd_per_h in answer.usd_per_h.items():
            self._reprice(type_, usd_per_h)
        for name, each in list(self._machines.items()):
            one = shown.pop(name, None)
            each.was_there |= one is not None or name in ended
            if one is not None:
                self._seen(each, one)
                continue
            each.missed, each.missed_since_s = each.missed + 1, min(each.missed_since_s, self._now_s)
            if each.state == "goes" and each.ended_at_s < math.inf:
                self._forget(each)
            elif each.state in ("boots", "up") and (gone := ended.get(name)) is not None:
                each.ended_at_s = self._now_s if gone.at_s is None else min(gone.at_s, self._now_s)
                self._lost(each, gone.why)
            elif each.state in ("boots", "up") and self._is_gone(each):
                self._lost(each, "no list shows it")
        for name in shown:  # nobody here has asked for it
            log.warning("machine %s is not known here, and is given back", name)
            self._adopt(name)
        self._bill(ended)

    def _is_gone(self, each: _Machine) -> bool:
        """Whether a machine has not been shown for longer than a list is late, or a boot takes."""
        boot_s = self._offers[each.machine.type].boot_s if each.state == "boots" else 0.0
        return each.missed >= LOOKS and self._now_s - each.missed_since_s >= max(LATE_S, boot_s)

    def _seen(self, each: _Machine, one: Listed) -> None:
        each.missed, each.missed_since_s = 0, math.inf
        if each.state not in ("boots", "up"):
            return
        type_ = each.machine.type
        if one.usd_per_h is not None:
            self._reprice(type_, one.usd_per_h)
        if one.notice_s is not None and not each.noticed:
            each.noticed = True
            self._events.append(ReclaimNotice(self._now_s, one.name, self._now_s + one.notice_s))
        if one.pid is not None and each.process is None:
            each.process = (one.pid, processes.start_ticks(one.pid))
        if each.state == "up":
            return
        most_s = max(MOST_BOOT_S, 10.0 * self._offers[type_].boot_s)
        if one.state == "up" and self._runs_jobs(each):
            each.state, each.up_at_s = "up", self._now_s
            assert each.request is not None, "only machines that go were not asked for"
            self._events.append(Booted(self._now_s, each.request, each.machine))
        elif self._now_s - each.asked_at_s > most_s:
            self._lost(each, f"it is not up after {most_s:g} s")

    def _reprice(self, type: str, usd_per_h: float) -> None:  # noqa: A002
        prices = self._prices.get(type)
        if prices is None:
            return
        # It may be the offer's, but not that of machines rented before a restart.
        others = [each for each in self._machines.values() if each.machine.type == type]
        others = [each for each in others if each.machine.usd_per_h != usd_per_h]
        if usd_per_h != prices.latest or others:
            self._prices[type] = prices.changed(self._now_s, usd_per_h)
            self._events.append(PriceChanged(self._now_s, type, usd_per_h))
        for each in others:  # also of those that are not given out yet
            each.machine = replace(each.machine, usd_per_h=usd_per_h)

    def _lost(self, each: _Machine, why: str = "it has ended") -> None:
        """A machine has ended by itself, or never comes up; it is given back all the same."""
        name, at_s = each.machine.name, min(each.ended_at_s, self._now_s)
        if each.state == "up":
            self._events.append(Reclaimed(at_s, name))
        else:
            assert each.request is not None, "only machines that go were not asked for"
            self._events.append(Failed(at_s, each.request, name, "boot", f"{name} did not boot: {why}"))
        self._go(each)

    def _go(self, each: _Machine) -> None:
        """Give a machine back; the call begins with the next look, and after that of `rent`."""
        each.state = "goes"

    def _forget(self, each: _Machine) -> None:
        del self._machines[each.machine.name]
        self._over[each.machine.name] = each
        self._write_journal()

    def _bill(self, ended: Mapping[str, Ended]) -> None:
        """Report the times of machines that are gone, once each; after a start again, as the log may not know them."""
        self._billed &= ended.keys()
        for name, gone in ended.items():
            if name in self._machines or name in self._billed or gone.at_s is None or gone.since_s is None:
                continue
            self._billed.add(name)
            if name in self._over:
                over = self._over[name]
                over.asked_at_s, over.ended_at_s, over.was_there = gone.since_s, gone.at_s, True
            self._events.append(Billed(gone.at_s, name, name.rpartition("-")[0], gone.since_s))

    # --- state ---

    def _read_journal(self) -> str:
        """The machines of the journal of which the log knows nothing go back; returns the service's name.

        A copied journal is of another service, and its machines are not touched.
        """
        new = f"betimes-{secrets.token_hex(6)}"
        try:
            found = json.loads(self._journal.read_text(encoding="utf-8"))
            if found["place"] != str(self._journal.absolute()):
                return new
            self._made |= Counter(found["made"])
            for name in found["machines"]:
                if name not in self._machines:
                    self._adopt(name)
            return str(found["service"])
        except FileNotFoundError:
            return new
        except (ValueError, TypeError, KeyError) as error:
            raise ServiceError(
                f"{self._journal} is damaged ({error!r}); look for machines of its service that run on, and remove it"
            ) from None

    def _write_journal(self) -> None:
        """Raises CloudError where it cannot be written: then nothing may be rented."""
        text = json.dumps(
            {
                "service": self._service,
                "place": str(self._journal.absolute()),
                "made": self._made,
                "machines": list(self._machines),
            }
        )
        try:
            write_private(self._journal, text + "\n")
        except OSError as error:
            raise CloudError(
                f"{self._journal} cannot be written ({error.strerror}); nothing is rented"
            ) from None

    def _adopt(self, name: str) -> None:
        """A machine that is only to be given back."""
        self._machines[name] = _Machine(Machine(name, self.kind, name, 0.0, 0.0, 0.0), None, math.inf, "goes")

    def _known(self, type: str) -> Offer:  # noqa: A002
        if type not in self._offers:
            raise Unknown(
                f"there is no instance type {type!r}; there are {', '.join(self._offers) or 'none'}"
            )
        return self._offers[type]

    def _machine(self, offer: Offer, name: str) -> Machine:
        price = self._prices[offer.type].latest
        return Machine(
            name, self.kind, offer.type, *(offer.cpu, offer.memory_gib, offer.gpu), price,
            labels=offer.labels, family=offer.family,
        )  # fmt: skip

    def _sorted(self, *states: str) -> list[Machine]:
        found = [each.machine for each in self._machines.values() if each.state in states]
        return sorted(found, key=lambda machine: (machine.type, int(machine.name.rpartition("-")[2])))

    def _charge(self, each: _Machine) -> Any:
        offer = self._offers.get(each.machine.type)
        if offer is None or not each.was_there:
            return 0
        since_s = offer.billing.since_s(each.asked_at_s, each.up_at_s)
        return lease_usd(offer.billing, self._prices[offer.type], since_s, min(each.ended_at_s, self._now_s))


@contextmanager
def _logged() -> Iterator[None]:
    """A call that cannot begin is logged; it is tried again."""
    try:
        yield
    except CloudError as error:
        log.warning("%s", error)
