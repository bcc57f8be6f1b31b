"""A pool's play-outs share the room that they are played in, one after the other, and show nothing of each other."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest

from betimes.policies import parse_policy
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
            what.wanted = [wanted(coming + k, luck) for k in range(luck.randrange(3))]
            live += [one.job for one in what.wanted]
            coming += len(what.wanted)
        for engine in (used, fresh):
            engine.happen(now_s, what)
        more = wanted(coming, luck) if luck.random() < 0.3 else None
        fresh._spare = None
        np.testing.assert_equal(told(used.foresee(now_s, more)()), told(fresh.foresee(now_s, more)()))


def test_play_outs_that_go_on_at_once_do_not_meet() -> None:
    luck, engine = random.Random(5), pool("fifo")
    engine.happen(0.0, Inputs(wanted=[wanted(job, luck) for job in range(40)]))
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
        0.0, Inputs(wanted=[JobRequest(1, 2, 2, "linear", 10.0), JobRequest(2, 1, 1, "linear", 5.0)])
    )
    granted = [move.job for one in started for move in one.moves if isinstance(move, Grant)]
    stuck = told(engine.foresee(0.0)())
    assert np.isnan(stuck[2]).any(), granted
    engine.happen(1.0, Inputs(done=[1]))
    after = engine.foresee(1.0)()
    assert (after.job, np.isfinite(after.finish_s).tolist()) == ([2], [True])
