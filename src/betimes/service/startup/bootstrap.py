"""Assembles the service: a store, a clock, nodes, executors, the controller, and the API."""

from __future__ import annotations

import asyncio
import getpass
import logging
import math
import os
import secrets
import stat
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from betimes.cluster import read_cluster
from betimes.errors import Conflict, InputError, ServiceError
from betimes.policies.loading import only_policies_below
from betimes.policies.nodes.heterogeneous_wfq import where_alike
from betimes.service.access.auth import RunTokens, Tokens, operator_token
from betimes.service.access.host_names import is_loopback
from betimes.service.access.peers import Peers, check_local
from betimes.service.access.rights import Rights
from betimes.service.access.unix_users import Owners, owners_of_jobs, why_others_cannot_run
from betimes.service.api.app import create_app
from betimes.service.compiling.kernels import Kernels
from betimes.service.executors.local import LocalExecutor
from betimes.service.executors.prologs import Prologs
from betimes.service.executors.ray.executor import RayExecutor
from betimes.service.executors.ray.joining import Change, JoinedCluster, RentedNodes, join
from betimes.service.executors.rented.agents import OwnNodesExecutor
from betimes.service.executors.rented.local_cloud import LOCAL_OFFERS, open_local
from betimes.service.executors.rented.remote_cloud import open_remote
from betimes.service.executors.rented.scripts import Scripts
from betimes.service.machines.budgets import FleetLimits
from betimes.service.machines.cloud_file import cloud_of, read_cloud, read_offers
from betimes.service.machines.fleet_table import fleet_settings
from betimes.service.machines.local import discover
from betimes.service.machines.machine import HERE, REAL, Machine, machines_of_cluster
from betimes.service.machines.provider import POLL_S
from betimes.service.runtime.admission import check_start
from betimes.service.runtime.adviser import LiveAdviser
from betimes.service.runtime.clock import Clock, VirtualClock
from betimes.service.runtime.controller import Controller
from betimes.service.runtime.launches import Launches
from betimes.service.runtime.node_health import NodeHealth
from betimes.service.runtime.notifications import UPTO, Notifier
from betimes.service.runtime.promises import Promises
from betimes.service.runtime.rentals import Rentals
from betimes.service.runtime.replay import Source
from betimes.service.runtime.requests import change_members
from betimes.service.runtime.retention import (
    EVENTS_KEPT,
    RUNS_KEPT,
    Retention,
    keep_up,
    keep_uploads,
    keep_uses,
)
from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.runtime.slurm_source import Observation
from betimes.service.runtime.submission_filter import SubmissionFilter
from betimes.service.runtime.tuner import LiveTuner
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.events import Ended, Event, RunId
from betimes.service.scheduling.job_states import Status
from betimes.service.startup.beside_slurm import check_history, nodes_of_slurm, watch_slurm
from betimes.service.startup.config import ServiceConfig
from betimes.service.startup.in_memory import admit_virtual_nodes
from betimes.service.startup.server import Encrypted, serve
from betimes.service.store.batch import Batch
from betimes.service.store.belonging import COPIED
from betimes.service.store.store import Store, default_url
from betimes.service.tuning.retune import Retune, parse_retune
from betimes.service.uploads.kept import Uploads, uploads_of
from betimes.slurm.queue import POLICY as SLURM_POLICY
from betimes.units import Keep

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger(__name__)

DEFAULT_POLICY = "fifo"
SECRET = "run_secret"


@dataclass
class Service:
    """A running service."""

    url: str
    token: str
    controller: Controller
    backend: ServiceBackend
    store: Store
    failed: asyncio.Future[None]  # done when the service cannot go on


@asynccontextmanager
async def running(config: ServiceConfig) -> AsyncIterator[Service]:
    """A service while this is entered; jobs go on afterwards. Raises InputError and ServiceError."""
    config = _described(config)
    _check_commands(config)
    settings, retune = _engine_settings(config), _retune(config)
    kernels = config.kernels or Kernels()
    config.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = stat.S_IMODE(config.state.stat().st_mode)
    # Jobs of other users pass through it, to their folders.
    passed_through = (os.geteuid() == 0 or config.local_users) and mode & 0o077 == 0o011
    if mode & 0o077 and not passed_through:
        message = "%s is open to others (mode %o); what jobs print and keep is not, but close it: chmod %s %s"
        # Others' jobs have to pass through it to their folders, and others to the socket.
        closed = "711" if config.local_users or (os.geteuid() == 0 and not config.run_as_me) else "700"
        log.warning(message, config.state, mode, closed, config.state)
    if config.local_users is not None and (why := why_others_cannot_run(sys.executable)):
        log.warning("%s", why)
    store = await asyncio.to_thread(
        Store.open,
        config.database or default_url(config.state),
        config.state,
        as_copy=config.as_copy,
        accepts_loss=config.accepts_loss,
    )
    try:
        with only_policies_below(config.policy_files):
            async with _opened(store, config, settings, retune, kernels) as service:
                yield service
    finally:
        await kernels.close()
        await asyncio.to_thread(store.close)


