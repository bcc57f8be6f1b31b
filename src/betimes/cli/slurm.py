"""Slurm's commands over the client of the command line: sbatch, squeue, scancel, sacct, sinfo, and how all are called.

`betimes slurm-commands DIR` puts them there, with `srun` and `scontrol`, which are in other modules. Options and
output are those that scripts and clients use (submitit, dask-jobqueue, parsl, Snakemake, Nextflow); an option that is
not known is an error that names it. Source: the manual pages of Slurm 24.11.
"""

from __future__ import annotations

import math
import os
import re
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from betimes.cli.slurm_jobs import (
    ACTIVE,
    PARTITION,
    RECENT_S,
    SHORT,
    VERSION,
    Job,
    amount,
    by_number,
    check_known,
    clock,
    cores,
    elapsed,
    exit_code,
    full_clock,
    instant,
    number_of,
    of_story,
    place,
    ran_s,
    reason_of,
    say_start,
    service_here,
    state_of,
    tell,
    time_limit,
)
from betimes.cli.verbs import Argument
from betimes.errors import BetimesError, InputError
from betimes.printing import printable, report
from betimes.service.spec.spelling import signal_name, signal_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from betimes.client.calls import Conditions
    from betimes.client.plain import PlainClient

_NODE_STATES = {"mix": "mixed", "drng": "draining", "drain": "drained"}
_QUEUE = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
_LONG_QUEUE = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
_START_QUEUE = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
_NODES = {
    (False, False): "%9P %.5a %.10l %.6D %.6t %N",
    (False, True): "%9P %.5a %.10l %.6D %.11T %N",
    (True, False): "%15N %.6D %.9P %.6t",
    (True, True): "%15N %.6D %.9P %.11T %.4c %.8m %.10G",
}
"""Lines of `sinfo`, by whether each node has its own, and whether they are long."""
_SUMMARY = "%9P %.5a %.10l %.16F %N"

# --- the commands ---


def sbatch(words: Sequence[str]) -> None:
    """Submit a script: of a file, of standard input, or of --wrap."""
    from betimes.cli.live.connection import connect
    from betimes.cli.live.following import Left
    from betimes.cli.live.jobs.submit import INPUT, with_numbers
    from betimes.cli.live.jobs.wait import wait_for
    from betimes.service.spec.sbatch import from_environment, read_script, split_command

    options, rest = split_command(words)
    options = [*from_environment("SBATCH_"), *options]
    asked = {each.name: each.value for each in options}
    if rest:
        path, name = rest[0], None
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})"
            ) from None
    else:
        path, name, text = INPUT, "sbatch", ""
    if "wrap" in asked and rest:
        raise InputError("--wrap: a script is given as well; leave one of them out")
    if "wrap" in asked:
        name, text = "wrap", f"#!/bin/sh\n{asked['wrap']}\n"
    elif not rest:
        text = sys.stdin.read()
    batch = read_script(text, path, options=options, arguments=rest[1:], name=name)
    for note in batch.notes:
        report("sbatch: note", note)
    fields, asked = batch.fields, batch.options
    fields.setdefault("output", "slurm-%A_%a.out" if "array" in fields else "slurm-%j.out")
    with connect(None, waits="wait" in asked) as service:
        fields = with_numbers(service, fields)
        if "test-only" in asked:
            say_start("sbatch", fields, service.quote(fields))
            return
        job_ids = service.submit(fields).job_ids
        if "parsable" in asked:
            print(job_ids[0])
        elif "quiet" not in asked:
            print(f"Submitted batch job {job_ids[0]}")
        if "wait" in asked:
            sys.stdout.flush()
            over = [job for job in wait_for(service, job_ids) if job.status != "finished"]
            codes = [int(exit_code(service.job(job.job_id).runs).partition(":")[0]) for job in over]
            if codes:
                raise Left(max(codes) or 1)


