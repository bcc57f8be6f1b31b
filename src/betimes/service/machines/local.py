"""The part of this machine that the service may use: cores, memory and GPUs."""

from __future__ import annotations

import logging
import os

import psutil

from betimes.service.machines.cgroups import Limits, read_limits
from betimes.service.machines.gpus import FoundGpus, find_gpus
from betimes.service.machines.machine import Machine

_LOG = logging.getLogger(__name__)
_GIB = 2**30
NAME = "local"  # not the host's name, which may change between two starts of the service


def discover(
    name: str = NAME,
    usd_per_h: float | None = None,
    limits: Limits | None = None,
    gpus: FoundGpus | None = None,
) -> Machine:
    """The resources that this process may use, within its affinity and its control groups' limits.

    The result is logged: GPUs that fail as warnings, their plain absence as information. Never raises for missing
    resources. Call it in a thread: a driver may take its time.
    """
    limits = read_limits() if limits is None else limits
    gpus = find_gpus() if gpus is None else gpus
    _LOG.log(logging.WARNING if gpus.state == "error" else logging.INFO, "%s", gpus.message)
    for fault in gpus.faults:
        _LOG.warning("%s", fault)
    cores = available_cores()
    machine = Machine(
        name=name,
        kind="local",
        type=" + ".join(dict.fromkeys(gpu.model for gpu in gpus.gpus)) or "cpu",
        cpu=min(float(len(cores)), limits.cpu),
        memory_gib=min(float(psutil.virtual_memory().total), limits.memory_bytes) / _GIB,
        gpu=float(len(gpus.gpus)),
        usd_per_h=usd_per_h,
        cores=cores,
        gpu_ids=tuple(gpu.id for gpu in gpus.gpus),
    )
    _LOG.info("this machine: %g cores, %.1f GiB, %g GPUs", machine.cpu, machine.memory_gib, machine.gpu)
    return machine


def available_cores() -> tuple[int, ...]:
    """The numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(psutil.cpu_count() or 1))