def _described(config: ServiceConfig) -> ServiceConfig:
    """The configuration with machines and cloud read from its files. Raises ClusterError."""
    if config.cluster is not None and (found := fleet_settings(config.cluster)):
        config = replace(config, cluster=None, **found)
    if config.cluster is not None:
        cluster = read_cluster(config.cluster)
        if cluster.groups and config.machines is None:
            config = replace(config, machines=machines_of_cluster(cluster))
        return replace(config, rents_from=cloud_of(cluster)) if cluster.offers else config
    if config.nodes is not None and config.machines is None:
        config = replace(config, machines=machines_of_cluster(read_cluster(config.nodes)))
    if config.fleet is not None:
        offers = LOCAL_OFFERS if config.cloud is None else read_offers(config.cloud)
        folder, (kind, _, scripts) = config.state / "rented", config.fleet.partition(":")
        if kind == "local":
            return replace(config, rents_from=open_local(offers, folder))
        if kind == "command":
            nodes = RentedNodes() if config.ray is not None else None
            names = nodes.names if nodes is not None else ()
            rents_from = open_remote(Scripts(Path(scripts), nodes), offers, folder, names)
            return replace(config, rents_from=rents_from, rented_nodes=nodes)
        from betimes.service.executors.rented.ec2 import Ec2, check_credentials  # others do not load it
        from betimes.service.executors.rented.ec2_file import read_ec2

        nodes = RentedNodes()
        ec2, offers = read_ec2(config.cloud or "", offers)
        check_credentials(ec2.region)
        rents_from = open_remote(Ec2(ec2, offers.offers, nodes), offers, folder, nodes.names)
        return replace(config, rents_from=rents_from, rented_nodes=nodes)
    return config if config.cloud is None else replace(config, rents_from=read_cloud(config.cloud))


def _check_commands(config: ServiceConfig) -> None:
    """Refuse commands for nodes where none is run on them. Raises InputError."""
    asked = {"--node-health": config.node_health, "--prolog": config.prolog, "--epilog": config.epilog}
    option = next((option for option, given in asked.items() if given is not None), None)
    kinds = {"--slurm": config.slurm or None, "--nodes": config.nodes, "--cluster": config.cluster}
    kinds |= {"--replay": config.arrivals}
    other = next((option for option, given in kinds.items() if given is not None), None)
    if option is not None and other is not None:
        instead = " (Slurm has HealthCheckProgram, Prolog and Epilog)" if config.slurm else ""
        raise InputError(f"{option}: with {other} no command is run on nodes; leave out {option}{instead}")


def _engine_settings(config: ServiceConfig) -> Settings:
    """The engines' settings. Raises InputError."""
    return Settings(
        restart_s=config.restart_s or 0.0,
        measures_restarts=config.restart_s is None,
        half_life_s=config.fair_share_s,
        resize_interval_s=config.resize_interval_s,
        resize_gain=config.resize_gain,
        level=config.level,
        budgets=config.budget,
        resources=config.resources,
        queues=config.queues,
        groups=config.groups,
        fleet=FleetLimits(config.most_machines, config.longest_lease_s),
        plans_aside=config.arrivals is None,  # a replay has the same result each time
        observation=Observation(config.own_jobs_only) if config.slurm else None,
    )


def _retune(config: ServiceConfig) -> Retune | None:
    return parse_retune(config.retune, config.retune_objective, config.retune_jobs, config.retune_apply)


