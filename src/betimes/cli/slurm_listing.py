"""Slurm's squeue, sacct and sinfo: which jobs and nodes they list, and in which form.

Source: the manual pages of Slurm 24.11, and what Slurm 22.05 prints.
"""

from __future__ import annotations

import re
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

from betimes.cli.slurm_fields import (
    ACCOUNTING,
    BRIEF,
    LONG_ACCOUNTING,
    Columns,
    accounting,
    by_letters,
    by_names,
    fields_of,
    sorted_by,
    text_of,
)
from betimes.cli.slurm_jobs import (
    ACTIVE,
    RECENT_S,
    SHORT,
    Listed,
    SharedAnswers,
    by_number,
    check_known,
    cores,
    partitions,
    ranges,
    reason_of,
    service_here,
    state_of,
)
from betimes.cli.slurm_options import Asked
from betimes.cli.slurm_values import LONG_STATES, OF_JOB, OF_NODES, OF_QUEUE, Group, state_of_node
from betimes.errors import InputError, NotAllowed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from betimes.cli.slurm_jobs import Job
    from betimes.client.calls import Conditions
    from betimes.client.plain import PlainClient

_QUEUE = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
_LONG_QUEUE = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
_START_QUEUE = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
_NODES = {
    (False, False): "%#P %.5a %.10l %.6D %.6t %N",
    (False, True): "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N",
    (True, False): "%#N %.6D %.#P %6t",
    (True, True): "%#N %.6D %.#P %.11T %.4c %.8z %.6m %.8d %.6w %.8f %20E",
}
"""Lines of `sinfo`, by whether each node has its own, and whether they are long."""
_SUMMARY = "%#P %.5a %.10l %.16F %N"
_REASONS = {False: "%20E %9u %19H %N", True: "%20E %12U %19H %6t %N"}

# --- the commands ---


def squeue(words: Sequence[str]) -> None:
    """List jobs; without conditions those that wait or run."""
    asked = Asked("squeue", words)
    if asked.has("helpFormat"):
        return _list_fields("squeue")
    is_start = asked.has("start")
    usual = _START_QUEUE if is_start else _LONG_QUEUE if asked.has("long") else _QUEUE
    columns = _columns(asked, usual)
    order = asked.value("sort") or ("S,i" if is_start else "P,t,i")

    def show(service: PlainClient) -> None:
        found = [
            job for job in chosen(service, asked, recent=True) if not is_start or state_of(job) == "PENDING"
        ]
        if not found and (asked.value("jobs") or ",").isdecimal():
            check_known(service, asked.values["jobs"])
        if asked.has("json"):
            return _as_json(asked, found)
        if not (asked.has("array") or asked.has("array-unique") or "_" in asked.values.get("jobs", "")):
            found = in_one(found)
        _print(columns.lines(sorted_by("squeue", order, found), heads=not asked.has("noheader")))
        return None

    return _repeated(asked, show)


def sacct(words: Sequence[str]) -> None:
    """List jobs, also those that are over: without conditions your own since midnight."""
    asked = Asked("sacct", words)
    if asked.has("helpformat"):
        return _list_fields("sacct")
    usual = LONG_ACCOUNTING if asked.has("long") else BRIEF if asked.has("brief") else ACCOUNTING
    columns = accounting(asked.value("format") or usual)
    with service_here() as service:
        found = list(chosen(service, asked, recent=False))
        if asked.has("json"):
            return _as_json(asked, found)
        if not (asked.has("array") or "_" in asked.values.get("jobs", "")):
            found = in_one(found)
        rows = [[text_of(field, job) for field, _ in columns] for job in found]
    return print_table(asked, [(field.head, width) for field, width in columns], rows)


