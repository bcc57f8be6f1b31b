"""`betimes up`: the service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from betimes.cli import options
from betimes.cli.live.jobs.completing import complete_policy
from betimes.cli.live.policy.policy import from_anywhere
from betimes.cli.verbs import Json
from betimes.errors import InputError

if TYPE_CHECKING:
    from betimes.cluster import Cluster
    from betimes.service.executors.ray.joining import RayOptions
    from betimes.service.machines.provider import OpenCloud
    from betimes.service.startup.bootstrap import Options, Service


SEED = 1  # of a generated trace


def up(
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="DIR",
            help="Where everything is kept; by default BETIMES_STATE, or your own.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", help="0: that of the last time, or a free one.", min=0, max=65535)
    ] = 0,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="ADDRESS",
            help="Let others connect at this address; by default only this machine can.",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="NAME[:k=v,...]",
            help="Who starts when; by default that of last time, or fifo. pool:fifo and nodes:fifo tell engines apart.",
            autocompletion=complete_policy,
            show_default=False,
        ),
    ] = None,
    policy_files: Annotated[
        Path | None,
        typer.Option(
            "--policy-files",
            metavar="DIR",
            help="The folder from which users may put policies of their own in force, as DIR/FILE.py:NAME; by default "
            "none.",
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[
        Path | None,
        typer.Option(
            "--nodes",
            metavar="FILE.toml",
            help="Virtual nodes, whose jobs only take time; by default this machine.",
            show_default=False,
        ),
    ] = None,
    cloud: Annotated[
        str | None,
        typer.Option(
            "--cloud",
            metavar="FILE.toml",
            help="A made-up cloud to rent nodes from, whose jobs only take time: the offers of a cluster file or of a "
            "catalogue.",
            show_default=False,
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="FILE.toml",
            help="Both in one file: its nodes as --nodes, its offers as --cloud.",
            show_default=False,
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray",
            metavar="auto|HOST:PORT",
            help="Run jobs on the machines of a Ray cluster that this machine is a node of, instead of on this machine "
            "alone; auto: the cluster that runs here.",
            show_default=False,
        ),
    ] = None,
    ray_share: Annotated[
        float,
        typer.Option(
            "--ray-share",
            metavar="FRACTION",
            help="How much of each machine's cores, memory and GPUs jobs may use, where others use the cluster too.",
        ),
    ] = 1.0,
    ray_open: Annotated[
        bool,
        typer.Option(
            "--ray-open",
            help="Join the cluster even if it has public addresses and asks for no token: a firewall closes its ports.",
        ),
    ] = False,
    database: Annotated[
        str | None,
        typer.Option(
            "--database",
            metavar="URL",
            help="postgresql://...; by default SQLite in DIR.",
            show_default=False,
        ),
    ] = None,
    as_copy: Annotated[
        bool,
        typer.Option(
            "--as-copy",
            help="Start a copy of another state directory: nothing that runs there is touched, and all unfinished jobs "
            "are held here.",
        ),
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="Start even if the database has lost events or jobs, of which DIR still shows that they existed.",
        ),
    ] = False,
    usual: Annotated[
        str,
        typer.Option("--usual", metavar="TIME", help="Default run-time estimate for jobs without one."),
    ] = "1h",
    restart: Annotated[
        str | None,
        typer.Option(
            "--restart",
            metavar="TIME",
            help="What a job loses when it is started again; by default what that has taken of late.",
            show_default=False,
        ),
    ] = None,
    resize_interval: Annotated[
        str,
        typer.Option(
            "--resize-interval",
            metavar="TIME",
            help="A job in a pool keeps the width that it has got for so long, unless it is preempted.",
        ),
    ] = "0",
    resize_gain: options.ResizeGain = False,
    lease: Annotated[
        str,
        typer.Option(
            "--lease",
            metavar="TIME",
            help="A node that sends heartbeats is lost if this passes without one.",
        ),
    ] = "30s",
    keep_finished: Annotated[
        str | None,
        typer.Option(
            "--keep-finished",
            metavar="TIME",
            help="Forget jobs, and what they printed, so long after their end; by default never.",
            show_default=False,
        ),
    ] = None,
    keep_events: Annotated[
        str | None,
        typer.Option(
            "--keep-events",
            metavar="TIME",
            help="Move events that are older to files in DIR/archive; by default never.",
            show_default=False,
        ),
    ] = None,
    upload_limit: Annotated[
        str,
        typer.Option(
            "--upload-limit",
            metavar="SIZE",
            help="The most that a directory may hold which is sent along with a job (submit --upload).",
        ),
    ] = "100MiB",
    retune: Annotated[
        list[str] | None,
        typer.Option(
            "--retune",
            metavar="TIME|drift",
            help="Search for a Pareto front on the recent workload again and again: after so long, when workload or "
            "prediction errors have drifted, or both (give it twice). What is found is proposed.",
            show_default=False,
        ),
    ] = None,
    retune_objective: Annotated[
        list[str] | None,
        typer.Option(
            "--retune-objective",
            metavar="METRIC:MEASURE",
            help="For what, once for each; by default those that --retune-apply bounds, else jct:avg and pred_err:avg.",
            show_default=False,
        ),
    ] = None,
    retune_jobs: Annotated[
        int | None,
        typer.Option(
            "--retune-jobs",
            metavar="N",
            help="On so many jobs, and as many after them to report on; by default 1,000.",
            min=2,
            show_default=False,
        ),
    ] = None,
    retune_apply: Annotated[
        list[str] | None,
        typer.Option(
            "--retune-apply",
            metavar="METRIC:MEASURE<=X",
            help="Put the proposed point in force unasked if it keeps this, once for each objective: jct:avg<=1.05 "
            "(times are factors of what the policy in force brings), pred_err:p99<=0.2, slowdown:p95<=1.1x.",
            show_default=False,
        ),
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option(
            "--replay",
            metavar="TRACE",
            help="Submit the jobs of a trace at their times, on virtual nodes and a virtual clock that begins with the "
            "first of them.",
            show_default=False,
        ),
    ] = None,
    units: Annotated[
        int | None,
        typer.Option("--units", metavar="N", help="The pool of a replay.", min=1, show_default=False),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", metavar="N", help="Keep the first N jobs of a replay.", min=1, show_default=False
        ),
    ] = None,
    budget: Annotated[
        list[str] | None,
        typer.Option(
            "--budget",
            metavar="USER=USD",
            help="The most that a user's jobs may cost a month on machines that are rented for them; * is each user "
            "else. By default any amount. Repeatable.",
            show_default=False,
        ),
    ] = None,
    speed: Annotated[
        str,
        typer.Option("--speed", metavar="X", help="Seconds of a replay a second; max: as fast as it goes."),
    ] = "3600",
    promises: Annotated[
        int | None,
        typer.Option(
            "--promises",
            metavar="N",
            help="Promise an end to N jobs of a replay, evenly spread; by default to all. Each takes a play-out.",
            min=0,
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Start the service on this machine and run jobs until Ctrl-C; jobs that run then go on.

    A policy that is not compiled yet on this machine is compiled beside: jobs are taken meanwhile, and are promised an
    end and started after that. With --json one object is printed once it listens: where, where its token is, and
    whether it compiles.
    """
    import asyncio
    import logging

    from betimes.service.access.address import default_state
    from betimes.service.machines.budgets import parse_budgets
    from betimes.service.machines.files import machines_of_cluster
    from betimes.service.runtime.retention import Keeping
    from betimes.service.scheduling.engine_factory import Settings
    from betimes.service.startup.bootstrap import Options, speed_of
    from betimes.service.tuning.retune import parse_retune

    logging.basicConfig(level=logging.WARNING, format="betimes: %(message)s")
    logging.getLogger("betimes.service.compiling").setLevel(logging.INFO)
    owned, offered = _described(cluster, nodes, cloud)
    chosen = Options(
        state=(state or default_state()).expanduser().absolute(),
        database=database,
        as_copy=as_copy,
        accepts_loss=accept_loss,
        host=listen or "127.0.0.1",
        port=port,
        listen=listen is not None,
        policy=from_anywhere(policy) if policy is not None else None,
        policy_files=policy_files,
        machines=machines_of_cluster(owned) if owned is not None else None,
        cloud=offered,
        ray=_ray(ray, ray_share, ray_open, has_nodes=owned is not None or replay is not None),
        default_run_s=_some_seconds("--usual", usual),
        lease_s=_some_seconds("--lease", lease),
        keeping=Keeping(
            _some_seconds("--keep-finished", keep_finished) if keep_finished is not None else None,
            _some_seconds("--keep-events", keep_events) if keep_events is not None else None,
        ),
        settings=Settings(
            restart_s=_seconds("--restart", restart) if restart is not None else 0.0,
            measures_restarts=restart is None,
            resize_interval_s=_seconds("--resize-interval", resize_interval),
            resize_gain=resize_gain,
            budgets=parse_budgets(budget or ()),
        ),
        upload_bytes=_bytes("--upload-limit", upload_limit),
        speed=speed_of(speed),
        promises=promises,
        retune=parse_retune(retune or (), retune_objective or (), retune_jobs, retune_apply or ()),
    )
    if replay is not None:
        _replayed(chosen, replay, units, jobs, owned)
    asyncio.run(_serve(chosen, as_json))


