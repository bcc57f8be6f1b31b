"""An operator's settings of a service: one record, from flags, the environment, a file and Python alike.

A flag takes precedence over an environment variable (BETIMES_UP_KEEP_EVENTS), and that over the file, whose keys are
the same names (`keep_events = "30d"`). The file is `config.toml` of the state directory, or the one named.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from betimes.errors import InputError, nearest
from betimes.service.access.address import default_state
from betimes.service.access.pace import Pace
from betimes.service.machines.budgets import Budgets, parse_budgets
from betimes.service.spec.spelling import parse_resources, with_full_names
from betimes.units import Keep, parse_duration, parse_gib, parse_keep

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from betimes.service.api.context import Context
    from betimes.service.compiling.kernels import Kernels
    from betimes.service.executors.ray.joining import RentedNodes
    from betimes.service.machines.machine import Machine
    from betimes.service.machines.provider import OpenCloud
    from betimes.service.runtime.mail import MailSettings
    from betimes.service.runtime.replay import Arrivals
    from betimes.service.runtime.service_backend import ServiceBackend
    from betimes.service.spec.groups import Groups
    from betimes.service.spec.queues import Queue

FILE = "config.toml"  # in the state directory
PREFIX = "BETIMES_UP_"
LEAST_POLL_S = 15.0


class Setting(NamedTuple):
    """A field of `ServiceConfig` in text and tables. `parse` raises ValueError naming the valid forms."""

    name: str
    help: str
    parse: Callable[[Any], Any]
    metavar: str | None = None
    default: str | None = None  # as a user would write it; null: the help explains the default
    repeats: bool = False  # it is given several times

    @property
    def is_switch(self) -> bool:
        """Whether its option has no value."""
        return self.parse is _yes

    @property
    def flag(self) -> str:
        """Its option of `betimes up`."""
        return _flag(self.name)


def _flag(name: str) -> str:
    """The option of a setting; the folder of a service is --service for every verb, as a state is a job's."""
    return "--service" if name == "state" else "--" + name.replace("_", "-")


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("give a text")
    return value


def _hook(value: Any) -> str:
    from betimes.service.runtime.notifications import missing_program
    from betimes.service.spec.job_spec import checked_hook

    hook = checked_hook(_text(value))
    if (program := missing_program(hook)) is not None:
        raise ValueError(f"there is no program {program!r} here; give a URL, or a command that can run")
    return hook


