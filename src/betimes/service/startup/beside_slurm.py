"""Starts a service that watches an existing Slurm: its nodes, what is learned from its accounting, and the poller."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np

from betimes.errors import BetimesError, Conflict, SlurmError
from betimes.foresight.learn import learn
from betimes.service.machines.machine import Machine
from betimes.service.runtime.controller import Controller
from betimes.service.runtime.promises import Promises
from betimes.service.runtime.slurm_source import KIND, Names, Observation, SlurmSource, machines_of_slurm
from betimes.service.scheduling.ledger import Ledger
from betimes.service.startup.config import ServiceConfig
from betimes.slurm.commands import Commands
from betimes.slurm.history import read_history
from betimes.slurm.picture import Looks
from betimes.slurm.queue import POLICY, queue_of
from betimes.workload import Workload

COMPILED_S = 0.2  # between two looks whether the policy is compiled

log = logging.getLogger(__name__)


def nodes_of_slurm(folder: Path | None) -> list[Machine]:
    """Slurm's nodes. Raises SlurmError where it does not answer, or has none."""
    found = machines_of_slurm(Looks(Commands(folder)).machines())
    if not found:
        raise SlurmError("scontrol shows no node with a CPU; `betimes doctor --slurm` shows what can be read")
    return found


def check_history(ledger: Ledger, config: ServiceConfig) -> None:
    """Raise Conflict where a service would watch Slurm with a state that decides, or the other way round."""
    watched = any(node.machine.kind == KIND for node in ledger.nodes.values())
    if ledger.nodes and watched is not config.slurm:
        what = (
            "has watched Slurm; start it with --slurm"
            if watched
            else "runs jobs itself; start it without --slurm"
        )
        raise Conflict(f"the service of {config.state} {what}, or take another state directory (--service)")


async def watch_slurm(
    controller: Controller, promises: Promises, config: ServiceConfig, key: bytes, *, known: bool
) -> None:
    """Learn from accounting if this is the first start, and then look again and again."""
    while controller.scheduler.stands_by:  # nothing is played out until the policy is compiled
        await asyncio.sleep(COMPILED_S)
    looks = Looks(Commands(config.slurm_bin))
    is_hashed = config.user_names == "hashed"
    if config.user_names == "auto" and not config.own_jobs_only:
        is_hashed = await _hides(looks, config)
    names = Names(key if is_hashed else None)
    observation = controller.settings.observation
    assert isinstance(observation, Observation), "it was made with the engine's settings"
    observation.names = names
    if not known and config.history_s:
        try:
            learned = await asyncio.to_thread(taught, looks, config.history_s, config.level, names)
        except BetimesError as error:
            log.warning(
                "nothing is learned from earlier jobs (%s); promises have no interval at first", error
            )
        else:
            await controller.ask(
                "what accounting teaches", lambda scheduler: scheduler.observed.learned(*learned)
            )
    source = SlurmSource(controller, promises, looks, observation, config.poll_s)
    controller.notes = source.notes
    await source.run()


async def _hides(looks: Looks, config: ServiceConfig) -> bool:
    """Whether Slurm hides users from readers who see the jobs of others. Waits until Slurm answers."""
    while True:
        try:
            machines = await asyncio.to_thread(looks.machines)
        except SlurmError as error:
            log.warning("%s; nothing is watched until it answers", error)
            await asyncio.sleep(config.poll_s)
        else:
            if is_hidden := machines.hides_users and not machines.hides_jobs:
                log.warning(
                    "Slurm hides users from others (PrivateData=users), and this service has other readers: it keeps "
                    "hashes in place of names (--user-names shown keeps the names)"
                )
            return is_hidden


def taught(looks: Looks, history_s: float, level: float, names: Names) -> tuple[bytes, int]:
    """The model of promises that the jobs of accounting teach, so far back, and how many these are."""
    picture = looks.look()
    cluster = queue_of(picture, looks.machines(picture)).cluster
    history = _named(read_history(looks.commands, picture.at - history_s), names)
    learned = learn(history, POLICY, cluster=cluster, level=level, on_wide="drop")
    for job_id in list(learned.model.run_times.active):
        learned.model.forget(job_id)
    return learned.model.to_bytes(), len(history)


def _named(history: Workload, names: Names) -> Workload:
    """A history with users and jobs named as in the log, its instants in seconds since 1970."""
    begin_s = float(history.notes.header.get("UnixStartTime", 0.0))
    users = history.user_names or tuple(str(user) for user in range(int(history.user.max(initial=0)) + 1))
    jobs = (
        [names.of(str(name)) for name in history.extra["JobName"].tolist()]
        if "JobName" in history.extra
        else []
    )
    return replace(
        history,
        submit_s=history.submit_s + begin_s,
        user_names=tuple(names.of(user) for user in users),
        extra=history.extra | ({"JobName": np.array(jobs)} if jobs else {}),
    )