@asynccontextmanager
async def _opened(
    store: Store, config: ServiceConfig, settings: Settings, retune: Retune | None, kernels: Kernels
) -> AsyncIterator[Service]:
    secret = store.meta(SECRET)
    if secret is None or store.meta(COPIED):  # runs of the original have its tokens
        secret = secrets.token_hex(32)
        store.commit(Batch(meta={SECRET: secret}))
    cluster = None
    if config.ray is not None:
        cluster = await join(config.ray, config.ray_share_frac, config.ray_open, secret, config.rented_nodes)
    try:
        recovered = await _recover(store, config, settings, kernels, bytes.fromhex(secret), cluster)
        served = _assemble(recovered, config, retune)
        async with _listening(served, recovered, config) as listener:
            await _go_on(served, recovered, config, listener.url)
            async with (
                _deciding(recovered, listener) as failed,
                Notifier(recovered.controller, config.notify, mail=config.mail_settings),
                NodeHealth(recovered.controller, config.node_health, config.node_health_every_s),
            ):
                token, controller = recovered.token, recovered.controller
                yield Service(listener.url, token, controller, served.backend, store, failed)
    finally:
        if cluster is not None:
            await cluster.close()


class _Recovered(NamedTuple):
    """A scheduler with its history, machines and executors, and who may call it."""

    store: Store
    kernels: Kernels
    controller: Controller
    known: bool  # whether it has a history
    cluster: JoinedCluster | None
    executor: RayExecutor | None  # that of the cluster
    tokens: Tokens
    run_tokens: RunTokens
    token: str
    operator: str


async def _recover(
    store: Store,
    config: ServiceConfig,
    settings: Settings,
    kernels: Kernels,
    secret: bytes,
    cluster: JoinedCluster | None,
) -> _Recovered:
    """Read the history, or begin one, with the machines of today. Raises Conflict for those that do not fit it."""
    began = time.monotonic()
    run_tokens, tokens = RunTokens(secret), Tokens(store)
    token = operator_token(tokens, config.state, getpass.getuser())
    launches = Launches(config.state, store.log_id, run_tokens.issue)
    replays = config.arrivals is not None
    rentals = Rentals(config.rents_from) if config.rents_from is not None else None
    controller = Controller(
        store,
        Clock(0.0),
        launches,
        settings,
        config.default_run_s,
        config.lease_s,
        kernels,
        rentals,
    )
    known = await asyncio.to_thread(controller.recover)
    if known and replays:
        raise Conflict(
            f"{config.state} has a history; a replay needs a state directory of its own (--service)"
        )
    ledger = controller.scheduler.ledger
    check_history(ledger, config)
    for name, node in ledger.nodes.items():
        if node.rented_at is not None and (rentals is None or rentals.kind != node.machine.kind):
            option = "--cloud FILE.toml, without --fleet" if node.machine.kind == "fake-cloud" else "--fleet"
            raise Conflict(f"node {name} is rented; say from what cloud ({option}), as last time")
    policy = SLURM_POLICY if config.slurm else config.policy or ledger.policy or DEFAULT_POLICY
    # A virtual clock would go on meanwhile; else this takes only a moment.
    if replays or kernels.are_cached(policy):
        await kernels.compile(policy)
    if config.arrivals is not None:  # from the first submission on: a trace may begin at a Unix time
        controller.clock = VirtualClock(config.arrivals.begin_s, config.speed)
    else:
        controller.clock = Clock(ledger.last_at)
    controller.scheduler.begin(controller.clock.now_s())
    machines = cluster.machines if cluster is not None else config.machines
    if config.slurm:
        machines = await asyncio.to_thread(nodes_of_slurm, config.slurm_bin)
    elif machines is None:
        machines = [await asyncio.to_thread(discover)]
    alive = cluster.alive if cluster is not None else frozenset[str]()
    _begin(controller, known, machines, alive, config)
    if store.meta(COPIED):
        _hold_copied(controller)
    _executors(controller, machines, config)
    executor = _executor_of_cluster(cluster, controller, config) if cluster is not None else None
    caller = tokens.caller(token)
    assert caller is not None, "its token is known"
    launches.owners = _owners(controller, config, caller.user)
    launches.socket = check_local(config.socket) if config.local_users is not None else None
    if config.arrivals is not None:
        users = config.arrivals.users if config.fair_share_s is not None else None
        controller.source = Source(config.arrivals, _every(config), users)
    controller.recovery_s = time.monotonic() - began
    return _Recovered(
        store, kernels, controller, known, cluster, executor, tokens, run_tokens, token, caller.user
    )