def print_table(asked: Asked, columns: Sequence[tuple[str, int]], rows: Sequence[Sequence[str]]) -> None:
    """Print rows as sacct and sacctmgr do; columns: heads and widths."""
    heads = [head for head, _ in columns]
    if asked.has("parsable") or asked.has("parsable2"):
        between = asked.value("delimiter") or "|"
        end = between if asked.has("parsable") else ""
        lines = [between.join(row) + end for row in [*([] if asked.has("noheader") else [heads]), *rows]]
    else:
        rules = [] if asked.has("noheader") else [heads, ["-" * abs(width) for _, width in columns]]
        lines = ["".join(map(_cell, row, (width for _, width in columns))) for row in [*rules, *rows]]
    _print(lines)


def sinfo(words: Sequence[str]) -> None:
    """List the nodes by their partition, which is a queue, and their state."""
    asked = Asked("sinfo", words)
    if asked.has("helpFormat"):
        return _list_fields("sinfo")
    is_long, by_itself, is_summary = asked.has("long"), asked.has("Node"), asked.has("summarize")
    usual = _SUMMARY if is_summary else _NODES[by_itself, is_long]
    columns = _columns(asked, _REASONS[is_long] if asked.has("list-reasons") else usual)
    shown = {field.value for field, _, _ in columns.columns}
    by_itself |= not _OF_ONE.isdisjoint(field.name for field, _, _ in columns.columns)
    alike = [OF_NODES[value] for value in _SAME if value in shown]
    has_queue = not shown.isdisjoint(OF_QUEUE)
    queues, names = asked.words("partition"), _hosts(asked.value("nodes"))
    states = {state.lower() for state in asked.words("states") or ()} - {"all"}
    if asked.has("list-reasons") and not states:
        states = {"down", "drain", "drng"}

    def show(service: PlainClient) -> None:
        rows: dict[Any, Group] = {}
        there = [each for each in partitions(service) if queues is None or each.name in queues]
        for partition, node in ((each, node) for each in there for node in each.nodes):
            state = state_of_node(node)
            if states and states.isdisjoint((state, LONG_STATES.get(state, state), *_WIDER.get(state, ()))):
                continue
            if (names is not None and node.name not in names) or (
                (asked.has("dead") and state != "down") or (asked.has("responding") and state == "down")
            ):
                continue
            key: Any = node.name if by_itself else state if shown & {"state", "long_state"} else ""
            alone = Group(state, {node.name: node}, partition)
            key = key, *(text(alone) for text in alike)
            if asked.has("exact"):
                key = key, node.cpu, node.memory_gib, node.gpu
            group = rows.setdefault((partition.name if has_queue else "", key), Group(state, {}, partition))
            group.by_name[node.name] = node
        found = (
            sorted_by("sinfo", asked.values["sort"], [*rows.values()])
            if asked.has("sort")
            else [*rows.values()]
        )
        _print(columns.lines(found, heads=not asked.has("noheader")))

    return _repeated(asked, show)


_WIDER = {"drng": ("drain",)}
_OF_ONE = {"NodeHost", "NodeAddr"}
_SAME = ("features", "gres", "gres_used", "reason", "reason_at", "reason_user")
"""Columns of `sinfo` that are of one node each, and those in which the nodes of a line are the same, as with Slurm."""


def _columns(asked: Asked, usual: str) -> Columns:
    if asked.value("Format"):
        return by_names(asked.command, asked.values["Format"])
    return by_letters(asked.command, asked.value("format") or usual)


def _repeated(asked: Asked, show: Callable[[PlainClient], None]) -> None:
    """Show once, or with --iterate again and again; long and repeated forms begin with the time, as with Slurm."""
    every = asked.value("iterate")
    if every is not None and not (re.fullmatch(r"\d{1,6}", every) and int(every)):
        raise InputError(f"--iterate={every[:20]}: is not a number of seconds; give 1 or more")
    has_time = (every or asked.has("long")) and not (asked.has("noheader") or asked.has("json"))
    while True:
        if has_time:
            print(time.strftime("%a %b %e %H:%M:%S %Y"))
        with service_here() as service:
            show(service)
        if every is None:
            return
        print(flush=True)
        time.sleep(int(every))


