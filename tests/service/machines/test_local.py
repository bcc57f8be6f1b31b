"""This machine as a node."""

from __future__ import annotations

import logging
import math
import os

import psutil
import pytest

from betimes.service.machines.cgroups import Limits
from betimes.service.machines.gpus import FoundGpus, Gpu
from betimes.service.machines.local import discover

NONE = FoundGpus((), "no-driver", "no GPUs: no NVIDIA driver is installed")
FREE = Limits()


def test_what_is_built_in_counts_where_nothing_limits_it() -> None:
    machine = discover(limits=FREE, gpus=NONE)
    assert (machine.name, machine.kind, machine.type, machine.gpu) == ("local", "local", "cpu", 0.0)
    assert machine.cpu == len(machine.cores) >= 1
    assert machine.memory_gib == psutil.virtual_memory().total / 2**30
    assert machine.usd_per_h is None


def test_limits_count() -> None:
    machine = discover(limits=Limits(0.5, 2**29), gpus=NONE)
    assert (machine.cpu, machine.memory_gib) == (0.5, 0.5)
    assert discover(limits=Limits(1e9, math.inf), gpus=NONE) == discover(limits=FREE, gpus=NONE)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="affinity cannot be set on this system")
def test_only_the_cores_of_the_affinity() -> None:
    allowed = os.sched_getaffinity(0)
    one = {min(allowed)}
    os.sched_setaffinity(0, one)
    try:
        machine = discover(limits=FREE, gpus=NONE)
    finally:
        os.sched_setaffinity(0, allowed)
    assert (machine.cpu, machine.cores) == (1.0, tuple(one))


def test_gpus_and_what_the_log_says(caplog: pytest.LogCaptureFixture) -> None:
    gpus = (
        Gpu("GPU-a", "A100", 0, "GPU-a"),
        Gpu("GPU-b", "A100", 1, "GPU-b"),
        Gpu("GPU-c", "T4", 2, "GPU-c"),
    )
    faulty = FoundGpus(gpus, "found", "GPUs: 2 x A100 + 1 x T4", ("GPU 3 is left out: GPU is lost",))
    with caplog.at_level(logging.INFO):
        machine = discover("box", 3.5, FREE, faulty)
    assert (machine.name, machine.type, machine.gpu, machine.usd_per_h) == ("box", "A100 + T4", 3.0, 3.5)
    assert machine.gpu_ids == ("GPU-a", "GPU-b", "GPU-c")
    said = {record.getMessage(): record.levelname for record in caplog.records}
    assert said["GPUs: 2 x A100 + 1 x T4"] == "INFO"
    assert said["GPU 3 is left out: GPU is lost"] == "WARNING"


@pytest.mark.parametrize(("state", "level"), [("none", "INFO"), ("no-driver", "INFO"), ("error", "WARNING")])
def test_a_broken_driver_is_a_warning_and_none_is_not(
    state: str, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert discover(limits=FREE, gpus=FoundGpus((), state, "why")).gpu == 0.0  # pyright: ignore[reportArgumentType]
    assert [record.levelname for record in caplog.records if record.getMessage() == "why"] == [level]


def test_this_machine_as_it_is() -> None:
    machine = discover()
    assert 0 < machine.cpu <= len(machine.cores)
    assert machine.memory_gib > 0
    assert machine.gpu == len(machine.gpu_ids)