class _Served(NamedTuple):
    """The parts that answer requests."""

    app: FastAPI
    backend: ServiceBackend
    promises: Promises
    uploads: Uploads


def _assemble(recovered: _Recovered, config: ServiceConfig, retune: Retune | None) -> _Served:
    """The API and the page over the scheduler."""
    controller, tokens = recovered.controller, recovered.tokens
    promises = Promises(controller)
    uploads = Uploads(uploads_of(config.state), config.upload_bytes)
    tuner = LiveTuner(controller, config.state, retune)
    backend = ServiceBackend(
        controller, promises, recovered.run_tokens, tuner, uploads, LiveAdviser(controller, tuner)
    )
    if config.submit_filter is not None:
        limit_s = config.submit_filter_limit_s
        backend.submissions.filter = SubmissionFilter(config.submit_filter, controller.launches, limit_s)
    tokens.role_of = backend.role_of
    metrics, observation = None, controller.settings.observation
    if config.metrics != "off":
        # A service without them does not load the library.
        from betimes.service.runtime.metrics import Metrics

        metrics = Metrics(controller).text
    app = create_app(
        backend,
        tokens,
        hosts=[config.listen] if config.listen else [],
        page=partial(config.page, backend) if config.page is not None else None,
        metrics=metrics,
        local_metrics=config.metrics == "local",
        rights=Rights(config.read_all, observation if isinstance(observation, Observation) else None),
        peers=_peers(controller, config, recovered.operator),
        pace=config.rate_limit,
    )
    return _Served(app, backend, promises, uploads)


class _Listener(NamedTuple):
    """A server at its address: it ends once `stop` is set, and `task` with it."""

    url: str
    task: asyncio.Future[None]
    stop: asyncio.Event