def _ray(address: str | None, share: float, allows_open: bool, *, has_nodes: bool) -> RayOptions | None:
    """The Ray cluster that is asked for; null: none is. Raises InputError."""
    from betimes.service.executors.ray.joining import RayOptions

    if address is None:
        if allows_open or share != 1.0:
            raise InputError("--ray-share and --ray-open are about a Ray cluster; say which (--ray auto)")
        return None
    if has_nodes:
        raise InputError(
            f"--ray {address}: virtual nodes are given too; leave out --ray, or --nodes, --cluster and --replay"
        )
    if not 0.0 < share <= 1.0:
        raise InputError(f"--ray-share {share:g}: give a fraction above 0 and up to 1, such as 0.5")
    return RayOptions(address, share, allows_open)


def _seconds(option: str, text: str) -> float:
    """The time that an option gives. Raises InputError."""
    from betimes.service.spec.parse_duration import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None


def _some_seconds(option: str, text: str) -> float:
    """The same, of a time that must pass."""
    seconds = _seconds(option, text)
    if seconds <= 0.0:
        raise InputError(f"{option} {text}: give a time above 0, such as 30s")
    return seconds


def _bytes(option: str, text: str) -> int:
    """The size that an option gives. Raises InputError."""
    from betimes.service.spec.parse_memory import parse_gib

    try:
        return round(parse_gib(text) * 2**30)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None


