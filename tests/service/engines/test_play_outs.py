"""A pool's play-outs share the room that they are played in, one after the other, and show nothing of each other."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest

from betimes.policies import parse_policy
from betimes.policies.hooks import ASK, IN_ORDER
from betimes.service.engines import pool as live_pool
from betimes.service.engines.messages import Foreseen, Grant, Inputs, JobRequest
from betimes.service.engines.pool import LivePool

CORES = 6


def pool(policy: str) -> LivePool:
    return LivePool(parse_policy(policy), CORES, np.array([[0, 4000, 0], [0, 2000, 0]]))


def wanted(job: int, luck: random.Random) -> JobRequest:
    least = luck.choice((1, 1, 2))
    return JobRequest(job, least, least + luck.randrange(3), "linear", luck.uniform(5.0, 50.0), cpu=1.0)


def told(foreseen: Foreseen) -> tuple[list[int], list[float], list[float]]:
    return foreseen.job, foreseen.start_s.tolist(), foreseen.finish_s.tolist()


def done_by(foreseen: Foreseen, more: JobRequest | None) -> dict[int, tuple[float, float]]:
    """Start and finish of the jobs that are done when the one more is, where a play-out may end; else of all."""
    times = {job: foreseen.of(job) for job in foreseen.job}
    end_s = np.inf if more is None else times[more.job][1]
    return {
        job: each for job, each in times.items() if not each[1] > end_s and not (more and np.isnan(each[1]))
    }


@pytest.mark.parametrize("policy", ["fifo", "srsf", "max-min"])
def test_a_play_out_is_the_same_in_used_room(policy: str) -> None:
    luck, used, fresh = random.Random(3), pool(policy), pool(policy)
    live, coming, now_s = list[int](), 0, 0.0
    for step in range(120):
        now_s += luck.uniform(0.0, 4.0)
        what = Inputs()
        if live and luck.random() < 0.5:
            what.done.append(live.pop(luck.randrange(len(live))))
        if step < 90:  # more than the slots that there are first
            what.requests = [wanted(coming + k, luck) for k in range(luck.randrange(3))]
            live += [one.job for one in what.requests]
            coming += len(what.requests)
        for engine in (used, fresh):
            engine.happen(now_s, what)
        more = wanted(coming, luck) if luck.random() < 0.3 else None
        fresh.driver.spare = None
        np.testing.assert_equal(told(used.foresee(now_s, more)()), told(fresh.foresee(now_s, more)()))


@pytest.mark.parametrize("policy", ["fifo", "srsf", "max-min", "las", "afs", "themis"])
def test_a_play_out_for_one_more_job_may_end_with_it(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to that end it is the whole one, to the last bit."""
    cut = 0
    for seed in range(8):
        luck, engine = random.Random(seed), pool(policy)
        for job in range(30):
            engine.happen(2.0 * job, Inputs(requests=[wanted(job, luck)]))
        more = wanted(99, luck)
        asked = engine.foresee(60.0, more)()
        with monkeypatch.context() as patched:
            patched.setattr(LivePool, "_stops", lambda *_: [np.inf])
            whole = engine.foresee(60.0, more)()
        assert done_by(asked, more) == done_by(whole, more)
        assert np.isfinite(whole.finish_s).all()
        cut += int(np.isnan(asked.finish_s).sum())
    assert cut > 0 or policy == "fifo"


def test_play_outs_that_go_on_at_once_do_not_meet() -> None:
    luck, engine = random.Random(5), pool("fifo")
    engine.happen(0.0, Inputs(requests=[wanted(job, luck) for job in range(40)]))
    expected = told(engine.foresee(0.0)())
    plays = [engine.foresee(0.0) for _ in range(4)]
    found: list[Foreseen] = []
    threads = [threading.Thread(target=lambda play=play: found.append(play())) for play in plays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for each in found:
        np.testing.assert_equal(told(each), expected)


def test_a_play_out_whose_jobs_never_start_leaves_nothing_behind() -> None:
    engine = LivePool(parse_policy("fifo"), CORES, np.array([[0, 1000, 0]]))
    started = engine.happen(
        0.0, Inputs(requests=[JobRequest(1, 2, 2, "linear", 10.0), JobRequest(2, 1, 1, "linear", 5.0)])
    )
    granted = [move.job for one in started for move in one.instructions if isinstance(move, Grant)]
    stuck = told(engine.foresee(0.0)())
    assert np.isnan(stuck[2]).any(), granted
    engine.happen(1.0, Inputs(done=[1]))
    after = engine.foresee(1.0)()
    assert (after.job, np.isfinite(after.finish_s).tolist()) == ([2], [True])


SHAPES = {
    "one demand": ([[0, 4000, 0], [0, 2000, 0], [0, 3000, 0]], [(1.0, 0.0)]),
    "some ask for less": (
        [[0, 4000, 8192], [0, 2000, 4096], [0, 3000, 9000]],
        [(1.0, 2.0), (0.3, 0.0), (0.5, 2.0)],
    ),
    "memory runs out first": ([[0, 4000, 4096], [0, 2000, 4096], [0, 3000, 4096]], [(1.0, 0.0), (1.0, 3.0)]),
}


@pytest.mark.parametrize("restart_s", [0.0, 3.0])
@pytest.mark.parametrize(
    ("shape", "quick"), [("one demand", 1), ("some ask for less", 1), ("memory runs out first", 0)]
)
@pytest.mark.parametrize("seed", range(4))
def test_a_queue_handed_down_is_the_queue_that_is_asked_about(
    seed: int, shape: str, quick: int, restart_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: list[bool] = []
    kernel = live_pool._play_in_order
    monkeypatch.setattr(live_pool, "_play_in_order", lambda copy: handed.append(kernel(copy)) or handed[-1])
    capacity, demands = SHAPES[shape]
    luck, live, coming, now_s = random.Random(seed), list[int](), 0, 0.0
    engine = LivePool(parse_policy("fifo"), 9, np.array(capacity), restart_s=restart_s)
    for _ in range(80):
        now_s += luck.choice((0.0, 1.0, luck.uniform(0.0, 4.0)))
        what = Inputs()
        if live and luck.random() < 0.5:
            what.done.append(live.pop(luck.randrange(len(live))))
        if live and luck.random() < 0.2:
            what.believed.append((luck.choice(live), luck.uniform(1.0, 30.0)))
        if live and luck.random() < 0.1:
            engine.catch_up(now_s)
            engine.lose(live[0], now_s)
            what.look = True
        if luck.random() < 0.1:
            is_up = luck.random() < 0.5
            engine.open_node(1, is_up)
            engine.set_units(9 if is_up else 7)
            what.look = True
        for _ in range(luck.randrange(3)):
            cpu, memory_gib = luck.choice(demands)
            seconds = luck.choice((2.0, 5.0, luck.uniform(5.0, 50.0)))
            what.requests.append(
                JobRequest(
                    coming, 1, 1 + luck.randrange(4), "linear", seconds, cpu=cpu, memory_gib=memory_gib
                )
            )
            live.append(coming)
            coming += 1
        engine.happen(now_s, what)
        more = JobRequest(coming, 1, 2, "linear", 7.0, cpu=1.0) if luck.random() < 0.3 else None
        found = done_by(engine.foresee(now_s, more)(), more)
        engine.playout = ASK
        np.testing.assert_equal(found, done_by(engine.foresee(now_s, more)(), more))
        engine.playout = IN_ORDER
    assert handed.count(True) >= quick * 40, handed.count(True)