def squeue(words: Sequence[str]) -> None:
    """List jobs; without conditions those that wait or run."""
    asked = Asked(
        words,
        switches={"noheader": "h", "me": "", "all": "a", "array": "r", "start": "", "long": "l", "priority": "P"},
        values={
            "format": "o", "states": "t", "jobs": "j", "user": "u", "users": "", "name": "n", "names": "",
            "partition": "p", "clusters": "M", "job": "",
        },
        command="squeue",
    )  # fmt: skip
    usual = _START_QUEUE if asked.has("start") else _LONG_QUEUE if asked.has("long") else _QUEUE
    pattern = asked.value("format") or usual
    with service_here() as service:
        found = list(_chosen(service, asked, recent=True))
        if not found and (asked.value("jobs") or ",").isdecimal():
            check_known(service, asked.values["jobs"])
        if asked.has("start"):
            found = [job for job in found if state_of(job) == "PENDING"]
            found.sort(key=lambda job: _expected(job, "start_at") or math.inf)
        if re.search(r"%\.?\d*[NR]", pattern):
            place(service, found)
        if re.search(r"%\.?\d*[lLCm]", pattern):
            tell(service, found)
    _print(pattern, _QUEUE_FIELDS, found, heads=not asked.has("noheader"))


def sacct(words: Sequence[str]) -> None:
    """List jobs, also those that are over."""
    asked = Asked(
        words,
        switches={
            "noheader": "n", "parsable": "p", "parsable2": "P", "allocations": "X", "allusers": "a", "long": "l",
            "duplicates": "D",
        },
        values={
            "format": "o", "jobs": "j", "job": "", "user": "u", "name": "", "state": "s", "starttime": "S",
            "endtime": "E", "clusters": "M", "accounts": "A", "partition": "r",
        },
        command="sacct",
    )  # fmt: skip
    names = [
        each.partition("%")
        for each in (asked.value("format") or "jobid,jobname,partition,state,exitcode").split(",")
    ]
    known = {name.lower(): name for name in _ACCOUNT_FIELDS}
    for name, _, _ in names:
        if name.lower() not in known:
            raise InputError(f"--format {name}: is not known; of {', '.join(_ACCOUNT_FIELDS)}")
    columns = [known[name.lower()] for name, _, _ in names]
    with service_here() as service:
        found = list(_chosen(service, asked, recent=False))
        if "NodeList" in columns:
            place(service, found)
        if not _OF_STORY.isdisjoint(columns):
            tell(service, found)
        elif "ExitCode" in columns:
            tell(service, [job for job in found if job.status == "failed"])
    rows = [columns] if not asked.has("noheader") else []
    rows += [[printable(_ACCOUNT_FIELDS[name](job)) for name in columns] for job in found]
    if asked.has("parsable") or asked.has("parsable2"):
        end = "|" if asked.has("parsable") else ""
        lines = ["|".join(row) + end for row in rows]
    else:
        wide = [_width(name, given) for name, (_, _, given) in zip(columns, names, strict=True)]
        if not asked.has("noheader"):
            rows.insert(1, ["-" * abs(size) for size in wide])
        lines = [" ".join(map(_cell, row, wide)).rstrip() for row in rows]
    print("".join(f"{line}\n" for line in lines), end="")


