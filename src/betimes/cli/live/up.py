"""`betimes up`: the service; `betimes service config`: its settings."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from betimes.cli.live.jobs.completing import complete_policy
from betimes.cli.verbs import Json, Option, Several
from betimes.errors import InputError, NotReachable, ServiceError
from betimes.service.access.address import default_state
from betimes.service.startup.config import SETTINGS, Given, ServiceConfig, read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp

    from betimes.service.api.context import Context
    from betimes.service.runtime.service_backend import ServiceBackend
    from betimes.service.startup.bootstrap import Service


SEED = 1  # of a generated trace
DEFAULT_SPEED = "3600"
DEFAULT = "default"  # where a setting was set: nowhere
IN_FORCE = "settings.json"  # in the state directory: the settings of the service that runs
SESSIONS = "sessions.json"  # there, too: who is signed in to the page


def _flags() -> dict[str, Any]:
    """An option for each setting of a service."""
    return {
        setting.name: Annotated[
            list[str] | None if setting.repeats else bool | None if setting.is_switch else str | None,
            Option(
                setting.flag,
                metavar=setting.metavar,
                help=setting.help + (f" Default: {setting.default}." if setting.default is not None else ""),
                show_default=False,
                autocompletion=complete_policy if setting.name == "policy" else None,
            ),
        ]
        for setting in SETTINGS.values()
    }


Settings = Annotated[dict[str, Any], Several(_flags())]
ConfigFile = Annotated[
    Path | None,
    Option(
        "--config",
        metavar="FILE.toml",
        help="Settings, as `betimes service config` shows them; by default config.toml in the state directory, if it "
        "is there.",
        show_default=False,
    ),
]


def up(
    settings: Settings,
    config: ConfigFile = None,
    as_copy: Annotated[
        bool,
        Option(
            "--as-copy",
            help="Start a copy of another state directory: nothing that runs there is touched, and all unfinished jobs "
            "are held here.",
        ),
    ] = False,
    accept_loss: Annotated[
        bool,
        Option(
            "--accept-loss",
            help="Start even if the database lacks events or jobs that existed, as DIR shows.",
        ),
    ] = False,
    replay: Annotated[
        str | None,
        Option(
            "--replay",
            metavar="TRACE",
            help="Submit the jobs of a trace at their times, on virtual nodes and a virtual clock that begins with the "
            "first of them.",
            show_default=False,
        ),
    ] = None,
    units: Annotated[
        int | None,
        Option("--units", metavar="N", help="The pool of a replay.", min=1, show_default=False),
    ] = None,
    jobs: Annotated[
        int | None,
        Option("--jobs", metavar="N", help="Keep the first N jobs of a replay.", min=1, show_default=False),
    ] = None,
    speed: Annotated[
        str,
        Option("--speed", metavar="X", help="Seconds of a replay a second; max: as fast as it goes."),
    ] = DEFAULT_SPEED,
    promises: Annotated[
        int | None,
        Option(
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
    import json
    import logging
    from dataclasses import replace

    from betimes.service.startup.log import log_to_stderr

    if replay is None and not (units is jobs is promises is None and speed == DEFAULT_SPEED):
        raise InputError(
            "--units, --jobs, --speed and --promises are about a replayed trace; name it (--replay TRACE)"
        )
    log_to_stderr()
    logging.getLogger("betimes.service.compiling").setLevel(logging.INFO)
    given = read_settings(settings, config)
    chosen = ServiceConfig(
        **{at: each.value for at, each in given.items()},
        as_copy=as_copy,
        accepts_loss=accept_loss,
        speed=_speed_of(speed),
        promises=promises,
    )
    chosen = replace(chosen, page=partial(_page, chosen.state))
    if replay is not None:
        chosen = _replayed(chosen, replay, units, jobs)
    asyncio.run(_serve(chosen, json.dumps(_settings_of(given)), as_json))


def show_config(
    settings: Settings,
    config: ConfigFile = None,
    running: Annotated[
        bool, Option("--running", help="Show the settings of the service that runs, not of the next start.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the settings with which `betimes up` would start the service, and where each was set.

    What is printed is a file of settings: save it as config.toml in the state directory, and change what is to be
    another. With --json an object: by setting its `value` (null: not set, and found at the start), `set_by` and `help`.
    """
    given = read_settings(settings, config)
    ServiceConfig(**{at: each.value for at, each in given.items()})  # check that they go together
    state: Path = given["state"].value if "state" in given else default_state()
    found = _in_force(state) if running else _settings_of(given)
    if as_json:
        from betimes.cli.render.as_json import print_json

        print_json(found)
        return
    import textwrap

    for name, each in found.items():
        print("\n".join(textwrap.wrap(each["help"], 100, initial_indent="# ", subsequent_indent="# ")))
        written = _toml(each["value"]) if each["value"] is not None else "..."
        if name == "state":
            print(f"# (now {state}; not set in a file)\n")
        elif each["set_by"] == DEFAULT:
            print(f"# {name} = {written}\n")
        else:
            print(f"{name} = {written}  # {each['set_by']}\n")


def _toml(value: Any) -> str:
    """A value of a setting as a file of settings has it."""
    import json

    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key)} = {_toml(each)}' for key, each in value.items())}}}"
    return json.dumps(value)


def _settings_of(given: Mapping[str, Given]) -> dict[str, dict[str, Any]]:
    """Every setting with its value as written, where it was set, and its help."""
    return {
        setting.name: {
            "value": given[at].written if at in given else setting.default,
            "set_by": given[at].where if at in given else DEFAULT,
            "help": setting.help,
        }
        for at, setting in SETTINGS.items()
    }