def _list_fields(command: str) -> None:
    names = [field.name for field in fields_of(command)]
    _print(
        [" ".join(name.ljust(20) for name in names[at : at + 4]).rstrip() for at in range(0, len(names), 4)]
    )


def _as_json(asked: Asked, found: Sequence[Listed]) -> None:
    from betimes.cli.slurm_json import document

    print(document(asked.command, found))


def _print(lines: Iterable[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _cell(text: str, width: int) -> str:
    """A column of `sacct`, cut with a `+`; to the left where the width is less than 0."""
    if len(text) > abs(width):
        text = text[: abs(width) - 1] + "+"
    return (text.ljust(-width) if width < 0 else text.rjust(width)) + " "


# --- which jobs ---


def chosen(service: PlainClient, asked: Asked, *, recent: bool) -> Iterator[Listed]:
    """The jobs that the options name, the oldest first.

    recent: those that are over only where their states are named, and for `RECENT_S`.
    """
    wanted = {each for state in asked.words("states", "state") or () for each in _statuses(state.upper())}
    window = _window(asked) if asked.command == "sacct" else None
    by = _filters(service, asked)
    there, now_s, unit = SharedAnswers(service), time.time(), _unit(asked)
    for view in _of_service(there, asked, only_active=recent and not wanted):
        job = Listed(view, there, unit=unit, tells_start=asked.has("start"))
        if window is not None:
            if not _was(view, wanted, *window):
                continue
            if asked.has("truncate"):
                _truncate(job, *window)
        elif wanted and state_of(view) not in wanted:
            continue
        if (
            recent
            and view.status not in ACTIVE
            and (not wanted or (view.finished_at or 0.0) < now_s - RECENT_S)
        ):
            continue
        if all(holds(job) for holds in by):
            yield job


def in_one(found: Sequence[Listed]) -> list[Listed]:
    """With the waiting elements of an array that wait for the same as one, where the first of them is."""
    waiting: dict[Any, list[Listed]] = {}
    for job in found:
        is_waiting = job.array_id is not None and job.array_index is not None and state_of(job) == "PENDING"
        key = (job.array_id, job.reason and job.reason.code) if is_waiting else job.job_id
        waiting.setdefault(key, []).append(job)
    for jobs in waiting.values():
        if len(jobs) > 1:
            jobs[0].indices = ranges(job.array_index for job in jobs)
    return [jobs[0] for jobs in waiting.values()]


def _of_service(there: SharedAnswers, asked: Asked, *, only_active: bool) -> Iterable[Job]:
    if asked.value("jobs"):
        return by_number(there.service, asked.values["jobs"], intervals=asked.has("start"))
    which: Conditions = {"intervals": True} if asked.has("start") else {}
    if only_active:
        which["status"] = ACTIVE
    names = asked.words("name")
    if names is not None and len(names) == 1:
        which["name"] = next(iter(names))
    return there.listed(which)[::-1]


def _filters(service: PlainClient, asked: Asked) -> list[Callable[[Listed], bool]]:
    """The conditions that each listed job meets."""
    found: list[Callable[[Listed], bool]] = []
    by_value = {"account": "account", "accounts": "account", "name": "name", "jobname": "name",
                "partition": "partition", "qos": "qos",
                "reservation": "reservation", "wckeys": "wckey"}  # fmt: skip
    for option, value in by_value.items():
        words = asked.words(option)
        if words is not None:
            found.append(lambda job, words=words, value=value: OF_JOB[value](job) in words)
    if (licenses := asked.words("licenses")) is not None:
        found.append(lambda job: not licenses.isdisjoint(_readable(lambda: job.spec.get("resources", {}))))
    if (features := asked.words("constraints")) is not None:
        found.append(lambda job: features <= set(_readable(lambda: OF_JOB["features"](job).split("&"))))
    if (reasons := asked.words("reason")) is not None:
        found.append(lambda job: reason_of(job) in reasons)
    if (nodes := _hosts(asked.value("nodelist"))) is not None:
        found.append(lambda job: not nodes.isdisjoint(_readable(lambda: job.nodes)))
    for option, count in (
        ("ncpus", cores),
        ("nnodes", lambda job: max(1, len(job.nodes))),
    ):
        if (text := asked.value(option)) is not None:
            least, most = _span(option, text)
            found.append(
                lambda job, count=count, least=least, most=most: any(
                    least <= each <= most for each in _readable(lambda: [count(job)])
                )
            )
    return [*found, *_of_users(service, asked)]


def _readable(read: Callable[[], Iterable[Any]]) -> Iterable[Any]:
    """The result of `read`; empty for a job of others that only they may read."""
    try:
        return read()
    except NotAllowed:
        return ()


def _of_users(service: PlainClient, asked: Asked) -> list[Callable[[Listed], bool]]:
    """The users whose jobs are shown: those named; of `sacct` the caller, unless an operator asks or jobs are named."""
    users = asked.words("user", "uid")
    if asked.has("me") or (users is None and asked.has("notme")):
        me = service.me().user
        return [lambda job: (job.user == me) is asked.has("me")]
    if users is None and asked.command == "sacct" and not (asked.has("allusers") or asked.value("jobs")):
        caller = service.me()
        users = None if caller.role == "operator" else {caller.user}
    if users is None:
        return []
    names = {_name_of(user) for user in users}
    return [lambda job: job.user in names]


def _name_of(user: str) -> str:
    """A user's name, by the number on this machine if that is given."""
    if not user.isdecimal():
        return user
    import pwd

    try:
        return pwd.getpwuid(int(user)).pw_name
    except (KeyError, OverflowError):
        return user


def _hosts(text: str | None) -> set[str] | None:
    """Nodes as in `a[1-3],b`; this machine's name means the service's own. Null: all."""
    if text is None:
        return None
    from betimes.slurm.hostlist import hostnames

    found = set(hostnames(text))
    return found | {"local"} if found & {"localhost", socket.gethostname()} else found


def _span(option: str, text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", text)
    if match is None:
        raise InputError(f"--{option}={text[:20]}: is not a number or a range; write 2 or 2-8")
    return int(match[1]), int(match[2] or match[1])


def _unit(asked: Asked) -> str:
    unit = asked.value("units") or ("M" if asked.has("noconvert") else "")
    if unit.upper() not in ("", *"KMGTP"):
        raise InputError(f"--units={unit[:20]}: is not known; of K, M, G, T, P")
    return unit.upper()


# --- states and times ---


def _statuses(state: str) -> list[str]:
    """The long names of a state, or all. Raises InputError."""
    if state == "ALL":
        return list(SHORT)
    found = [name for name, short in SHORT.items() if state in (name, short)]
    if not found and state not in _NEVER.split():
        raise InputError(f"state {state[:40]!r}: is not known; of {', '.join(SHORT)}, or all")
    return found or ["no job is ever that"]


_NEVER = """
BF BOOT_FAIL CF CONFIGURING DEADLINE DL LAUNCH_FAILED POWER_UP_NODE PR PREEMPTED RD RECONFIG_FAIL REQUEUED REQUEUE_FED
REQUEUE_HOLD RESIZING RESV_DEL_HOLD REVOKED RF RH RQ RS RV SE SI SIGNALING SO SPECIAL_EXIT ST STAGE_OUT STOPPED
UPDATE_DB
"""
"""States of Slurm in which no job is here."""


def _window(asked: Asked) -> tuple[float, float]:
    """The time of which sacct tells, s since 1970: since midnight; with states now; with jobs always."""
    now_s = time.time()
    until = asked.value("endtime")
    last_s = now_s if until is None else time_of("endtime", until)
    since = asked.value("starttime")
    if since is not None:
        first_s = time_of("starttime", since)
    elif asked.value("jobs"):
        first_s = 0.0
    elif asked.value("state"):
        first_s = last_s
    else:
        first_s = time_of("starttime", "midnight")
    if first_s > last_s:
        if until is not None:
            raise InputError(f"--starttime is after --endtime={until}; write the earlier one first")
        last_s = first_s
    return first_s, last_s


def _was(job: Job, wanted: set[str], first_s: float, last_s: float) -> bool:
    """Whether a job was there at a time, or where states are named was in one of them then."""
    over_s, state = job.finished_at, state_of(job)
    if not wanted:
        return job.submitted_at <= last_s and (over_s is None or over_s >= first_s)
    began_s = job.started_at or over_s
    waits = job.submitted_at <= last_s and (began_s is None or began_s >= first_s)
    runs = job.started_at is not None and job.started_at <= last_s and (over_s is None or over_s >= first_s)
    is_over = over_s is not None and first_s <= over_s <= last_s
    return (
        ("PENDING" in wanted and waits)
        or ("RUNNING" in wanted and runs)
        or (state in wanted and (is_over or over_s is None))
    )


def _truncate(job: Listed, first_s: float, last_s: float) -> None:
    """Let it start and end within the time that is told of."""
    if job.started_at is not None:
        ended_s = job.finished_at
        job.started_at = max(job.started_at, first_s)
        job.view["finished_at"] = min(last_s, ended_s) if ended_s is not None else last_s


_DATE = r"(?:(\d{4})-(\d\d?)-(\d\d?)|(\d\d?)[./](\d\d?)(?:[./](\d\d))?|(\d\d)(\d\d)(\d\d)?)"
_TIME = rf"(?i)(?:{_DATE}(?:[-T ](?=\d)|$))?(?:(\d\d?):(\d\d)(?::(\d\d))?([ap]m)?)?"
_HOURS = {"today": 0, "midnight": 0, "noon": 12, "fika": 15, "teatime": 16}


def time_of(option: str, text: str) -> float:
    """A time of Slurm, s since 1970, of the past where no day is given: `2026-11-27T18:00`, `11/27/26-18:00`, `6:30PM`,
    `noon`, `now-2days`. Raises InputError.
    """
    from datetime import datetime  # which most calls need not

    relative = re.fullmatch(r"now(?:([+-]\d{1,9})(second|minute|hour|day|week)?s?)?", text)
    if relative is not None:
        unit_s = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
        return time.time() + (int(relative[1]) * unit_s[relative[2] or "second"] if relative[1] else 0)
    today = datetime.now().replace(hour=0, minute=0, second=0, microsecond=0)
    if text in _HOURS:
        return today.replace(hour=_HOURS[text]).timestamp()
    match = re.fullmatch(_TIME, text)
    try:
        if match is None or not text:
            raise ValueError(text)
        full, american, plain, clock = (match.groups()[at : at + 3] for at in (0, 3, 6, 9))
        year, month, day = full if full[0] else (found := american if american[0] else plain)[2:] + found[:2]
        if month is not None:
            years = today.year if year is None else int(year) + (2000 if len(year) == 2 else 0)
            today = today.replace(year=years, month=int(month), day=int(day))
        hour = int(clock[0] or 0)
        if half := (match[13] or "").lower():
            hour = hour % 12 + (12 if half == "pm" else 0)
        at = today.replace(hour=hour, minute=int(clock[1] or 0), second=int(clock[2] or 0)).timestamp()
    except ValueError:
        raise InputError(
            f"--{option}={text[:40]}: is not a time; write 2026-11-27T18:00, 18:00, today, now or now-2days"
        ) from None
    return at - 86_400 if month is None and at > time.time() else at
