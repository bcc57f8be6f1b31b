"""The service put together: a store, a clock, nodes, executors, the controller, and the API before them."""

from __future__ import annotations

import asyncio
import getpass
import logging
import math
import secrets
import stat
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from betimes.errors import Conflict, InputError, ServiceError
from betimes.policies.loading import only_policies_below
from betimes.service.access.auth import RunTokens, Tokens, operator_token
from betimes.service.api.app import create_app
from betimes.service.compiling.kernels import Kernels
from betimes.service.executors.local import LocalExecutor
from betimes.service.executors.ray.executor import RayExecutor
from betimes.service.executors.ray.joining import JoinedCluster, RayOptions, join
from betimes.service.executors.ray.membership import Change
from betimes.service.machines.local import discover
from betimes.service.machines.machine import Machine
from betimes.service.machines.provider import OpenCloud
from betimes.service.runtime.admission.mixed_nodes import check_start
from betimes.service.runtime.clock import Clock, VirtualClock
from betimes.service.runtime.commands import ChangeMembers
from betimes.service.runtime.controller import LEASE_S, Controller
from betimes.service.runtime.launches import Launches
from betimes.service.runtime.promises.play_out import Promises
from betimes.service.runtime.rentals import Rentals
from betimes.service.runtime.replaying.trace_source import Source
from betimes.service.runtime.retention import Keeping, keep_up, keep_uploads
from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.runtime.tuner import LiveTuner
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.run_reports import Ended, RunId
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.startup.in_memory import admit_virtual_nodes
from betimes.service.startup.server import serve
from betimes.service.store.batch import Batch
from betimes.service.store.belonging import COPIED
from betimes.service.store.store import Store, default_url
from betimes.service.tuning.retune import Retune
from betimes.service.uploads.kept import DEFAULT_BYTES, Uploads, uploads_of

if TYPE_CHECKING:
    from betimes.service.runtime.replaying.replay import Arrivals

log = logging.getLogger(__name__)

DEFAULT_POLICY = "fifo"
SECRET = "run_secret"


@dataclass
class Options:
    """How a service is set up; what is not given is found."""

    state: Path
    database: str | None = None
    as_copy: bool = False  # the state is a copy of another one, which goes on
    accepts_loss: bool = False  # start also where the log lacks what the state directory shows
    host: str = "127.0.0.1"
    port: int = 0
    listen: bool = False
    policy: str | None = None  # by default the one of last time, or fifo
    policy_files: Path | None = None  # the folder of users' policies; by default none are taken
    machines: list[Machine] | None = None  # virtual ones; by default this machine
    ray: RayOptions | None = None  # the Ray cluster whose machines the nodes are
    cloud: OpenCloud | None = None  # to rent from
    default_run_s: float = 3600.0
    lease_s: float = LEASE_S  # in which a node that sends signs of life must send another one
    keeping: Keeping = field(default_factory=Keeping)
    settings: Settings = field(default_factory=Settings)
    kernels: Kernels = field(default_factory=Kernels)
    arrivals: Arrivals | None = None  # of a replayed trace
    speed: float = 3600.0  # of a replay; infinity: as fast as it goes
    retune: Retune | None = None  # when to search for a front unasked
    upload_bytes: int = DEFAULT_BYTES  # of the files of a directory that is sent along with a job
    promises: int | None = None  # to so many of its jobs, evenly spread; by default to all


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
async def running(options: Options) -> AsyncIterator[Service]:
    """A service while this is entered; jobs go on when it is left. Raises InputError and ServiceError."""
    options.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (mode := stat.S_IMODE(options.state.stat().st_mode)) & 0o077:
        message = (
            "%s is open to others (mode %o); what jobs print and keep is not, but close it: chmod 700 %s"
        )
        log.warning(message, options.state, mode, options.state)
    store = await asyncio.to_thread(
        Store.open,
        options.database or default_url(options.state),
        options.state,
        as_copy=options.as_copy,
        accepts_loss=options.accepts_loss,
    )
    try:
        with only_policies_below(options.policy_files):
            async with _opened(store, options) as service:
                yield service
    finally:
        await options.kernels.close()
        await asyncio.to_thread(store.close)


