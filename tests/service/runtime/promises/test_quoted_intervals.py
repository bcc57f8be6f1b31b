"""The intervals of quotes: of each option where machines can be rented, and counted from the quote on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from betimes.cluster import read_cluster
from betimes.service.executors.virtual import WORK
from betimes.service.machines.machine import Machine
from betimes.service.runtime.clock import VirtualClock
from betimes.service.spec.job_spec import JobSpec
from betimes.service.startup.in_memory import assembled
from betimes.testing import InMemoryService

CLUSTER = """
[[nodes]]
type = "owned"
count = 1
cpu = 4
memory_gib = 16
usd_per_h = 0.1

[[offers]]
type = "big"
cpu = 4
memory_gib = 16
usd_per_h = 1.0
boot_s = 60
"""


def test_options_have_the_intervals_of_their_ends(tmp_path: Path) -> None:
    """Jobs take from half to twice their estimate."""
    (tmp_path / "mixed.toml").write_text(CLUSTER)
    with InMemoryService(read_cluster(tmp_path / "mixed.toml"), policy="compound:t=15m,b=4h") as service:
        for number in range(30):
            service.submit(command=["x"], estimate_s=1000.0, work_s=1000.0 * 2.0 ** (number % 3 - 1))
            service.finish()
        service.submit(command=["x"], estimate_s=5000.0, cpu=4.0)
        quote = service.quote(command=["x"], estimate_s=1000.0)
    assert quote.level == 0.8
    waits, rents = quote.options
    assert (waits.what, rents.what) == ("wait", "rent now")
    for option in quote.options:
        assert option.finish_low_at is not None
        assert option.finish_median_at is not None
        assert option.finish_high_at is not None
        promised_s = option.finish_at - quote.made_at
        assert option.finish_low_at - quote.made_at == pytest.approx(promised_s / 2, rel=0.01)
        assert option.finish_median_at - quote.made_at == pytest.approx(promised_s, rel=0.01)
        assert option.finish_high_at - quote.made_at == pytest.approx(promised_s * 2, rel=0.01)
        if option.is_taken:
            assert option.finish_high_at == quote.finish_high_at


def test_the_interval_of_a_quote_is_counted_from_the_quote_on(tmp_path: Path) -> None:
    """Nothing has happened for an hour when it is asked for: all jobs have taken twice their estimate."""
    machine = Machine("a", "virtual", "plain", 4.0, 16.0, 0.0)

    async def play() -> None:
        clock = VirtualClock(0.0, 0.0)
        async with assembled([machine], "fifo", tmp_path, clock=clock) as parts:
            await parts.settle()
            for number in range(24):
                spec = JobSpec(command=["x"], workdir="/", estimate_s=100.0, env={WORK: "200"})
                await parts.backend.submit([spec], "ann")
                await parts.advance_to(1000.0 * (number + 1))
            clock.advance_to(clock.now_s() + 3600.0)
            quote = await parts.backend.quote(JobSpec(command=["x"], workdir="/", estimate_s=100.0), "ann")
            assert quote.finish_low_at is not None
            assert quote.finish_low_at - quote.made_at == pytest.approx(200.0, rel=0.01)

    asyncio.run(play())


@pytest.mark.parametrize("array", ["1-9", "1-9%2"])
def test_an_array_is_quoted_and_promised_the_interval_of_its_last_end(array: str) -> None:
    """Jobs take from half to twice their estimate; the elements of the array have four cores."""
    with InMemoryService(policy="easy") as service:
        for number in range(30):
            service.submit(command=["x"], estimate_s=1000.0, work_s=1000.0 * 2.0 ** (number % 3 - 1))
            service.finish()
        asked = service.quote(command=["x"], estimate_s=1000.0, array=array)
        taken = service.submit(command=["x"], estimate_s=1000.0, array=array)
        promises = [service.job(number).quotes[0] for number in taken.job_ids]
    assert taken.quote is not None
    assert taken.quote.level == asked.level == 0.8
    for name in ("finish_at", "finish_low_at", "finish_median_at", "finish_high_at"):
        latest = max(getattr(one, name) for one in promises)
        assert getattr(taken.quote, name) == getattr(asked, name) == latest
    assert (
        taken.quote.start_high_at == asked.start_high_at == min(one.start_high_at or 0.0 for one in promises)
    )
    single_s = min((one.finish_high_at or 0.0) - one.made_at for one in promises)
    assert (asked.finish_high_at or 0.0) - asked.made_at > 2.0 * single_s
