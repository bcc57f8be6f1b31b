"""Which cores and GPUs runs get."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from betimes.service.executors.devices import Assigned, Devices
from betimes.service.scheduling.events import RunId

A, B, C = RunId(1, 1), RunId(2, 1), RunId(3, 1)


def test_the_lowest_free_cores_are_taken_and_come_back() -> None:
    devices = Devices(range(4), ())

    assert devices.take(A, 2, 0).cpus == (0, 1)
    assert devices.take(B, 1, 0).cpus == (2,)
    devices.give_back(A)
    assert devices.take(C, 3, 0).cpus == (0, 1, 3)


def test_only_whole_amounts_are_pinned() -> None:
    devices = Devices(range(4), ())

    assert devices.take(A, 1.5, 0).cpus == ()
    assert devices.take(B, 4 * 0.25, 0).cpus == (0,)
    assert devices.take(C, 0, 0).cpus == ()


def test_a_run_that_finds_too_few_cores_is_not_pinned() -> None:
    devices = Devices(range(2), ())
    devices.take(A, 1, 0)

    assert devices.take(B, 2, 0).cpus == ()


def test_whole_gpus_are_not_shared_and_shares_are_packed() -> None:
    devices = Devices((), ("x", "y", "z"))

    assert devices.take(A, 0, 0.5).gpus == {"x": 0.5}
    assert devices.take(B, 0, 1).gpus == {"y": 1.0}
    assert devices.take(C, 0, 0.5).gpus == {"x": 0.5}
    assert devices.take(RunId(4, 1), 0, 0.25).visible_gpus == "z"


def test_more_than_one_gpu_is_whole_ones_and_a_share() -> None:
    devices = Devices((), ("x", "y", "z"))
    devices.take(A, 0, 0.5)

    assert devices.take(B, 0, 2.5).gpus == {"x": 0.5, "y": 1.0, "z": 1.0}


def test_where_too_little_is_left_the_freest_gpus_are_shared() -> None:
    devices = Devices((), ("x", "y"))
    devices.hold(A, Assigned((), {"x": 0.5}))
    devices.hold(B, Assigned((), {"y": 0.5}))

    assert set(devices.take(C, 0, 1).gpus) == {"x", "y"}


def test_a_run_that_is_resized_keeps_what_it_can() -> None:
    devices = Devices(range(4), ("x", "y", "z"))
    devices.take(A, 1, 1)
    devices.take(B, 1, 1)
    devices.give_back(A)

    assert devices.take(B, 2, 2) == Assigned((0, 1), {"x": 1.0, "y": 1.0})
    assert devices.take(B, 1, 1) == Assigned((0,), {"x": 1.0})


def test_devices_of_before_are_held_again() -> None:
    devices = Devices(range(4), ("x", "y"))
    devices.hold(A, Assigned((0, 2), {"x": 1.0}))

    assert devices.take(B, 2, 1) == Assigned((1, 3), {"y": 1.0})
    assert devices.held(A) == Assigned((0, 2), {"x": 1.0})
    assert devices.held(C) == Assigned()


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from([0, 0.5, 1, 2]), st.sampled_from([0, 0.25, 0.5, 1, 2]))
    )
)
def test_nothing_is_given_twice_as_long_as_there_is_enough(wishes: list[tuple[int, float, float]]) -> None:
    devices = Devices(range(20), tuple(f"gpu-{number}" for number in range(20)))
    held: dict[RunId, Assigned] = {}
    for number, cpu, gpu in wishes:
        run = RunId(number, 1)
        held[run] = devices.take(run, cpu, gpu)
        assert len(held[run].cpus) == (cpu if cpu == round(cpu) else 0)
        assert sum(held[run].gpus.values()) == gpu
    cores = [core for one in held.values() for core in one.cpus]
    assert len(cores) == len(set(cores))
    for name in devices.gpus:
        assert sum(one.gpus.get(name, 0) for one in held.values()) <= 1
