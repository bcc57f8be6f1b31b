"""Closed forms of the waiting policies for Poisson arrivals and exponential run times (spec/waiting.md A.9).

All but LJW and compound are exact. Waits are in the unit of 1 / mu; prices are relative to one machine on demand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Form:
    """Mean wait, the fraction of jobs that are rented for, and the price of a unit of work."""

    wait: float
    rented_frac: float
    price: float


@dataclass(frozen=True)
class Queue:
    """`servers` machines, arrivals at rate `arrival`, services at rate `service`, unit prices owned and on demand."""

    arrival: float
    service: float
    servers: int
    owned: float = 0.4
    on_demand: float = 1.0

    @property
    def load(self) -> float:
        return self.arrival / (self.servers * self.service)

    @property
    def drain(self) -> float:
        """The rate at which the queue empties (delta)."""
        return self.servers * self.service - self.arrival

    @property
    def erlang_b(self) -> float:
        offered, blocked = self.arrival / self.service, 1.0
        for number in range(1, self.servers + 1):
            blocked = offered * blocked / (number + offered * blocked)
        return blocked

    @property
    def erlang_c(self) -> float:
        return self.erlang_b / (1.0 - self.load * (1.0 - self.erlang_b))

    def form(self, wait: float, rented_frac: float) -> Form:
        return Form(wait, rented_frac, self.owned / self.load + rented_frac * self.on_demand)


def njw(queue: Queue) -> Form:
    return queue.form(0.0, queue.erlang_b)


def ajw(queue: Queue) -> Form:
    return queue.form(queue.erlang_c / queue.drain, 0.0)


def sww(queue: Queue, patience: float) -> Form:
    full = queue.servers * queue.service
    beta = full * queue.erlang_b / (1.0 - queue.erlang_b)
    delta, arrival = queue.drain, queue.arrival
    if queue.load == 1.0:
        at_once = arrival / (arrival + beta * (1.0 + arrival * patience))
        wait = at_once * beta * patience**2 / 2.0
    else:
        left = math.exp(-delta * patience)
        at_once = 1.0 / (1.0 + beta * (1.0 / delta - left * arrival / (delta * full)))
        wait = at_once * beta * (1.0 - left - delta * patience * left) / delta**2
    return queue.form(wait, at_once * beta * math.exp(-delta * patience) / full)


def ajw_t(queue: Queue, patience: float) -> Form:
    found = sww(queue, patience)
    return Form(found.wait + found.rented_frac * patience, found.rented_frac, found.price)


def ljw(queue: Queue, short: float) -> Form:
    return _long_ones(queue, short, None)


def compound(queue: Queue, short: float, patience: float) -> Form:
    return _long_ones(queue, short, patience)


def _long_ones(queue: Queue, short: float, patience: float | None) -> Form:
    """Allen and Cunneen's approximation for the long jobs; what is short is rented for."""
    share = math.exp(-queue.service * short)
    stretch = 1.0 + queue.service * short
    of_long = Queue(
        queue.arrival * share, queue.service / stretch, queue.servers, queue.owned, queue.on_demand
    )
    inner = ajw(of_long) if patience is None else sww(of_long, patience)
    work = share * stretch
    return Form(
        share * inner.wait * (stretch**-2 + 1.0) / 2.0,
        1.0 - share + share * inner.rented_frac,
        work * inner.price + (1.0 - work) * queue.on_demand,
    )