def scancel(words: Sequence[str]) -> None:
    """Cancel jobs by number, or those of a user, name or state; those that are over are skipped.

    With --signal, jobs that run get that signal and are left to it; KILL ends them as well.
    """
    asked = Asked(
        words,
        switches={"me": "", "quiet": "Q", "verbose": "v", "batch": "b", "full": "f", "ctld": "", "hurry": "H"},
        values={
            "user": "u", "name": "n", "jobname": "", "state": "t", "signal": "s", "clusters": "M", "partition": "p",
        },
        command="scancel",
        takes_jobs=True,
    )  # fmt: skip
    signal = asked.value("signal")
    try:
        name = None if signal is None else signal_name(signal)
    except ValueError as error:
        raise InputError(f"--signal: {error}") from None
    if not any(
        asked.value(name) for name in ("jobs", "user", "name", "jobname", "state", "partition")
    ) and not asked.has("me"):
        raise InputError("no job is given; write scancel 41, or --me for all of yours")
    to = "all" if asked.has("full") or name == "KILL" else "command" if asked.has("batch") else "steps"
    with service_here() as service:
        found = list(_chosen(service, asked, recent=False))
        jobs = [job for job in found if job.status in ACTIVE]
        numbers = [job.job_id for job in jobs]
        if asked.has("verbose"):
            done = "Terminating"
            if name is not None:
                which = {"all": "full ", "command": "batch "}.get(to, "") if name != "KILL" else ""
                done = f"Signal {signal_number(name)} to {which}".rstrip()
            _say_what_becomes(asked, found, done)
        if numbers and name in (None, "KILL"):
            service.cancel(numbers, where_possible=True)
        if numbers and name is not None:
            service.signal(numbers, name, to=to, where_possible=len(numbers) > 1 or name == "KILL")


def _say_what_becomes(asked: Asked, found: Sequence[Job], done: str) -> None:
    """What `scancel -v` prints: a line for each job, and for each number of none."""
    for job in found:
        number = number_of(job)
        print(f"scancel: {done} job {number}", file=sys.stderr)
        if job.status not in ACTIVE:
            text = "Job/step already completing or completed"
            print(f"scancel: error: Kill job error on job id {number}: {text}", file=sys.stderr)
    known = {str(number) for job in found for number in (job.job_id, job.array_id)}
    for word in (asked.value("jobs") or "").split(","):
        if word.isdecimal() and word not in known:
            text = f"Kill job error on job id {word}: Invalid job id specified"
            print(f"scancel: {done} job {word}\nscancel: error: {text}", file=sys.stderr)


def sinfo(words: Sequence[str]) -> None:
    """List the nodes by their state, as one partition."""
    asked = Asked(
        words,
        switches={"noheader": "h", "Node": "N", "long": "l", "summarize": "s", "all": "a"},
        values={"format": "o", "partition": "p", "states": "t", "nodes": "n", "clusters": "M"},
        command="sinfo",
    )
    with service_here() as service:
        nodes = service.nodes()
    states, names = (asked.value("states") or "").lower(), asked.value("nodes")
    wanted = set(states.split(",")) if states not in ("", "all") else None
    by_itself, is_summary = asked.has("Node"), asked.has("summarize")
    rows: dict[str, tuple[str, list[Any]]] = {}
    for node in nodes:
        state = {"up": "mix" if node.jobs else "idle", "draining": "drng", "drained": "drain"}.get(
            node.status, "down"
        )
        is_asked = wanted is None or not wanted.isdisjoint((state, _NODE_STATES.get(state, state)))
        if is_asked and (names is None or node.name in names.split(",")):
            key = "" if is_summary else node.name if by_itself else state
            rows.setdefault(key, (state, []))[1].append(node)
    usual = _SUMMARY if is_summary else _NODES[by_itself, asked.has("long")]
    _print(asked.value("format") or usual, _NODE_FIELDS, list(rows.values()), heads=not asked.has("noheader"))


def srun(words: Sequence[str]) -> None:
    """Start tasks within a job; elsewhere submit a job and end as it does."""
    from betimes.cli.slurm_srun import srun

    srun(words)


def scontrol(words: Sequence[str]) -> None:
    """Show jobs, nodes and the service; hold and release jobs."""
    from betimes.cli.slurm_scontrol import scontrol

    scontrol(words)


def salloc(words: Sequence[str]) -> None:
    """Start a shell, or the program that is named, in a new job with this terminal, as `srun --pty` does."""
    from betimes.cli.slurm_srun import srun
    from betimes.service.spec.sbatch import SRUN, split_command

    shell = [] if split_command(words, SRUN)[1] else [os.environ.get("SHELL", "/bin/sh")]
    srun(["--pty", *words, *shell])