def _written(value: Any) -> str:
    """A quantity as text: a file may give it as a number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("give a text or a number")
    return str(value)


def _seconds(value: Any) -> float:
    return parse_duration(_written(value))


def _some_seconds(value: Any) -> float:
    seconds = _seconds(value)
    if seconds <= 0.0:
        raise ValueError("give a time above 0, such as 30s")
    return seconds


def _time(least: str, most: str) -> Callable[[Any], float]:
    def parse(value: Any) -> float:
        seconds = _seconds(value)
        if not parse_duration(least) <= seconds <= parse_duration(most):
            raise ValueError(f"give a time of {least} to {most}")
        return seconds

    return parse


def _poll_seconds(value: Any) -> float:
    seconds = _seconds(value)
    if seconds < LEAST_POLL_S:
        raise ValueError(f"give at least {LEAST_POLL_S:g}s, as sites forbid to ask more often")
    return seconds


def _mail(value: Any) -> str:
    from betimes.service.runtime.mail import checked_way

    return checked_way(_text(value))


def _mail_domain(value: Any) -> str:
    from betimes.service.runtime.mail import checked_domain

    return checked_domain(_text(value))


def _address(value: Any) -> str:
    from betimes.service.spec.spelling import checked_address

    return checked_address(_text(value))


def _path(value: Any) -> Path:
    return Path(_text(value)).expanduser()


def _yes(value: Any) -> bool:
    answers = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if not isinstance(value, bool) and str(value).lower() not in answers:
        raise ValueError("give true or false")
    return value if isinstance(value, bool) else answers[str(value).lower()]


def _whole(least: int, most: int | None = None) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        limits = f"from {least} to {most}" if most is not None else f"of at least {least}"
        try:
            number = least - 1 if isinstance(value, bool | float) else int(value)
        except (TypeError, ValueError):
            number = least - 1
        if number < least or (most is not None and number > most):
            raise ValueError(f"give a whole number {limits}")
        return number

    return parse


def _frac(value: Any, *, can_be_1: bool = True) -> float:
    try:
        share = float(_written(value))
    except ValueError:
        share = -1.0
    if not 0.0 < share < 1.0 and not (can_be_1 and share == 1.0):
        limits, example = ("up to 1", 0.5) if can_be_1 else ("below 1", 0.8)
        raise ValueError(f"give a fraction above 0 and {limits}, such as {example}")
    return share


def _one_of(*words: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in words:
            raise ValueError(f"give {', '.join(words[:-1])} or {words[-1]}")
        return value

    return parse


def _pace(value: Any) -> Pace | None:
    if value == "off":
        return None
    per_s, _, burst = _written(value).partition(":")
    try:
        pace = Pace(float(per_s), float(burst or per_s))
    except ValueError:
        pace = Pace(0.0, 0.0)
    if not (0.0 < pace.per_s < math.inf and 1.0 <= pace.burst < math.inf):
        raise ValueError("give a number above 0 and how many at once, at least 1, such as 50:500; or off")
    return pace


def _fleet(value: Any) -> str:
    if value not in ("local", "ec2") and not (
        isinstance(value, str) and value.removeprefix("command:") not in ("", value)
    ):
        raise ValueError(
            "give local, ec2, or command:DIR with a folder that holds the scripts rent, release and list"
        )
    return value


def _bytes(value: Any) -> int:
    return round(parse_gib(_written(value)) * 2**30)


def _queues(value: Any) -> tuple[Queue, ...]:
    from betimes.service.spec.queues import parse_queues

    return parse_queues(value)


def _groups(value: Any) -> Groups:
    from betimes.service.spec.groups import parse_groups

    return parse_groups(value)


def _no_groups() -> Groups:
    return _groups([])


def _texts(value: Any) -> tuple[str, ...]:
    """Several: flags that are repeated, an array of the file, or in the environment separated by commas."""
    found = value.split(",") if isinstance(value, str) else value
    if not isinstance(found, list | tuple):
        raise ValueError("give an array of texts")
    return tuple(_text(each) for each in found)  # pyright: ignore[reportUnknownVariableType]


def _setting(
    name: str,
    help: str,  # noqa: A002
    parse: Callable[[Any], Any] = _text,
    metavar: str | None = None,
    default: str | None = None,
    *,
    repeats: bool = False,
) -> dict[str, Setting]:
    return {"setting": Setting(name, help, parse, metavar, default, repeats)}


@dataclass(frozen=True, kw_only=True)
class ServiceConfig:
    """The set-up of a service; missing values are found. Fields without a setting are for Python alone."""

    state: Path = field(
        default_factory=default_state,
        metadata=_setting(
            "state", "Where everything is kept; by default BETIMES_STATE, or your own.", _path, "DIR"
        ),
    )
    port: int = field(
        default=0,
        metadata=_setting("port", "0: that of the last time, or a free one.", _whole(0, 65535), "N", "0"),
    )
    listen: str | None = field(
        default=None,
        metadata=_setting(
            "listen",
            "Let others connect at this address; by default only this machine can.",
            _text,
            "ADDRESS",
        ),
    )
    local_users: Literal["known", "any"] | None = field(
        default=None,
        metadata=_setting(
            "local_users",
            "Which other Unix users of this machine may use the service without a token, over a Unix socket: known: "
            "those of `betimes users`; any: each, as a user; by default none.",
            _one_of("known", "any"),
            "known|any",
        ),
    )
    socket: Path | None = field(
        default=None,
        metadata=_setting(
            "socket",
            "The Unix socket for --local-users, where they all can reach it; by default /run/betimes/socket for root, "
            "where clients look by themselves.",
            _path,
            "FILE",
        ),
    )
    certificate: Path | None = field(
        default=None,
        metadata=_setting(
            "certificate",
            "Let others connect with TLS only, at --listen and --port: a certificate in PEM, with those between it and "
            "its authority. This machine goes on without, on loopback.",
            _path,
            "FILE",
        ),
    )
    run_as_me: bool = field(
        default=False,
        metadata=_setting(
            "run_as_me",
            "Run the jobs of all users as the service's own user. By default jobs run as their owners where the "
            "service runs as root; where it does not, and on other machines, jobs of others are refused.",
            _yes,
        ),
    )
    key: Path | None = field(
        default=None, metadata=_setting("key", "The key of --certificate, in PEM.", _path, "FILE")
    )
    rate_limit: Pace | None = field(
        default=Pace(200.0, 2000.0),
        metadata=_setting(
            "rate_limit",
            "Requests a second that each token may make, and behind a colon how many at once after a rest; off: any "
            "number. An operator on this machine is never limited.",
            _pace,
            "N:BURST|off",
            "200:2000",
        ),
    )
    metrics: Literal["token", "local", "off"] = field(
        default="token",
        metadata=_setting(
            "metrics",
            "Who may read /metrics, for Prometheus: token: who has one; local: and each caller on this "
            "machine; off: nobody, and nothing is counted.",
            _one_of("token", "local", "off"),
            "token|local|off",
            "token",
        ),
    )
    read_all: bool = field(
        default=False,
        metadata=_setting(
            "read_all",
            "Let every user read the command and the output of all jobs, and not only of their own; the environment "
            "stays private.",
            _yes,
            default="false",
        ),
    )
    policy: str | None = field(
        default=None,
        metadata=_setting(
            "policy",
            "Who starts when; by default that of last time, or fifo. pool:fifo and nodes:fifo tell engines apart.",
            metavar="NAME[:k=v,...]",
        ),
    )
    policy_files: Path | None = field(
        default=None,
        metadata=_setting(
            "policy_files",
            "The folder from which users may put policies of their own in force, as DIR/FILE.py:NAME; by default none.",
            _path,
            "DIR",
        ),
    )
    nodes: Path | None = field(
        default=None,
        metadata=_setting(
            "nodes", "Virtual nodes, whose jobs only take time; by default this machine.", _path, "FILE.toml"
        ),
    )
    cloud: str | None = field(
        default=None,
        metadata=_setting(
            "cloud",
            "A made-up cloud to rent nodes from, whose jobs only take time: the offers of a cluster file or of a "
            "catalogue.",
            metavar="FILE.toml",
        ),
    )
    cluster: str | None = field(
        default=None,
        metadata=_setting(
            "cluster",
            "All of it in one file: its nodes as --nodes, its offers as --cloud; with a table [fleet] as --fleet and "
            "--ray.",
            metavar="FILE.toml",
        ),
    )
    fleet: str | None = field(
        default=None,
        metadata=_setting(
            "fleet",
            "Rent machines on which jobs really run, in place of made-up ones; local: processes of this machine, to "
            "try it out, of the offers of --cloud or of two small ones; command: by the scripts rent, release and "
            "list of a folder, of the offers of --cloud, and with --ray machines that join that cluster; ec2: machines "
            "of AWS, which join the cluster of --ray, of the offers and the table [ec2] of --cloud.",
            _fleet,
            "local|ec2|command:DIR",
        ),
    )
    ray: str | None = field(
        default=None,
        metadata=_setting(
            "ray",
            "Run jobs on the machines of a Ray cluster that this machine is a node of, instead of on this machine "
            "alone; auto: the cluster that runs here.",
            metavar="auto|HOST:PORT",
        ),
    )
    ray_share_frac: float = field(
        default=1.0,
        metadata=_setting(
            "ray_share",
            "How much of each machine's cores, memory and GPUs jobs may use, where others use the cluster too.",
            _frac,
            "FRACTION",
            "1.0",
        ),
    )
    ray_open: bool = field(
        default=False,
        metadata=_setting(
            "ray_open",
            "Join the cluster even if it has public addresses and asks for no token: a firewall closes its ports.",
            _yes,
        ),
    )
    slurm: bool = field(
        default=False,
        metadata=_setting(
            "slurm",
            "Watch the Slurm that is here, as its users may, and promise its jobs an end; nothing is decided here, and "
            "nothing is written to Slurm.",
            _yes,
        ),
    )
    slurm_bin: Path | None = field(
        default=None,
        metadata=_setting(
            "slurm_bin", "The directory of Slurm's commands; by default those of PATH.", _path, "DIR"
        ),
    )
    poll_s: float = field(
        default=60.0,
        metadata=_setting(
            "poll", "How often --slurm looks at the queue, at least 15s apart.", _poll_seconds, "TIME", "60s"
        ),
    )
    history_s: float = field(
        default=90 * 86400.0,
        metadata=_setting(
            "history",
            "How much of sacct --slurm learns from at its first start; 0: nothing.",
            _seconds,
            "TIME",
            "90d",
        ),
    )
    user_names: Literal["auto", "shown", "hashed"] = field(
        default="auto",
        metadata=_setting(
            "user_names",
            "Whether --slurm keeps the names of users and jobs, or hashes that tell them apart; auto: hashes where "
            "Slurm hides users (PrivateData), and readers see the jobs of others.",
            _one_of("auto", "shown", "hashed"),
            "auto|shown|hashed",
            "auto",
        ),
    )
    own_jobs_only: bool = field(
        default=False,
        metadata=_setting(
            "own_jobs_only",
            "With --slurm, show users who are no operators their own jobs alone, as is done without it where Slurm "
            "hides those of others (PrivateData=jobs).",
            _yes,
            default="false",
        ),
    )
    database: str | None = field(
        default=None,
        metadata=_setting("database", "postgresql://...; by default SQLite in DIR.", metavar="URL"),
    )
    default_run_s: float = field(
        default=3600.0,
        metadata=_setting(
            "usual", "Default run-time estimate for jobs without one.", _some_seconds, "TIME", "1h"
        ),
    )
    level: float = field(
        default=0.8,
        metadata=_setting(
            "interval",
            "The share of jobs that are to be done within the interval that they are promised.",
            partial(_frac, can_be_1=False),
            "FRACTION",
            "0.8",
        ),
    )
    restart_s: float | None = field(
        default=None,
        metadata=_setting(
            "restart",
            "What a job loses when it is started again; by default what that has taken of late.",
            _seconds,
            "TIME",
        ),
    )
    fair_share_s: float | None = field(
        default=None,
        metadata=_setting(
            "fair_share",
            "Users share by their weights: who used more of late goes later, and use that is so long ago counts half; "
            "by default whose jobs they are makes no difference.",
            _some_seconds,
            "TIME",
        ),
    )
    resize_interval_s: float = field(
        default=0.0,
        metadata=_setting(
            "resize_interval",
            "A job in a pool keeps the width that it has got for so long, unless it is preempted.",
            _seconds,
            "TIME",
            "0",
        ),
    )
    resize_gain: bool = field(
        default=False,
        metadata=_setting(
            "resize_gain", "A job changes its width only where it gains more than the restart costs.", _yes
        ),
    )
    lease_s: float = field(
        default=30.0,
        metadata=_setting(
            "lease",
            "A node that sends heartbeats is lost if this passes without one.",
            _some_seconds,
            "TIME",
            "30s",
        ),
    )
    keep_finished_s: float | None = field(
        default=None,
        metadata=_setting(
            "keep_finished",
            "Forget jobs, and what they printed, so long after their end; by default never.",
            _some_seconds,
            "TIME",
        ),
    )
    keep_runs: Keep | None = field(
        default=None,
        metadata=_setting(
            "keep_runs",
            "Remove what jobs printed, and their folders, so long after their end, or the oldest beyond an amount: "
            "30d, 20GiB, both as 30d,20GiB, or never. The jobs stay known.",
            lambda value: parse_keep(_written(value)),
            "TIME|SIZE",
            "365d",
        ),
    )
    keep_events: Keep | None = field(
        default=None,
        metadata=_setting(
            "keep_events",
            "Move events that are older, or beyond an amount, to files in DIR/archive: 30d, 1GiB, both, or never.",
            lambda value: parse_keep(_written(value)),
            "TIME|SIZE",
            "90d",
        ),
    )
    notify: str | None = field(
        default=None,
        metadata=_setting(
            "notify",
            "Who is notified when any job starts, ends or fails, and when its promise is broken, besides who a job "
            "names itself: a URL gets JSON by POST, a command runs with that as its standard input.",
            _hook,
            "URL|COMMAND",
        ),
    )
    mail: str | None = field(
        default=None,
        metadata=_setting(
            "mail",
            "How the mail is sent that jobs ask for (submit --mail-type): by a sendmail program of this machine, or "
            "over SMTP, smtp://[USER:PASSWORD@]HOST[:PORT] or smtps://.... By default none is sent.",
            _mail,
            "sendmail|URL",
        ),
    )
    mail_from: str | None = field(
        default=None,
        metadata=_setting(
            "mail_from", "The sender of mail; by default betimes@ this machine.", _address, "ADDRESS"
        ),
    )
    mail_domain: str | None = field(
        default=None,
        metadata=_setting(
            "mail_domain",
            "The domain of users' addresses, as in example.org; by default mail goes to the user of that name here.",
            _mail_domain,
            "DOMAIN",
        ),
    )
    node_health: str | None = field(
        default=None,
        metadata=_setting(
            "node_health",
            "A command that looks after each node, on which it is run: where it exits with another status than 0 the "
            "node is drained, with the last line that it has printed as the reason.",
            _text,
            "COMMAND",
        ),
    )
    node_health_every_s: float = field(
        default=300.0,
        metadata=_setting("node_health_every", "How often it is run.", _time("1s", "1d"), "TIME", "5m"),
    )
    prolog: str | None = field(
        default=None,
        metadata=_setting(
            "prolog",
            "A command that is run before each run of a job on each of its nodes, as the service's user: where it "
            "fails the node is drained, and the job goes back to the queue.",
            _text,
            "COMMAND",
        ),
    )
    epilog: str | None = field(
        default=None,
        metadata=_setting(
            "epilog",
            "A command that is run likewise after each run, before others get its place: where it fails the node is "
            "drained.",
            _text,
            "COMMAND",
        ),
    )
    prolog_limit_s: float = field(
        default=60.0,
        metadata=_setting(
            "prolog_limit",
            "The time that a prolog or an epilog has, which has failed otherwise.",
            _time("0.1s", "10m"),
            "TIME",
            "1m",
        ),
    )
    submit_filter: str | None = field(
        default=None,
        metadata=_setting(
            "submit_filter",
            "A command that gets each job that is submitted as JSON on its standard input, and writes it changed to "
            "its standard output, or refuses it by an exit status with the reason on standard error.",
            _text,
            "COMMAND",
        ),
    )
    submit_filter_limit_s: float = field(
        default=10.0,
        metadata=_setting(
            "submit_filter_limit",
            "The time that it has for a job, which is refused otherwise.",
            _time("0.1s", "10m"),
            "TIME",
            "10s",
        ),
    )
    upload_bytes: int = field(
        default=100 << 20,
        metadata=_setting(
            "upload_limit",
            "The most that a directory may hold which is sent along with a job (submit --upload).",
            _bytes,
            "SIZE",
            "100MiB",
        ),
    )
    retune: tuple[str, ...] = field(
        default=(),
        metadata=_setting(
            "retune",
            "Search for a Pareto front on the recent workload again and again: after so long, when workload or "
            "prediction errors have drifted, or both (give it twice). What is found is proposed.",
            _texts,
            "TIME|drift",
            repeats=True,
        ),
    )
    retune_objective: tuple[str, ...] = field(
        default=(),
        metadata=_setting(
            "retune_objective",
            "For what, once for each; by default those that --retune-apply bounds, else jct:avg and pred_err:avg.",
            _texts,
            "METRIC:MEASURE",
            repeats=True,
        ),
    )
    retune_jobs: int | None = field(
        default=None,
        metadata=_setting(
            "retune_jobs",
            "On so many jobs, and as many after them to report on; by default 1,000.",
            _whole(2),
            "N",
        ),
    )
    retune_apply: tuple[str, ...] = field(
        default=(),
        metadata=_setting(
            "retune_apply",
            "Put the proposed point in force unasked if it keeps this, once for each objective: jct:avg<=1.05 (times "
            "are factors of what the policy in force brings), pred_err:p99<=0.2, slowdown:p95<=1.1x.",
            _texts,
            "METRIC:MEASURE<=X",
            repeats=True,
        ),
    )
    budget: Budgets = field(
        default=Budgets(),
        metadata=_setting(
            "budget",
            "The most that all rented machines may cost a day or a month, as in 50usd/day; and that they may cost for "
            "a user's jobs, as in ann=20usd/day or ann=50 (a month), where * is each user else. By default any amount. "
            "Repeatable.",
            lambda value: parse_budgets(_texts(value)),
            "[USER=]USD[/day|/month]",
            repeats=True,
        ),
    )
    most_machines: int | None = field(
        default=None,
        metadata=_setting(
            "most_machines", "The most machines rented at once; by default any number.", _whole(0), "N"
        ),
    )
    longest_lease_s: float | None = field(
        default=None,
        metadata=_setting(
            "longest_lease",
            "A rented machine is given back after so long, whatever runs there; by default never.",
            _some_seconds,
            "TIME",
        ),
    )
    queues: tuple[Queue, ...] = field(
        default=(),
        metadata=_setting(
            "queues",
            "Queues, which Slurm calls partitions: a file of tables [[queues]] with name, default, require, "
            "default_time, max_time, max_cpu, max_gpu, max_array, users and priority; in a file of settings the tables "
            "themselves. By default none.",
            _queues,
            "FILE.toml",
        ),
    )
    groups: Groups = field(
        default_factory=_no_groups,
        metadata=_setting(
            "groups",
            "Groups of users: a file of tables [[groups]] with name, users, weight, max_running_jobs, max_queued_jobs, "
            "max_units, usd_per_day, usd_per_month, default_time, max_time and max_array; in a file of settings the "
            "tables themselves. By default none.",
            _groups,
            "FILE.toml",
        ),
    )
    resources: dict[str, int] = field(
        default_factory=dict[str, int],
        metadata=_setting(
            "resource",
            "How much there is of something that jobs need besides machines, as of licences; they ask for it with "
            "--resource. Repeatable.",
            lambda value: parse_resources(_texts(value)),
            "NAME=N",
            repeats=True,
        ),
    )

    as_copy: bool = False  # the state is a copy of another, which goes on
    accepts_loss: bool = False  # start also where the log lacks what the state directory shows
    machines: list[Machine] | None = None
    """Virtual ones, in place of those of `nodes`, `cluster` or this machine."""
    rents_from: OpenCloud | None = None  # in place of `cloud`
    rented_nodes: RentedNodes | None = None  # the machines rented from there that join the Ray cluster
    kernels: Kernels | None = None
    arrivals: Arrivals | None = None  # of a replayed trace
    page: Callable[[ServiceBackend, Context], ASGIApp] | None = None  # makes the pages; null: there are none
    speed: float = 3600.0  # of a replay; infinity: as fast as it goes
    promises: int | None = None  # to so many of its jobs, evenly spread; by default to all

    def __post_init__(self) -> None:
        others = {"--ray": self.ray, "--fleet": self.fleet, "--cluster": self.cluster, "--nodes": self.nodes}
        others |= {"--cloud": self.cloud, "--policy": self.policy, "--replay": self.arrivals}
        others |= {"--queues": self.queues or None}
        other = next((option for option, given in others.items() if given is not None), None)
        if self.slurm and other is not None:
            raise InputError(f"--slurm: Slurm decides, and has the nodes; leave out {other}")
        if not self.slurm and self.slurm_bin is not None:
            raise InputError("--slurm-bin is about an existing Slurm; add --slurm")
        if not self.slurm and self.own_jobs_only:
            raise InputError("--own-jobs-only is about an existing Slurm; add --slurm")
        if self.local_users is not None:
            from betimes.service.access.peers import check_local  # loads asyncio

            check_local(self.socket)
        elif self.socket is not None:
            raise InputError(f"--socket {self.socket}: say who may use it (--local-users known, or any)")
        if self.ray is None and (self.ray_open or self.ray_share_frac != 1.0):
            raise InputError("--ray-share and --ray-open are about a Ray cluster; name it (--ray auto)")
        if self.ray is not None and self.has_virtual_nodes:
            raise InputError(
                f"--ray {self.ray}: virtual nodes are given too; leave out --ray, or --nodes, --cluster and --replay "
                "(a cluster file with a table [fleet] names it there: ray)"
            )
        others = {
            "--ray": self.ray if self.fleet == "local" else None,
            "--nodes": self.nodes,
            "--cluster": self.cluster,
            "--replay": self.arrivals,
        }
        other = next((option for option, given in others.items() if given is not None), None)
        if self.fleet is not None and other is not None:
            raise InputError(
                f"--fleet {self.fleet}: jobs run on this machine and on those that are rented; leave out {other} "
                "(--cloud FILE.toml says what there is to rent)"
            )
        joins = self.fleet == "ec2" or (self.fleet not in (None, "local") and self.ray is not None)
        if joins and (self.ray in (None, "auto") or self.ray.startswith(("127.", "localhost"))):
            raise InputError(
                f"--fleet {self.fleet}: machines join a Ray cluster; start its head here (`ray start --head`), and "
                "name it by an address that they reach (--ray HOST:6379)"
            )
        if self.fleet not in (None, "local") and self.cloud is None:
            raise InputError(f"--fleet {self.fleet}: say what there is to rent (--cloud FILE.toml)")
        if (self.certificate is None) != (self.key is None):
            raise InputError("--certificate and --key belong together; give both")
        if self.certificate is not None and not (self.listen and self.port):
            raise InputError("--certificate: say where others connect (--listen ADDRESS --port N)")
        if self.cluster is not None and (self.nodes is not None or self.cloud is not None):
            option = "--nodes" if self.nodes is not None else "--cloud"
            raise InputError(f"--cluster: {option} is given too; leave one of them out")

    @property
    def mail_settings(self) -> MailSettings | None:
        """The way in which mail is sent; null: none is."""
        from betimes.service.runtime.mail import MailSettings

        return None if self.mail is None else MailSettings(self.mail, self.mail_from, self.mail_domain)

    @property
    def public_url(self) -> str | None:
        """The address for others, where it is encrypted."""
        if self.certificate is None or self.listen is None:
            return None
        host = self.listen.strip("[]")
        return f"https://[{host}]:{self.port}" if ":" in host else f"https://{host}:{self.port}"

    @property
    def has_virtual_nodes(self) -> bool:
        """Whether the nodes are described, rather than found."""
        return not (
            self.machines is None and self.nodes is None and self.cluster is None and self.arrivals is None
        )


SETTINGS: dict[str, Setting] = {
    each.name: each.metadata["setting"] for each in fields(ServiceConfig) if each.metadata
}
"""Settings from text, by field of `ServiceConfig`."""


class Given(NamedTuple):
    """The value of a setting, as written, and where."""

    value: Any
    written: Any
    where: str


def read_settings(
    flags: Mapping[str, Any], file: Path | None = None, environ: Mapping[str, str] = os.environ
) -> dict[str, Given]:
    """The settings, by field of `ServiceConfig`.

    flags: values of options by name of setting, null where they are not given. file: in place of `config.toml` in the
    state directory, which need not exist. Raises InputError, naming the flag, variable, or file and key.
    """
    found: dict[str, Given] = {}
    by_variable = {PREFIX + setting.name.upper(): setting.name for setting in SETTINGS.values()}
    for variable in (each for each in environ if each.startswith(PREFIX)):
        if variable not in by_variable:
            raise InputError(
                f"{variable}: no such setting{_near(variable, by_variable)}; `betimes service config` lists all"
            )
        _take(found, by_variable[variable], environ[variable], variable, Path())
    for name, value in flags.items():
        if value not in (None, False, []):
            _take(found, name, value, _flag(name), Path())
    state: Path = found["state"].value if "state" in found else default_state()
    if file is None:
        file = state / FILE
        if not file.exists():
            return found
    for name, value in _table(file).items():
        if name == "state":
            raise InputError(
                f"{file}: state: a state directory is named by --service or BETIMES_STATE; leave this out"
            )
        _take(found, name, value, f"{file}: {name}", file.absolute().parent, replaces=False)
    return found


def _take(
    found: dict[str, Given], name: str, written: Any, where: str, folder: Path, replaces: bool = True
) -> None:
    """Read one setting; names of files are of `folder`."""
    at = next((at for at, setting in SETTINGS.items() if setting.name == name), None)
    if at is None:
        raise InputError(
            f"{where}: no such setting{_near(name, (each.name for each in SETTINGS.values()))}; "
            "`betimes service config` lists all"
        )
    if name in ("queues", "groups") and isinstance(written, str):
        written = str((folder / Path(written).expanduser()).absolute())
    try:
        value = SETTINGS[at].parse(written)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None
    if isinstance(value, Path):
        value = (folder / value).absolute()
    elif name == "policy":
        value = with_full_names(value, folder)
    elif name == "fleet" and value not in ("local", "ec2"):
        value = f"command:{(folder / value.removeprefix('command:')).absolute()}"
    elif name in ("cloud", "cluster") and (folder / value).is_file():
        value = str((folder / value).absolute())  # else it is the name of a catalogue
    if replaces or at not in found:
        found[at] = Given(value, written, where)


def _table(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{file}: cannot be read as TOML: {error}") from None


def _near(name: str, known: Iterable[str]) -> str:
    close = nearest(name, known)
    return f" (did you mean {close[0]}?)" if close else ""