@asynccontextmanager
async def _opened(store: Store, options: Options) -> AsyncIterator[Service]:
    secret = store.meta(SECRET)
    if secret is None or store.meta(COPIED):  # what runs in the original has its tokens
        secret = secrets.token_hex(32)
        store.commit(Batch(meta={SECRET: secret}))
    cluster = await join(options.ray, secret) if options.ray is not None else None
    try:
        async with _serving(store, options, secret, cluster) as service:
            yield service
    finally:
        if cluster is not None:
            await cluster.close()


@asynccontextmanager
async def _serving(
    store: Store, options: Options, secret: str, cluster: JoinedCluster | None
) -> AsyncIterator[Service]:
    began = time.monotonic()
    run_tokens, tokens = RunTokens(bytes.fromhex(secret)), Tokens(store)
    token = operator_token(tokens, options.state, getpass.getuser())
    launches = Launches(options.state, store.log_id, run_tokens.issue)
    replays = options.arrivals is not None
    kernels = options.kernels
    rentals = Rentals(options.cloud) if options.cloud is not None else None
    controller = Controller(
        store,
        Clock(0.0),
        launches,
        replace(options.settings, plans_aside=not replays),  # a replay comes to the same each time
        options.default_run_s,
        options.lease_s,
        kernels,
        rentals,
    )
    known = await asyncio.to_thread(controller.recover)
    if known and replays:
        raise Conflict(
            f"{options.state} has a history; a replay needs a state directory of its own (--state)"
        )
    ledger = controller.scheduler.ledger
    rented = [name for name, node in ledger.nodes.items() if node.rented_at is not None]
    if rented and options.cloud is None:
        raise Conflict(f"node {rented[0]} is rented; say from what cloud (--cloud FILE.toml), as last time")
    policy = options.policy or ledger.policy or DEFAULT_POLICY
    # A virtual clock would go on meanwhile; else it takes a moment only.
    if replays or kernels.are_cached(policy):
        await kernels.compile(policy)
    if options.arrivals is not None:  # from the first submission on: a trace may begin at a Unix time
        controller.clock = VirtualClock(options.arrivals.begin_s, options.speed)
    else:
        controller.clock = Clock(ledger.last_at)
    controller.scheduler.begin(controller.clock.now_s())
    machines = cluster.machines if cluster is not None else options.machines
    if machines is None:
        machines = [await asyncio.to_thread(discover)]
    alive = cluster.alive if cluster is not None else frozenset[str]()
    _begin(controller.scheduler, known, machines, alive, options, controller.clock.now_s())
    if store.meta(COPIED):
        _hold_copied(controller)
    _executors(controller, machines, options)
    ray = _executor_of(cluster, controller) if cluster is not None else None
    if options.arrivals is not None:
        controller.source = Source(options.arrivals, promise_every=_every(options))
    controller.recovery_s = time.monotonic() - began
    promises = Promises(controller)
    uploads = Uploads(uploads_of(options.state), options.upload_bytes)
    backend = ServiceBackend(
        controller, promises, run_tokens, LiveTuner(controller, options.state, options.retune), uploads
    )
    app = create_app(backend, tokens, hosts=[options.host] if options.listen else [])
    stop, listening = asyncio.Event(), asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(
        serve(
            app,
            options.host,
            options.port,
            state=options.state,
            stop=stop,
            listen=options.listen,
            listening=listening,
        )
    )
    try:
        await asyncio.wait((serving, listening), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        launches.url = listening.result()
        if known:
            await controller.adopt()
            promises.catch_up()
        if cluster is not None and ray is not None:
            _follow(cluster, controller, ray)
        controller.background.go(
            keep_up(store, launches.runs, options.keeping, controller.clock, options.default_run_s)
        )
        controller.background.go(keep_uploads(store, uploads))
        deciding = asyncio.ensure_future(controller.run())
        failed = _first_failure(serving, deciding)
        try:
            yield Service(launches.url, token, controller, backend, store, failed)
        finally:
            stop.set()
            await kernels.close()  # or requests that wait for it would not be answered before it is done
            await asyncio.wait((serving,))
            await controller.stop()
            await asyncio.wait((deciding,))
            failed.cancel()
            await controller.effects.close()
            error = deciding.exception()
            if isinstance(error, InputError):  # the policy does not compile
                raise error
            if error is not None:
                raise ServiceError(f"the service ended: {error}") from error
    finally:
        stop.set()
        await asyncio.wait((serving,))


def _begin(
    scheduler: Scheduler,
    known: bool,
    machines: list[Machine],
    alive: frozenset[str],
    options: Options,
    now_at: float,
) -> None:
    """Begin a history, or go on with the one that was recovered; alive: the nodes of a cluster that are still there."""
    if not known:
        for machine in machines:
            scheduler.nodes.add(machine, "operator")
        scheduler.open(options.policy or DEFAULT_POLICY, now_at)
        return
    check_start(machines, scheduler.ledger.nodes.values())
    scheduler.recover()
    for machine in machines:
        node = scheduler.ledger.nodes.get(machine.name)
        if node is None:
            scheduler.nodes.add(machine, "operator")
        elif node.machine != machine:
            log.warning("node %s has changed: %s was %s", machine.name, machine, node.machine)
            scheduler.nodes.change(machine)
    for name, node in list(scheduler.ledger.nodes.items()):
        if node.machine.kind == "ray" and name not in alive:
            scheduler.nodes.left(name)
    if options.policy is not None and options.policy != scheduler.ledger.policy:
        scheduler.policy.set_policy(options.policy, "operator")


def _hold_copied(controller: Controller) -> None:
    """Runs go on in the original of this copy, and no job starts here that an operator has not released."""
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
    batch.meta[COPIED] = ""
    controller.store.commit(batch)
    log.warning(
        "this copy is an independent log now: runs of the original go on there, and unfinished jobs (%d) are held; "
        "`betimes release --all` lets them start",
        held,
    )


def _executors(controller: Controller, machines: list[Machine], options: Options) -> None:
    """An executor for the runs of every kind of node."""
    known = [
        node.machine for node in controller.scheduler.ledger.nodes.values()
    ]  # what runs there is adopted
    local = next((machine for machine in (*machines, *known) if machine.kind == "local"), None)
    if local is not None:
        controller.effects.admit(
            "local", LocalExecutor(controller.inbox.hear, cpus=local.cores or None, gpus=local.gpu_ids)
        )
    admit_virtual_nodes(controller, controller.scheduler.kind == "pool" and options.arrivals is not None)


def _executor_of(cluster: JoinedCluster, controller: Controller) -> RayExecutor:
    """The executor of a cluster's nodes, whose agents start now."""
    machines = {machine.name: machine for machine in cluster.machines}

    def cpu_of(name: str) -> float:
        node = controller.scheduler.ledger.nodes.get(name)
        return (machines[name] if node is None else node.machine).cpu

    executor = cluster.executor(controller.inbox.hear, cpu_of)
    controller.effects.admit("ray", executor)
    return executor


def _follow(cluster: JoinedCluster, controller: Controller, executor: RayExecutor) -> None:
    """Let machines join and leave as they do in their cluster."""

    def tell(change: Change) -> None:
        controller.inbox.tell(ChangeMembers(change.joined, change.left))
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


def _every(options: Options) -> int:
    """One of how many replayed jobs is promised an end; 0: none is."""
    if options.promises is None:
        return 1
    return math.ceil(len(options.arrivals or ()) / options.promises) if options.promises else 0


def _first_failure(*tasks: asyncio.Future[None]) -> asyncio.Future[None]:
    """Done as soon as one of them is."""

    async def wait() -> None:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    return asyncio.ensure_future(wait())


def speed_of(text: str) -> float:
    """`3600`, or `max` for as fast as it goes. Raises InputError."""
    if text == "max":
        return math.inf
    try:
        speed = float(text)
    except ValueError:
        speed = -1.0
    if not 0.0 < speed < math.inf:
        raise InputError(f"--speed {text}: expected seconds of the trace a second, above 0, or max")
    return speed