@asynccontextmanager
async def _listening(
    served: _Served, recovered: _Recovered, config: ServiceConfig
) -> AsyncIterator[_Listener]:
    """The server, while this is entered."""
    stop, listening = asyncio.Event(), asyncio.get_running_loop().create_future()
    encrypted = None
    if config.listen and config.certificate is not None and config.key is not None:
        encrypted = Encrypted(config.listen, config.port, config.certificate, config.key)
    elif config.listen and not is_loopback(config.listen):
        log.warning(
            "others connect to %s without encryption, and tokens with it; where you do not trust the network, give "
            "--certificate and --key, or let a proxy do that",
            config.listen,
        )
    is_open = config.listen is not None and encrypted is None
    task = asyncio.ensure_future(
        serve(
            served.app,
            (config.listen if is_open else None) or "127.0.0.1",
            config.port if encrypted is None else 0,
            state=config.state,
            stop=stop,
            listen=is_open,
            listening=listening,
            local=recovered.controller.launches.socket,
            encrypted=encrypted,
        )
    )
    try:
        await asyncio.wait((task, listening), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield _Listener(listening.result(), task, stop)
    finally:
        stop.set()
        await asyncio.wait((task,))


async def _go_on(served: _Served, recovered: _Recovered, config: ServiceConfig, url: str) -> None:
    """Take over the runs of before, and begin what is done beside all the time."""
    controller, cluster = recovered.controller, recovered.cluster
    is_alone = config.ray is None and config.fleet is None
    controller.launches.url = url if is_alone or config.public_url is None else config.public_url
    if recovered.known:
        await controller.adopt()
        served.promises.catch_up()
    if cluster is not None and recovered.executor is not None:
        _follow(cluster, controller, recovered.executor)
    if config.slurm:
        key = bytes.fromhex(recovered.store.meta(SECRET) or "")
        controller.background.go(watch_slurm(controller, served.promises, config, key, known=recovered.known))
    replays = config.arrivals is not None
    kept = Retention(
        config.keep_finished_s,
        config.keep_runs or (Keep() if replays else RUNS_KEPT),
        config.keep_events or (Keep() if replays else EVENTS_KEPT),
    )
    controller.background.go(
        keep_up(recovered.store, config.state, kept, controller.clock, config.default_run_s)
    )
    controller.background.go(keep_uploads(recovered.store, served.uploads))
    controller.background.go(keep_uses(recovered.tokens))


@asynccontextmanager
async def _deciding(recovered: _Recovered, listener: _Listener) -> AsyncIterator[asyncio.Future[None]]:
    """The scheduler at work while this is entered; gives what is done once it, or the server, cannot go on."""
    controller = recovered.controller
    deciding = asyncio.ensure_future(controller.run())
    failed = _first_failure(listener.task, deciding)
    try:
        yield failed
    finally:
        listener.stop.set()
        await recovered.kernels.close()  # or requests that wait for it would get no answer until it is done
        await asyncio.wait((listener.task,))
        await controller.stop()
        await asyncio.wait((deciding,))
        failed.cancel()
        await controller.effects.close()
        error = deciding.exception()
        if isinstance(error, InputError):  # the policy does not compile
            raise error
        if error is not None:
            raise ServiceError(f"the service ended: {error}") from error


def _begin(
    controller: Controller,
    known: bool,
    machines: list[Machine],
    alive: frozenset[str],
    config: ServiceConfig,
) -> None:
    """Begin a history, or go on with the recovered one; alive: the nodes of a cluster that are still there."""
    scheduler = controller.scheduler
    if not known:
        scheduler.nodes.add_all(machines, "operator")
        scheduler.open(
            SLURM_POLICY if config.slurm else config.policy or DEFAULT_POLICY, controller.clock.now_s()
        )
        return
    check_start(machines, scheduler.ledger.nodes.values())
    controller.resume()
    scheduler = controller.scheduler
    nodes = scheduler.ledger.nodes
    scheduler.nodes.add_all([machine for machine in machines if machine.name not in nodes], "operator")
    for machine in machines:
        node = nodes[machine.name]
        if node.machine != machine:
            log.warning("node %s has changed: %s was %s", machine.name, machine, node.machine)
            scheduler.nodes.change(machine)
    for name, node in list(scheduler.ledger.nodes.items()):
        if node.machine.kind == "ray" and name not in alive:
            scheduler.nodes.left(name)
    families = {node.family for node in scheduler.ledger.nodes.values()}
    if config.policy is not None and where_alike(config.policy, families) != scheduler.ledger.policy:
        scheduler.policy.set_policy(config.policy, "operator")


def _hold_copied(controller: Controller) -> None:
    """Hold all jobs of this copy until an operator releases them: runs go on in the original."""
    scheduler = controller.scheduler
    jobs, held = scheduler.ledger.jobs, 0
    for number, job in list(jobs.items()):
        if job.run is not None and job.run.launched:
            message = "this log is a copy: the run goes on in the original"
            run = RunId(number, job.run.number)
            scheduler.reports.ended(Ended(run, scheduler.now_at, None, why="node-lost", message=message))
    for number, job in list(jobs.items()):
        if job.set_id is None and not job.status.is_over and job.status is not Status.HELD:
            scheduler.jobs.hold(number, "operator")
            held += 1
    batch = controller.turn_of([]).batch
    batch.meta[COPIED] = batch.meta[UPTO] = ""  # the original notifies of its events
    controller.store.commit(batch)
    log.warning(
        "this copy is an independent log now: runs of the original go on there, and unfinished jobs (%d) are held; "
        "`betimes release --all` lets them start",
        held,
    )


def _owners(controller: Controller, config: ServiceConfig, operator: str) -> Owners:
    """As whom jobs run. Raises Conflict where jobs of others are to run and would be refused now."""
    kinds = controller.effects.executors
    owners = owners_of_jobs(
        config.state,
        operator,
        is_here="ray" not in kinds and "rented" not in kinds,
        all_as_service=config.run_as_me or not any(kind in REAL for kind in kinds),
    )
    jobs = [job for job in controller.scheduler.ledger.jobs.values() if not job.status.is_over]
    if owners.refusal and (others := {job.user for job in jobs} - owners.own) and not owners.all_as_service:
        raise Conflict(
            f"{config.state} has jobs of {', '.join(sorted(others))} that are not over: {owners.refusal}"
        )
    return owners


def _peers(controller: Controller, config: ServiceConfig, operator: str) -> Peers:
    """Callers over the Unix socket, as users of the service."""

    def standing(name: str) -> tuple[str, bool] | None:
        user = controller.scheduler.ledger.users.get(name)
        return None if user is None else (user.role, user.disabled)

    return Peers(operator, standing, config.local_users == "any")


def _executors(controller: Controller, machines: list[Machine], config: ServiceConfig) -> None:
    """An executor for the runs of every kind of node."""
    known = [node.machine for node in controller.scheduler.ledger.nodes.values()]  # runs there are adopted
    local = next((machine for machine in (*machines, *known) if machine.kind == "local"), None)
    rentals = controller.rentals
    if rentals is not None and rentals.kind == "rented":
        _executor_of_rented(controller, rentals, _around(controller, config))
    elif local is not None:
        controller.effects.admit(
            "local",
            LocalExecutor(
                controller.inbox.hear,
                cpus=local.cores or None,
                gpus=local.gpu_ids,
                around=_around(controller, config),
            ),
        )
    admit_virtual_nodes(controller, controller.scheduler.kind == "pool" and config.arrivals is not None)


def _around(controller: Controller, config: ServiceConfig) -> Prologs | None:
    if config.prolog is None and config.epilog is None:
        return None
    environment = controller.launches.environment_of(None)
    return Prologs(config.prolog, config.epilog, config.prolog_limit_s, environment)


def _executor_of_rented(controller: Controller, rentals: Rentals, around: Prologs | None) -> None:
    """An executor of this machine and of those that are rented on it: a run may be on both."""

    def process_of(name: str) -> int | None:
        node = controller.scheduler.ledger.nodes.get(name)
        return 0 if node is not None and node.rented_at is None else rentals.process_of(name)

    def cpu_of(name: str) -> float:
        return controller.scheduler.ledger.nodes[name].machine.cpu

    executor = OwnNodesExecutor(controller.inbox.hear, process_of, cpu_of, around)

    def follow(events: list[Event]) -> None:
        """Start a machine's agent while the machine boots."""
        for event in events:
            if event.kind == "node-added" and event.node and event.data["machine"]["kind"] in HERE:
                executor.join(event.node)

    controller.listeners.append(follow)
    for kind in HERE:
        controller.effects.admit(kind, executor)
    _look_after(controller, rentals, executor)


def _look_after(controller: Controller, rentals: Rentals, executor: RayExecutor) -> None:
    """Look after rented machines, and let the executor know of those that are gone."""

    def follow(events: list[Event]) -> None:
        for event in events:
            if event.kind == "node-gone" and event.node is not None:
                controller.background.go(executor.leave(event.node))

    async def look_after() -> None:
        trouble = ""
        while True:
            try:
                if rentals.poll():
                    controller.inbox.tell("news of the cloud", rentals.advance)
                trouble = ""
            except Exception as error:  # too many open files, say: the next look may find that over
                if trouble != (trouble := repr(error)):
                    log.exception("rented machines cannot be looked after just now; it is tried again")
            await asyncio.sleep(POLL_S)

    controller.listeners.append(follow)
    controller.background.go(look_after())


def _executor_of_cluster(
    cluster: JoinedCluster, controller: Controller, config: ServiceConfig
) -> RayExecutor:
    """The executor of a cluster's nodes and of the machines that are rented and join it; their agents start now."""
    machines = {machine.name: machine for machine in cluster.machines}

    def cpu_of(name: str) -> float:
        node = controller.scheduler.ledger.nodes.get(name)
        return (machines[name] if node is None else node.machine).cpu

    executor = cluster.executor(controller.inbox.hear, cpu_of, _around(controller, config))
    controller.effects.admit("ray", executor)
    if controller.rentals is not None:
        controller.effects.admit(controller.rentals.kind, executor)
        _look_after(controller, controller.rentals, executor)
    return executor


def _follow(cluster: JoinedCluster, controller: Controller, executor: RayExecutor) -> None:
    """Let machines join and leave as in their cluster."""

    def tell(change: Change) -> None:
        request = partial(change_members, joined=change.joined, left=change.left)
        controller.inbox.tell("change of the cluster's members", request)
        for name in change.left:
            controller.background.go(executor.leave(name))

    for machine in cluster.machines:
        executor.join(machine.name)
    cluster.watch(
        lambda: [
            name for name, node in controller.scheduler.ledger.nodes.items() if node.machine.kind == "ray"
        ],
        tell,
    )


def _every(config: ServiceConfig) -> int:
    """One in how many replayed jobs is promised an end; 0: none is."""
    if config.promises is None:
        return 1
    return math.ceil(len(config.arrivals or ()) / config.promises) if config.promises else 0


def _first_failure(*tasks: asyncio.Future[None]) -> asyncio.Future[None]:
    """Done as soon as one of them is."""

    async def wait() -> None:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    return asyncio.ensure_future(wait())