def accounts(words: Sequence[str]) -> None:
    """Answer `sacctmgr list` and `sshare`: no account is known, as each is but a label. Raises InputError."""
    verb = next((word for word in words if not word.startswith("-")), "list")
    if verb in ("add", "create", "delete", "modify", "remove"):
        raise InputError(
            f"{verb}: there are no accounts to change; --account of a job is a label, and may be any"
        )


def seff(words: Sequence[str]) -> None:
    """Show what jobs used of what they asked for, as `betimes efficiency` does."""
    from betimes.cli.live.usage import efficiency

    if not words:
        raise InputError("no job is given; write seff 41")
    efficiency(list(words))


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "sbatch": sbatch,
    "squeue": squeue,
    "scancel": scancel,
    "sacct": sacct,
    "srun": srun,
    "sinfo": sinfo,
    "scontrol": scontrol,
    "salloc": salloc,
    "sacctmgr": accounts,
    "sshare": accounts,
    "seff": seff,
}


def main(command: str, words: Sequence[str]) -> int:
    """Carry out a command; returns the exit code. An error is a line on standard error, as with Slurm."""
    from betimes.cli.live.following import Left

    try:
        if list(words[:1]) in (["--version"], ["-V"]):
            print(f"slurm {VERSION}")
        elif list(words[:1]) in (["--help"], ["--usage"]):
            print(f"{command}: {' '.join((COMMANDS[command].__doc__ or '').split())}")
            print(
                'Its options, and what is different from Slurm: see the page "From Slurm" of the documentation.'
            )
        else:
            COMMANDS[command](words)
        sys.stdout.flush()
    except Left as left:
        return left.exit_code
    except BetimesError as error:
        report(f"{command}: error", str(error))
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def slurm_commands(
    folder: Annotated[
        str,
        Argument(
            metavar="DIR", help="The folder, to be put in front of PATH; it is made.", show_default=False
        ),
    ],
) -> None:
    """Put Slurm's commands sbatch, squeue, scancel, sacct, srun, salloc, sinfo, scontrol and seff into a folder.

    They talk to the service that the environment names (BETIMES_URL, BETIMES_STATE), as `betimes` does.
    """
    target, here = Path(folder).expanduser().absolute(), Path(__file__).parents[2]
    found = f"sys.path.insert(0, {str(here)!r})\n\n" if here.is_file() else ""
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name in COMMANDS:
            file = target / name
            file.write_text(
                f"#!{sys.executable}\nimport sys\n\n{found}from betimes.cli.slurm import main\n\n"
                f'sys.exit(main("{name}", sys.argv[1:]))\n',
                encoding="utf-8",
            )
            file.chmod(0o755)
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror}); name another folder") from None
    print(f'{", ".join(COMMANDS)} are in {target}; use them with: export PATH="{target}:$PATH"')


# --- options ---


class Asked:
    """The options of a call. Raises InputError for one that is not known."""

    def __init__(
        self,
        words: Sequence[str],
        switches: dict[str, str],
        values: dict[str, str],
        command: str,
        *,
        takes_jobs: bool = False,
    ) -> None:
        self.switches: set[str] = set()
        self.values: dict[str, str] = {}
        short = {letter: name for name, letter in {**switches, **values}.items() if letter}
        jobs: list[str] = []
        left = iter(words)
        for word in left:
            name, equals, value = word.partition("=")
            if name.startswith("--"):
                name = name[2:]
            elif re.match("-[A-Za-z]", word):
                letters = word[1:]
                while len(letters) > 1 and short.get(letters[0]) in switches:  # `-hX`
                    self.switches.add(short[letters[0]])
                    letters = letters[1:]
                name = short.get(letters[0], word)
                equals, value = letters[1:] and "=", letters[1:].removeprefix("=")
            elif takes_jobs:
                jobs.append(word)
                continue
            else:
                raise InputError(f"{word!r} is no option; write {command} --NAME=VALUE")
            if name in switches:
                self.switches.add(name)
            elif name in values:
                value = value if equals else next(left, "")
                name = "jobs" if name == "job" else name
                several = name == "jobs" and name in self.values  # `-j 41 -j 42`
                self.values[name] = f"{self.values[name]},{value}" if several else value
            else:
                given = word.partition("=")[0]
                raise InputError(f"{given}: {command} of Betimes does not know this option; leave it out")
        if jobs:
            self.values["jobs"] = ",".join(jobs)
        if self.values.get("clusters", "all") != "all":
            raise InputError(f"--clusters={self.values['clusters']}: there is one service; leave it out")

    def has(self, switch: str) -> bool:
        """Whether a switch is given."""
        return switch in self.switches

    def value(self, *names: str) -> str | None:
        """The value of the first of these options that is given."""
        return next((self.values[name] for name in names if name in self.values), None)


