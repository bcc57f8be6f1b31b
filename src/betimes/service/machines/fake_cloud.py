"""A cloud for tests, the service's and its users': it can do everything a cloud does to its customers.

Everything follows from the offers, the script, the seed and the calls with their times. Random numbers are drawn for
each machine by its type and number, so neither how often `advance` is called nor the order of calls at one instant
changes the outcome, as long as they ask for different types and no quota stands between them. For the same reason
a machine that is given back can be had again only after that instant, not at it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heappop, heappush

from betimes.cluster.billing import Prices, lease_usd, summed
from betimes.cluster.draws import draw
from betimes.cluster.offer import Offer
from betimes.errors import CloudError, Unknown
from betimes.service.machines.machine import Kind, Machine
from betimes.service.machines.provider import (
    Booted,
    CloudEvent,
    Failed,
    NoCapacity,
    PriceChanged,
    Reclaimed,
    ReclaimNotice,
    RequestId,
)


@dataclass(frozen=True)
class SetPrice:
    """From then on a type costs so much."""

    at_s: float
    type: str
    usd_per_h: float


@dataclass(frozen=True)
class SetCapacity:
    """From then on there are so many of a type (null: any number); those that are held stay."""

    at_s: float
    type: str
    capacity: int | None


@dataclass(frozen=True)
class Reclaim:
    """The machines of a type that have run longest get notice."""

    at_s: float
    type: str
    count: int = 1


@dataclass(frozen=True)
class Outage:
    """Requests and releases raise CloudError from `at_s` until before `until_s`; rented machines run on."""

    at_s: float
    until_s: float


@dataclass(frozen=True)
class Slow:
    """Requests from `at_s` until before `until_s` are handled only `delay_s` later: nothing is held before."""

    at_s: float
    until_s: float
    delay_s: float


Step = SetPrice | SetCapacity | Reclaim | Outage | Slow


# The order at one instant.
_PRICE, _CAPACITY, _ANSWER, _BOOT, _TAKE, _NOTICE, _RECLAIM, _RELEASE = range(8)


@dataclass
class _Instance:
    node: str
    type: str
    number: int
    request: RequestId
    requested_at_s: float
    fails: bool
    life_s: float  # from when it is up to the notice
    charged_since_s: float = math.inf
    up_at_s: float = math.inf
    noticed: bool = False
    ended_at_s: float = math.inf
    charged_until_s: float = math.inf


@dataclass(order=True)
class _Timer:
    at_s: float
    rank: int
    type: str
    number: int
    act: Callable[[float], CloudEvent | None] = field(compare=False)
    instance: _Instance | None = field(compare=False, default=None)

    @property
    def is_moot(self) -> bool:
        return self.instance is not None and self.instance.ended_at_s < math.inf


class FakeCloud:
    """A `Provider` without a cloud. `quota` is the most machines held at once, of all types together, `kind` what its
    machines are called.

    Booting machines count towards capacity and quota. A machine is charged by its offer until it is taken away, or is
    gone after its release; `cost_usd` is the exact sum, rounded once. A machine that fails to boot costs nothing. It is
    `Booted` once it is set up, too. A time before that of an earlier call raises ValueError.
    """

    def __init__(
        self,
        offers: Iterable[Offer],
        seed: int | str = 0,
        quota: int | None = None,
        script: Iterable[Step] = (),
        kind: Kind = "fake-cloud",
    ) -> None:
        self.kind: Kind = kind
        self._seed, self._quota = seed, quota
        self._now_s = -math.inf
        self._types: dict[str, Offer] = {}
        self._prices: dict[str, Prices] = {}
        self._capacity: dict[str, int | None] = {}
        self._instances: dict[str, _Instance] = {}  # by node, those that are gone included
        self._requests: dict[RequestId, list[_Instance] | None] = {}  # null: not answered yet
        self._asked: Counter[str] = Counter()
        self._made: Counter[str] = Counter()
        self._held: Counter[str] = Counter()
        self._freed: defaultdict[str, tuple[float, int]] = defaultdict(lambda: (-math.inf, 0))
        self._troubles: list[Outage | Slow] = []
        self._steps = 0
        self._timers: list[_Timer] = []
        self._unreported: list[tuple[_Timer, CloudEvent]] = []  # a heap: in the order of their timers
        for offered in offers:
            self.offer(offered)
        for step in script:
            self.add(step)

    def offer(self, offered: Offer) -> None:
        """A type more; raises ValueError for one that there is."""
        if offered.type in self._types:
            raise ValueError(f"there is an instance type {offered.type} already")
        self._types[offered.type] = offered
        self._prices[offered.type] = Prices(offered.prices.usd_per_h)
        self._capacity[offered.type] = offered.capacity

    def resume(self, held: Iterable[tuple[Machine, float]], made: Mapping[str, int]) -> None:
        """Restore machines requested at these instants, as if this cloud had given them out itself.

        Before any other call. `made`: how many of each type there have been, so that no name is used twice. `advance`
        reports the machines' events since then, also those reported before. Raises Unknown for a type that is not
        offered.
        """
        for machine, asked_at_s in held:
            self._known(machine.type)
            request = RequestId(machine.type, self._asked[machine.type])
            self._asked[machine.type] += 1
            self._made[machine.type] = int(machine.name.removeprefix(f"{machine.type}-"))
            self._requests[request] = [self._make(asked_at_s, request)]
        self._made = Counter(made)

    def add(self, step: Step) -> None:
        """A step more of the script, not before the time of the last call (ValueError). Raises Unknown for its type."""
        if not step.at_s >= self._now_s:
            raise ValueError(f"{step} is in the past; it is {self._now_s:.3f}")
        if isinstance(step, Outage | Slow):
            self._troubles.append(step)
            return
        self._known(step.type)
        rank = {SetPrice: _PRICE, SetCapacity: _CAPACITY, Reclaim: _TAKE}[type(step)]
        self._steps += 1
        self._set(_Timer(step.at_s, rank, step.type, self._steps, lambda at_s: self._step(at_s, step)))

    def offers(self) -> list[Offer]:
        """The instance types in the order they were given."""
        return [*self._types.values()]

    def quota(self) -> int | None:
        """The most machines that can be held at once, of all types together; null: any number."""
        return self._quota

    def prices(self) -> dict[str, float]:
        """The price of each type's machine now, USD an hour."""
        return {name: prices.latest for name, prices in self._prices.items()}

    def request(self, now_s: float, type: str, count: int) -> RequestId | NoCapacity:  # noqa: A002
        """Ask for machines, all or none. Raises CloudError, Unknown; ValueError for a count below 1."""
        self._play(now_s)
        self._known(type)
        if count < 1:
            raise ValueError(f"expected at least one machine to be asked for, found {count}")
        delay_s = self._delay_s(now_s)
        request = RequestId(type, self._asked[type])
        if delay_s == 0:
            refused = self._grant(now_s, request, count)
            if refused is not None:
                return refused
        else:
            self._requests[request] = None

            def answer(at_s: float) -> CloudEvent | None:
                return self._answer(at_s, request, count)

            self._set(_Timer(now_s + delay_s, _ANSWER, type, request.number, answer))
        self._asked[type] += 1
        return request

    def release(self, now_s: float, id: RequestId | str) -> None:  # noqa: A002
        """Give a node back, or all of a request, booted or not. Raises CloudError, Unknown."""
        self._play(now_s)
        if id not in (self._requests if isinstance(id, RequestId) else self._instances):
            raise Unknown(f"{id}: the cloud has never given this out")
        delay_s = self._delay_s(now_s)
        if delay_s == 0:
            self._release(now_s, id)
            return
        self._steps += 1
        self._set(_Timer(now_s + delay_s, _RELEASE, "", self._steps, lambda at_s: self._release(at_s, id)))

    def lose(self, now_s: float, node: str) -> None:
        """A machine has ended by itself: it is reclaimed without notice, or fails to boot. Gone already: nothing."""
        self._play(now_s)
        instance = self._instances[node]
        if instance.ended_at_s < math.inf:
            return
        if instance.up_at_s < math.inf:
            self._later(now_s, _RECLAIM, instance, self._reclaim)
        else:
            instance.fails, instance.charged_since_s = True, math.inf
            self._later(now_s, _BOOT, instance, self._boot)
        self._play(now_s)

    def poll(self) -> bool:
        """False: nothing happens here but what `next_at_s` foresees."""
        return False

    def going(self) -> int:
        """None: what is given back later is held until then."""
        return 0

    def process_of(self, node: str) -> int | None:
        """Null: nothing runs on a made-up machine."""
        return None

    def next_at_s(self) -> float:
        """The time of the next event, or of an unreported one; infinity: none."""
        while self._timers and self._timers[0].is_moot:
            heappop(self._timers)
        if self._unreported:
            return self._unreported[0][1].at_s
        return self._timers[0].at_s if self._timers else math.inf

    def advance(self, now_s: float) -> list[CloudEvent]:
        """Unreported events until now, in the order of time."""
        self._play(now_s)
        return [heappop(self._unreported)[1] for _ in range(len(self._unreported))]

    def machines(self) -> list[Machine]:
        """Booted machines held as of the last call, by type and number."""
        return self._sorted(each for each in self._instances.values() if each.up_at_s < math.inf)

    def given_out(self, request: RequestId) -> list[Machine] | None:
        """A request's machines held as of the last call; null: it has not been answered yet."""
        found = self._requests[request]
        return None if found is None else self._sorted(found)

    def booting(self) -> list[Machine]:
        """Machines held but not booted yet as of the last call, by type and number."""
        return self._sorted(each for each in self._instances.values() if each.up_at_s == math.inf)

    def held(self, type: str) -> int:  # noqa: A002
        """The number of machines of a type that are held as of the last call, booting or booted."""
        self._known(type)
        return self._held[type]

    def cost_usd(self, now_s: float) -> float:
        """All charges until now, machines that are gone included."""
        self._play(now_s)
        return float(summed(self._charge(each) for each in self._instances.values()))

    def bills_usd(self, now_s: float) -> dict[str, float]:
        """The same by node; those that never booted cost nothing."""
        self._play(now_s)
        return {node: float(self._charge(each)) for node, each in self._instances.items()}

    # --- events ---

    def _set(self, timer: _Timer) -> None:
        heappush(self._timers, timer)

    def _play(self, now_s: float) -> None:
        if not self._now_s <= now_s < math.inf:
            raise ValueError(
                f"time {now_s} comes after {self._now_s}: a cloud's time goes on, and never back"
            )
        while self._timers and self._timers[0].at_s <= now_s:
            timer = heappop(self._timers)
            event = None if timer.is_moot else timer.act(timer.at_s)
            if event is not None:
                heappush(self._unreported, (timer, event))
        self._now_s = now_s

    def _step(self, at_s: float, step: SetPrice | SetCapacity | Reclaim) -> CloudEvent | None:
        if isinstance(step, SetPrice):
            self._prices[step.type] = self._prices[step.type].changed(at_s, step.usd_per_h)
            return PriceChanged(at_s, step.type, step.usd_per_h)
        if isinstance(step, SetCapacity):
            self._capacity[step.type] = step.capacity
            return None
        running = [
            each
            for each in self._instances.values()
            if each.type == step.type and each.up_at_s <= at_s < each.ended_at_s and not each.noticed
        ]
        running.sort(key=lambda each: (each.up_at_s, each.number))
        for instance in running[: step.count]:
            self._give_notice(at_s, instance)
        return None

    def _answer(self, at_s: float, request: RequestId, count: int) -> CloudEvent | None:
        if self._requests[request] is not None:
            return None  # withdrawn before it was handled
        refused = self._grant(at_s, request, count)
        return refused and Failed(at_s, request, None, refused.why, refused.text)

    def _grant(self, at_s: float, request: RequestId, count: int) -> NoCapacity | None:
        """Hold so many machines and boot them, if they can be had."""
        capacity = self._capacity[request.type]
        free = math.inf if capacity is None else capacity - self._in_use(at_s, request.type)
        if count > free:
            text = f"no capacity: {count} {request.type} asked for, {max(0, free)} of {capacity} free"
            return NoCapacity(request.type, count, "capacity", text)
        used = sum(self._in_use(at_s, each) for each in self._types)
        if self._quota is not None and used + count > self._quota:
            text = f"over the quota: {count} {request.type} asked for, {used} of {self._quota} machines held"
            return NoCapacity(request.type, count, "quota", text)
        self._requests[request] = [self._make(at_s, request) for _ in range(count)]
        return None

    def _make(self, at_s: float, request: RequestId) -> _Instance:
        offered, number = self._types[request.type], self._made[request.type]
        boot_s, fails, life_s = draw(offered, self._seed, number)
        made = _Instance(f"{request.type}-{number}", request.type, number, request, at_s, fails, life_s)
        if not fails:
            made.charged_since_s = offered.billing.since_s(at_s, math.inf)
        self._instances[made.node] = made
        self._made[request.type] += 1
        self._held[request.type] += 1
        self._later(at_s + boot_s, _BOOT, made, self._boot)
        return made

    def _later(
        self, at_s: float, rank: int, of: _Instance, act: Callable[[float, _Instance], CloudEvent | None]
    ) -> None:
        self._set(_Timer(at_s, rank, of.type, of.number, lambda at_s: act(at_s, of), of))

    def _boot(self, at_s: float, instance: _Instance) -> CloudEvent | None:
        if instance.fails:
            self._end(at_s, instance)
            return Failed(at_s, instance.request, instance.node, "boot", f"{instance.node} did not boot")
        offered = self._types[instance.type]
        instance.charged_since_s = offered.billing.since_s(instance.requested_at_s, at_s)
        if offered.setup_s == 0:
            return self._set_up(at_s, instance)
        self._later(at_s + offered.setup_s, _BOOT, instance, self._set_up)
        return None

    def _set_up(self, at_s: float, instance: _Instance) -> CloudEvent:
        instance.up_at_s = at_s
        if instance.life_s < math.inf:
            self._later(at_s + instance.life_s, _TAKE, instance, self._give_notice)
        return Booted(at_s, instance.request, self._machine(instance))

    def _give_notice(self, at_s: float, instance: _Instance) -> None:
        if not instance.noticed:
            instance.noticed = True
            self._later(at_s, _NOTICE, instance, self._tell_notice)

    def _tell_notice(self, at_s: float, instance: _Instance) -> CloudEvent:
        gone_at_s = at_s + self._types[instance.type].notice_s
        self._later(gone_at_s, _RECLAIM, instance, self._reclaim)
        return ReclaimNotice(at_s, instance.node, gone_at_s)

    def _reclaim(self, at_s: float, instance: _Instance) -> CloudEvent:
        self._end(at_s, instance)
        return Reclaimed(at_s, instance.node)

    def _release(self, at_s: float, id: RequestId | str) -> None:  # noqa: A002
        if isinstance(id, RequestId):
            for instance in self._requests[id] or ():
                self._end(at_s, instance, self._types[instance.type].release_s)
            self._requests[id] = self._requests[id] or []
        else:
            instance = self._instances[id]
            self._end(at_s, instance, self._types[instance.type].release_s)

    def _end(self, at_s: float, instance: _Instance, charged_on_s: float = 0.0) -> None:
        if instance.ended_at_s == math.inf:
            instance.ended_at_s, instance.charged_until_s = at_s, at_s + charged_on_s
            self._held[instance.type] -= 1
            last_s, count = self._freed[instance.type]
            self._freed[instance.type] = (at_s, count + 1 if last_s == at_s else 1)

    # --- state ---

    def _known(self, type: str) -> None:  # noqa: A002
        if type not in self._types:
            raise Unknown(f"there is no instance type {type!r}; there are {', '.join(self._types) or 'none'}")

    def _delay_s(self, now_s: float) -> float:
        current = [each for each in self._troubles if each.at_s <= now_s < each.until_s]
        if any(isinstance(each, Outage) for each in current):
            raise CloudError("the cloud's API answers with an error; try again later")
        return max((each.delay_s for each in current if isinstance(each, Slow)), default=0.0)

    def _in_use(self, at_s: float, type: str) -> int:  # noqa: A002
        freed_at_s, count = self._freed[type]
        return self._held[type] + (count if freed_at_s == at_s else 0)

    def _sorted(self, some: Iterable[_Instance]) -> list[Machine]:
        held = [each for each in some if each.ended_at_s == math.inf]
        return [self._machine(each) for each in sorted(held, key=lambda each: (each.type, each.number))]

    def _machine(self, instance: _Instance) -> Machine:
        kind = self._types[instance.type]
        price = self._prices[instance.type].latest
        return Machine(
            instance.node,
            self.kind,
            kind.type,
            kind.cpu,
            kind.memory_gib,
            kind.gpu,
            price,
            labels=kind.labels,
            family=kind.family,
        )

    def _charge(self, instance: _Instance) -> Fraction:
        until_s = min(instance.charged_until_s, self._now_s)
        billing, prices = self._types[instance.type].billing, self._prices[instance.type]
        return lease_usd(billing, prices, instance.charged_since_s, until_s)