def _in_force(state: Path) -> dict[str, dict[str, Any]]:
    """The settings of the service that runs there. Raises NotReachable, InputError."""
    import json

    from betimes.service.access.address import read_address

    try:
        if read_address(state) is not None:
            return json.loads((state / IN_FORCE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        pass
    except PermissionError:
        raise InputError(f"{state} belongs to another user, who alone reads the settings there") from None
    raise NotReachable(f"no service runs with its state in {state}; start one with `betimes up`")


def _page(state: Path, backend: ServiceBackend, context: Context) -> ASGIApp:
    from betimes.page.site import create_page

    return create_page(backend, context, state / SESSIONS)


def _replayed(chosen: ServiceConfig, trace: str, units: int | None, jobs: int | None) -> ServiceConfig:
    """The configuration with a trace and its machine: the one named, else the trace's."""
    from dataclasses import replace

    from betimes.cli.simulate.sources import GENERATED_UNITS, is_generated, read
    from betimes.cluster import read_cluster
    from betimes.policies.nodes.heterogeneous_wfq import where_alike
    from betimes.service.runtime.replay import Arrivals, cluster_for, machines_for
    from betimes.service.startup.bootstrap import DEFAULT_POLICY

    named = chosen.cluster or chosen.nodes
    cluster = read_cluster(named) if named is not None else None
    if cluster is not None and not cluster.groups:
        cluster = None  # the cluster has offers only
    if cluster is None and units is None and is_generated(trace):
        units = GENERATED_UNITS
    workload = read(trace, units, SEED, cluster=cluster)
    cluster = cluster_for(units or workload.machine_units, cluster)
    if jobs is not None:
        workload = workload[:jobs]
    policy = where_alike(chosen.policy or DEFAULT_POLICY, cluster.families)
    arrivals = Arrivals(workload, cluster, policy)
    return replace(chosen, machines=machines_for(cluster), arrivals=arrivals)


def _speed_of(text: str) -> float:
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


async def _serve(chosen: ServiceConfig, settings: str, as_json: bool) -> None:
    """Run the service until a signal, with its settings in its state directory; a second signal ends it at once."""
    import asyncio
    import gc
    import signal
    from contextlib import AsyncExitStack

    from betimes.cli.live.replayed import told_as_it_goes
    from betimes.files import write_private
    from betimes.service.executors.supervision.files import is_full
    from betimes.service.startup.bootstrap import running
    from betimes.service.startup.log import heed_failure

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.set_exception_handler(heed_failure)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    waiting = asyncio.ensure_future(stop.wait())
    async with AsyncExitStack() as stack:
        # Reading back a long queue leaves no garbage, and looking for it takes a third of the time.
        gc.disable()
        stack.callback(gc.enable)
        starting = asyncio.ensure_future(stack.enter_async_context(running(chosen)))
        await asyncio.wait((waiting, starting), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():  # a replay may be compiling
            starting.cancel()
            await asyncio.wait((starting,))
            return
        try:
            service = starting.result()
            write_private(chosen.state / IN_FORCE, settings)
        except OSError as error:
            if not is_full(error):
                raise
            raise ServiceError(
                f"{error.filename or chosen.state}: no room is left ({error.strerror}), so the service did not start; "
                f"free some (df -h {chosen.state})"
            ) from None
        stack.callback((chosen.state / IN_FORCE).unlink, missing_ok=True)
        # Modules and kernels stay, and each scan of them for garbage takes 80 ms.
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


def _say(service: Service, chosen: ServiceConfig, as_json: bool) -> None:
    """Print that the service is ready, and the next commands."""
    import json

    from betimes.cli.render.jobs import standing
    from betimes.service.access.peers import check_local

    controller = service.controller
    ledger = controller.scheduler.ledger
    if as_json:
        ready = {
            "url": service.url,
            **({"public_url": chosen.public_url} if chosen.public_url is not None else {}),
            "state": str(chosen.state),
            "policy": ledger.policy,
            "nodes": list(ledger.nodes),
            "replayed_jobs": len(chosen.arrivals or ()),
            "recovery_s": controller.recovery_s,
            "replayed_events": controller.replayed,
            "compiling": controller.scheduler.stands_by,
        }
        if chosen.local_users is not None:
            ready["socket"] = str(check_local(chosen.socket))
        print(json.dumps(ready), flush=True)
        return
    again = ""
    if controller.replayed:
        jobs = standing(job.status.value for job in ledger.jobs.values())
        again = f", {controller.replayed} events replayed in {controller.recovery_s:.2f} s, {jobs}"
    print(f"Betimes listens at {service.url} (policy {ledger.policy}{again}).")
    if chosen.public_url is not None:
        print(f"Others connect to {chosen.public_url}.")
    if controller.scheduler.stands_by:
        print("You can submit now; jobs start when compilation is done (about a minute).")
    if (unused := controller.scheduler.unused_offers) is not None:
        print(f"Policy {unused}.")
    if chosen.local_users is not None:
        which = "The other users" if chosen.local_users == "any" else "Users (`betimes users`)"
        print(f"{which} of this machine need no token: they reach it at {check_local(chosen.socket)}.")
        if controller.launches.owners.refusal and not chosen.run_as_me:
            print(f"Their jobs are refused: {controller.launches.owners.refusal}.")
    verb = "jobs" if chosen.slurm else "submit -- COMMAND"
    print(
        f"Its state is in {chosen.state}; `betimes {verb}` finds it by itself, and `betimes open` shows its pages. "
        "Ctrl-C stops it.",
        flush=True,
    )