# --- jobs ---


def _chosen(service: PlainClient, asked: Asked, *, recent: bool) -> Iterator[Job]:
    """The jobs that the options name, the oldest first.

    recent: those that are over only where their states are named, and for `RECENT_S`.
    """
    jobs, states = asked.value("jobs"), (asked.value("states", "state") or "").upper()
    names = asked.value("name", "names", "jobname")
    users = asked.value("user", "users") or (service.me().user if asked.has("me") else None)
    partition = asked.value("partition")
    wanted = {each for state in states.split(",") if state for each in _statuses(state)}
    if jobs is not None:
        found = list(by_number(service, jobs))
    else:
        from betimes.cli.live.jobs.ids import every_job

        which: Conditions = {}
        if recent and not wanted:
            which["status"] = ACTIVE
        if names and "," not in names:
            which["name"] = names
        if partition and "," not in partition:
            which["label"] = {"partition": partition}
        found = every_job(service, which)[::-1]
    since_at = time.time() - RECENT_S
    first_at, last_at = (_time_of(name, asked.value(name)) for name in ("starttime", "endtime"))
    accounts = asked.value("accounts")
    for job in found:
        if first_at is not None and job.finished_at is not None and job.finished_at < first_at:
            continue
        if last_at is not None and job.submitted_at > last_at:
            continue
        if accounts and job.labels.get("account") not in accounts.split(","):
            continue
        if wanted and state_of(job) not in wanted:
            continue
        if (names and job.name not in names.split(",")) or (users and job.user not in users.split(",")):
            continue
        if partition and job.labels.get("partition") not in partition.split(","):
            continue
        if recent and job.status not in ACTIVE and (not wanted or (job.finished_at or 0.0) < since_at):
            continue
        yield job


def _time_of(option: str, text: str | None) -> float | None:
    """A time of Slurm, seconds since 1970: `2026-11-27`, `2026-11-27T18:00`, `now`, `now-2days`. Raises InputError."""
    if text is None:
        return None
    relative = re.fullmatch(r"now(?:([+-]\d+)(second|minute|hour|day|week)s?)?", text)
    if text == "today":
        text = time.strftime("%Y-%m-%d")
    if relative is not None:
        unit_s = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
        return time.time() + (int(relative[1]) * unit_s[relative[2]] if relative[1] else 0)
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise InputError(
            f"--{option}={text[:40]}: is not a time; write 2026-11-27T18:00, today, now or now-2days"
        ) from None


def _statuses(state: str) -> list[str]:
    """The long names of a state, or all. Raises InputError."""
    if state == "ALL":
        return list(SHORT)
    found = [name for name, short in SHORT.items() if state in (name, short)]
    if not found and state not in (
        "PREEMPTED",
        "PR",
        "CONFIGURING",
        "CF",
        "BOOT_FAIL",
        "DEADLINE",
    ):
        raise InputError(f"state {state!r}: is not known; of {', '.join(SHORT)}, or all")
    return found or ["no job is ever that"]


def _why(job: Job) -> str:
    reason = job.reason.text if job.reason is not None else "None"
    return f"({reason})" if state_of(job) == "PENDING" else ",".join(job["nodes"])