def _described(
    cluster: str | None, nodes: Path | None, cloud: str | None
) -> tuple[Cluster | None, OpenCloud | None]:
    """The nodes that are there, and the cloud to rent from, of the files that are named. Raises InputError."""
    from betimes.cluster import read_cluster
    from betimes.service.machines.cloud_file import cloud_of, read_cloud

    if cluster is None:
        return (
            read_cluster(nodes) if nodes is not None else None,
            read_cloud(cloud) if cloud is not None else None,
        )
    if nodes is not None or cloud is not None:
        option = "--nodes" if nodes is not None else "--cloud"
        raise InputError(f"--cluster {cluster}: {option} is given too; leave one of them out")
    found = read_cluster(cluster)
    return found if found.groups else None, cloud_of(found) if found.offers else None


def _replayed(
    chosen: Options, trace: str, units: int | None, jobs: int | None, cluster: Cluster | None
) -> None:
    """Add a trace and its machine: the one that is named, or else its own."""
    from betimes.cli.simulate.sources import GENERATED_UNITS, is_generated, read
    from betimes.service.runtime.replaying.replay import Arrivals, cluster_for, machines_for
    from betimes.service.startup.bootstrap import DEFAULT_POLICY

    if cluster is None and units is None and is_generated(trace):
        units = GENERATED_UNITS
    workload = read(trace, units, SEED, cluster=cluster)
    cluster = cluster_for(units or workload.machine_units, cluster)
    if jobs is not None:
        workload = workload[:jobs]
    chosen.machines = machines_for(cluster)
    chosen.arrivals = Arrivals(workload, cluster, chosen.policy or DEFAULT_POLICY)


async def _serve(chosen: Options, as_json: bool) -> None:
    """Until a signal; the second one ends it at once."""
    import asyncio
    import gc
    import signal
    from contextlib import AsyncExitStack

    from betimes.cli.live.replayed import told_as_it_goes
    from betimes.service.startup.bootstrap import running

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    waiting = asyncio.ensure_future(stop.wait())
    async with AsyncExitStack() as stack:
        # A long queue is read back now: looking for garbage meanwhile, and finding none, takes a third of the time.
        gc.disable()
        stack.callback(gc.enable)
        starting = asyncio.ensure_future(stack.enter_async_context(running(chosen)))
        await asyncio.wait((waiting, starting), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():  # a replay may be compiling
            starting.cancel()
            await asyncio.wait((starting,))
            return
        service = starting.result()
        # Modules and kernels stay: looking through them again and again for garbage takes 80 ms each time.
        gc.collect()
        gc.freeze()
        gc.enable()
        _say(service, chosen, as_json)
        if chosen.arrivals is not None and not as_json:
            stack.enter_context(told_as_it_goes(service.controller, len(chosen.arrivals)))
        await asyncio.wait((waiting, service.failed), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        if service.failed.done():
            service.failed.result()


def _say(service: Service, chosen: Options, as_json: bool) -> None:
    """That it is ready, and how to go on."""
    import json

    from betimes.cli.render.jobs import standing

    controller = service.controller
    ledger = controller.scheduler.ledger
    if as_json:
        ready = {
            "url": service.url,
            "state": str(chosen.state),
            "policy": ledger.policy,
            "nodes": list(ledger.nodes),
            "replayed_jobs": len(chosen.arrivals or ()),
            "recovery_s": controller.recovery_s,
            "replayed_events": controller.replayed,
            "compiling": controller.scheduler.stands_by,
        }
        print(json.dumps(ready), flush=True)
        return
    again = ""
    if controller.replayed:
        jobs = standing(job.status.value for job in ledger.jobs.values())
        again = f", {controller.replayed} events replayed in {controller.recovery_s:.2f} s, {jobs}"
    print(f"Betimes listens at {service.url} (policy {ledger.policy}{again}).")
    if controller.scheduler.stands_by:
        print("You can submit now; jobs start when compilation is done (about a minute).")
    print(
        f"Its state is in {chosen.state}; `betimes submit -- COMMAND` finds it by itself. Ctrl-C stops it.",
        flush=True,
    )