def _expected(job: Job, what: str) -> float | None:
    return job.estimate[what] if job.estimate is not None else None


_exit_code = of_story(lambda story: exit_code(story.runs))
_cores = of_story(lambda story: str(cores(story)))
_memory = of_story(lambda story: amount(story.spec.get("memory_gib", 0.0)))


@of_story
def _left(story: Any) -> str:
    job, limit_s = story.job, story.spec.get("time_limit_s")
    if limit_s is None:
        return "UNLIMITED"
    return clock(limit_s - ran_s(job))


# --- fields ---

_QUEUE_FIELDS: dict[str, tuple[str, Callable[[Job], str]]] = {
    "i": ("JOBID", number_of),
    "A": ("JOBID", lambda job: str(job.job_id)),
    "F": ("ARRAY_JOB_ID", lambda job: str(job.array_id or job.job_id)),
    "K": ("ARRAY_TASK_ID", lambda job: "N/A" if job.array_index is None else str(job.array_index)),
    "P": ("PARTITION", lambda job: job.labels.get("partition", PARTITION)),
    "a": ("ACCOUNT", lambda job: job.labels.get("account", "")),
    "q": ("QOS", lambda job: job.labels.get("qos", job.qos)),
    "j": ("NAME", lambda job: job.name),
    "u": ("USER", lambda job: job.user),
    "t": ("ST", lambda job: SHORT[state_of(job)]),
    "T": ("STATE", state_of),
    "M": ("TIME", elapsed),
    "D": ("NODES", lambda _: "1"),
    "l": ("TIME_LIMIT", of_story(time_limit)),
    "L": ("TIME_LEFT", _left),
    "C": ("CPUS", _cores),
    "m": ("MIN_MEMORY", _memory),
    "r": ("REASON", reason_of),
    "N": ("NODELIST", lambda job: ",".join(job["nodes"])),
    "R": ("NODELIST(REASON)", _why),
    "Y": ("SCHEDNODES", lambda _: "(null)"),
    "V": ("SUBMIT_TIME", lambda job: instant(job.submitted_at)),
    "S": ("START_TIME", lambda job: instant(job.started_at or _expected(job, "start_at"))),
    "e": ("END_TIME", lambda job: instant(job.finished_at or _expected(job, "finish_at"))),
}
_NODE_FIELDS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "P": ("PARTITION", lambda _: "betimes*"),
    "R": ("PARTITION", lambda _: "betimes"),
    "a": ("AVAIL", lambda _: "up"),
    "l": ("TIMELIMIT", lambda _: "infinite"),
    "D": ("NODES", lambda found: str(len(found[1]))),
    "t": ("STATE", lambda found: found[0]),
    "T": (
        "STATE",
        lambda found: _NODE_STATES.get(found[0], str(found[0])),
    ),
    "N": ("NODELIST", lambda found: ",".join(node.name for node in found[1])),
    "c": ("CPUS", lambda found: _least(node.cpu for node in found[1])),
    "C": ("CPUS(A/I/O/T)", lambda found: _cpus(found[1])),
    "F": ("NODES(A/I/O/T)", lambda found: _in_use(found[1])),
    "m": ("MEMORY", lambda found: _least(round(node.memory_gib * 1024) for node in found[1])),
    "G": (
        "GRES",
        lambda found: f"gpu:{gpus}" if (gpus := _least(node.gpu for node in found[1])) != "0" else "(null)",
    ),
}
_ACCOUNT_FIELDS: dict[str, Callable[[Job], str]] = {
    "JobID": number_of,
    "JobIDRaw": lambda job: str(job.job_id),
    "JobName": lambda job: job.name,
    "User": lambda job: job.user,
    "Account": lambda job: job.labels.get("account", ""),
    "Partition": lambda job: job.labels.get("partition", PARTITION),
    "State": state_of,
    "ExitCode": lambda job: _exit_code(job) if job.status == "failed" else "0:0",
    "Elapsed": lambda job: full_clock(elapsed(job)),
    "Submit": lambda job: instant(job.submitted_at),
    "Start": lambda job: instant(job.started_at),
    "End": lambda job: instant(job.finished_at),
    "NodeList": lambda job: ",".join(job["nodes"]),
    "Reason": reason_of,
    **dict.fromkeys(("AllocCPUS", "NCPUS", "ReqCPUS"), _cores),
    "ReqMem": _memory,
    "Timelimit": of_story(lambda story: full_clock(time_limit(story))),
    "MaxRSS": of_story(lambda story: _most(story, "max_rss_gib", lambda gib: f"{round(gib * 2**20)}K")),
    "TotalCPU": of_story(lambda story: _most(story, "cpu_s", lambda used_s: full_clock(clock(used_s)))),
}
_OF_STORY = frozenset({"AllocCPUS", "NCPUS", "ReqCPUS", "ReqMem", "Timelimit", "MaxRSS", "TotalCPU"})


def _most(story: Any, what: str, written: Callable[[float], str]) -> str:
    """Of the last run that is over; empty: not known."""
    known = [getattr(run, what) for run in story.runs if getattr(run, what) is not None]
    return written(known[-1]) if known else ""


def _least(numbers: Iterable[float]) -> str:
    """The least of these, with a `+` where not all are equal."""
    found = sorted(numbers)
    return f"{found[0]:g}{'+' if found[-1] > found[0] else ''}"


def _cpus(nodes: Sequence[Any]) -> str:
    """Cores: allocated/idle/other/total."""
    up = [node for node in nodes if node.status == "up"]
    total = sum(node.cpu for node in nodes)
    cpu, free = sum(node.cpu for node in up), sum(node.free_cpu for node in up)
    return f"{cpu - free:g}/{free:g}/{total - cpu:g}/{total:g}"


def _in_use(nodes: Sequence[Any]) -> str:
    """Nodes: allocated/idle/other/total."""
    up = [bool(node.jobs) for node in nodes if node.status == "up"]
    return f"{sum(up)}/{len(up) - sum(up)}/{len(nodes) - len(up)}/{len(nodes)}"


def _width(name: str, given: str) -> int:
    """Of a column of `sacct`: as given behind the `%`, less than 0 for one that is set to the left."""
    usual = {"JobID": 12, "JobIDRaw": 12, "ExitCode": 8, "NodeList": 15, "User": 9, "Reason": 22}
    usual |= dict.fromkeys(("Submit", "Start", "End"), 19)
    return int(given) if given.lstrip("-") else usual.get(name, 10) * (-1 if given else 1)


def _cell(text: str, size: int) -> str:
    """A column of `sacct`, cut with a `+`; to the left where the size is less than 0."""
    if len(text) > abs(size):
        text = text[: abs(size) - 1] + "+"
    return text.ljust(-size) if size < 0 else text.rjust(size)


def _print(
    pattern: str, fields: dict[str, tuple[str, Callable[[Any], str]]], found: Sequence[Any], *, heads: bool
) -> None:
    """Lines by a pattern such as `%.18i|%T`. Raises InputError for a letter that is not known."""

    def line(of: Callable[[str], str]) -> str:
        def cell(match: re.Match[str]) -> str:
            if match[3] not in fields:
                raise InputError(
                    f"--format %{match[3]}: is not known; of {', '.join(f'%{each}' for each in fields)}"
                )
            text, size = printable(of(match[3])), int(match[2] or 0)
            text = text[:size] if size else text
            return text.rjust(size) if match[1] else text.ljust(size)

        return re.sub(r"%(\.?)(\d*)([A-Za-z])", cell, pattern).rstrip()

    rows = [line(lambda letter: fields[letter][0])] if heads else []
    rows += [line(lambda letter, each=each: fields[letter][1](each)) for each in found]
    print("".join(f"{row}\n" for row in rows), end="")
