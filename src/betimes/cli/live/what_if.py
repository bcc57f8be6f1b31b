"""`betimes what-if`: who would finish when after a change."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from betimes.cli.live.jobs.completing import complete_job
from betimes.cli.live.jobs.ids import resolve
from betimes.cli.live.machines.maintenance import names_of, window_of
from betimes.cli.render.tables import Column
from betimes.cli.verbs import Json, Option, Output, State
from betimes.errors import InputError

if TYPE_CHECKING:
    from betimes.service.views.models import WhatIfJob, WhatIfSums, WhatIfView

_COLUMNS = (
    Column("Job", right=True),
    Column("Name", flexible=True),
    Column("User", rank=3),
    Column("Starts", rank=2),
    Column("Done now"),
    Column("Done then"),
    Column("Difference", rank=1),
)
_SAME_S = 1.0
MOST_LOAD = 10.0


def what_if(
    submit: Annotated[
        str | None,
        Option("--submit", metavar="FILE", help="Submit the jobs of this file.", show_default=False),
    ] = None,
    add_nodes: Annotated[
        list[str] | None,
        Option(
            "--add-nodes",
            metavar="TYPE=N",
            help="Add N more nodes of a type that is there; repeatable.",
            show_default=False,
        ),
    ] = None,
    remove_node: Annotated[
        list[str] | None,
        Option(
            "--remove-node",
            metavar="NAME",
            help="Start nothing more on this node, as `betimes nodes drain`; repeatable.",
            show_default=False,
        ),
    ] = None,
    undrain: Annotated[
        list[str] | None,
        Option(
            "--undrain",
            metavar="NAME",
            help="Use this node again, as `betimes nodes undrain`; repeatable.",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        str | None, Option("--policy", metavar="NAME[:k=v,...]", help="Decide by it.", show_default=False)
    ] = None,
    cancel: Annotated[
        list[str] | None,
        Option(
            "--cancel",
            metavar="ID",
            help="Cancel this job; repeatable.",
            autocompletion=complete_job,
            show_default=False,
        ),
    ] = None,
    job: Annotated[
        str | None,
        Option(
            "--job",
            metavar="ID",
            help="Let this job ask for something else: --time, --units, and in Slurm also --nodes and --partition.",
            autocompletion=complete_job,
            show_default=False,
        ),
    ] = None,
    time_limit: Annotated[
        list[str] | None,
        Option(
            "--time",
            "--time-limit",
            metavar="TIME",
            help="With --job: its time limit. Given several times, as the next three, each is an alternative.",
            show_default=False,
        ),
    ] = None,
    units: Annotated[
        list[str] | None,
        Option(
            "--units",
            metavar="N",
            help="With --job: its units; in Slurm its CPUs, in all.",
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[
        list[str] | None,
        Option(
            "--nodes",
            metavar="N",
            help="With --job, in Slurm: its nodes, with as many CPUs of each as before.",
            show_default=False,
        ),
    ] = None,
    partition: Annotated[
        list[str] | None,
        Option(
            "--partition", metavar="NAME", help="With --job, in Slurm: its partition.", show_default=False
        ),
    ] = None,
    rent: Annotated[
        list[str] | None,
        Option(
            "--rent",
            metavar="TYPE",
            help="Rent one more machine of this type of the cloud, which boots first; repeatable.",
            show_default=False,
        ),
    ] = None,
    maintenance: Annotated[
        list[str] | None,
        Option(
            "--maintenance",
            metavar="FROM..TO[@A,B]",
            help="Announce maintenance of these nodes, by default of all, as `betimes maintenance add`; repeatable.",
            show_default=False,
        ),
    ] = None,
    load: Annotated[
        str | None,
        Option(
            "--load",
            metavar="F",
            help="Let jobs go on arriving: the submissions of late (of the last day, at most 500) repeat, without "
            "the changes as they came, with them F times as fast, for as long as they took. 1: as many both ways.",
            show_default=False,
        ),
    ] = None,
    output: Output = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Show who would finish when after a change, next to when they do as things stand; nothing is changed.

    Several changes are made together. Jobs are taken to run as long as believed; without --load nothing else is
    submitted. Costs are those of all machines with a price until the last job is done.

    In Slurm the run of a --job is taken to be as long as before, on however many nodes. Alternatives, as in --time 1h
    --time 2h, are a table of this job alone.
    """
    from pathlib import Path

    from betimes.cli.live.connection import connect
    from betimes.cli.render.as_json import print_json
    from betimes.service.spec.spelling import with_full_names

    asked: dict[str, Any] = {
        "submit": _jobs_of(submit) if submit is not None else [],
        "add_nodes": _counts(add_nodes or ()),
        "remove_nodes": remove_node or [],
        "undrain_nodes": undrain or [],
        "cancel": [_checked(text) for text in cancel or ()],
        "rent": rent or [],
        "maintenance": [_window(text) for text in maintenance or ()],
    }
    given = {"--time": time_limit, "--units": units, "--nodes": nodes, "--partition": partition}
    requests = _requests({option: values for option, values in given.items() if values})
    if (job is None) is not (not requests):
        raise InputError(
            "--job: say what the job is to ask for, by --time, --units, --nodes or --partition"
            if job is not None
            else "what-if: --time, --units, --nodes and --partition are of a job; name it with --job"
        )
    if policy is not None:
        asked["policy"] = with_full_names(policy, Path.cwd())
    if load is not None:
        asked["load"] = _factor(load)
    if not any(asked.values()) and job is None:
        known = "--submit, --add-nodes, --remove-node, --undrain, --policy, --cancel, --job, --rent, --maintenance"
        raise InputError(f"what-if: no change is given; name one: {known}, --load")
    with connect(state) as service:
        asked["cancel"] = resolve(service, asked["cancel"])
        numbers = resolve(service, [job]) if job is not None else []
        edits = [[{"job_id": number, **_changes(request)} for number in numbers] for request in requests]
        answers = [service.what_if({**asked, "edit": edit} if edit else asked) for edit in edits or [[]]]
    if as_json:
        print_json(answers[0] if len(answers) == 1 else answers)
    elif len(answers) == 1:
        _print(answers[0], asked["cancel"], numbers, wide=output is not None)
    else:
        _print_alternatives(requests, answers, numbers[0])


def _requests(given: dict[str, list[str]]) -> list[dict[str, str]]:
    """The alternatives of a job's request, by option: what is given once is part of each. Raises InputError."""
    most = max(map(len, given.values()), default=0)
    for option, values in given.items():
        if len(values) not in (1, most):
            raise InputError(
                f"{option} is given {len(values)} times, and another option {most} times; give each once, or as often "
                "as there are alternatives"
            )
    return [
        {option: values[at if len(values) > 1 else 0] for option, values in given.items()}
        for at in range(most)
    ]


def _changes(request: dict[str, str]) -> dict[str, Any]:
    """A request as it is sent. Raises InputError."""
    fields = {
        "--time": ("time_limit_s", _limit),
        "--units": ("units", partial(_whole, "--units")),
        "--nodes": ("nodes", partial(_whole, "--nodes")),
        "--partition": ("partition", str),
    }
    return {fields[option][0]: fields[option][1](text) for option, text in request.items()}


def _whole(option: str, text: str) -> int:
    """A number of units or nodes. Raises InputError."""
    if not (text.isascii() and text.isdigit() and int(text[:12]) > 0):
        raise InputError(f"{option} {text[:40]}: give a whole number from 1 on")
    return int(text)


def _print_alternatives(requests: list[dict[str, str]], answers: list[WhatIfView], number: int) -> None:
    """A row an alternative, behind that of the job as it is; and how many other jobs would be done later by each."""
    from betimes.cli.render.tables import show
    from betimes.cli.render.times import clock

    def row(request: str, start_at: float | None, finish_at: float | None, *more: str) -> list[str]:
        at_now = answers[0].made_at
        return [
            request,
            *("never" if at is None else clock(at, at_now) for at in (start_at, finish_at)),
            *more,
        ]

    rows = list[list[str]]()
    for request, found in zip(requests, answers, strict=True):
        one = next(each for each in found.jobs if each.job_id == number)
        if not rows:
            rows.append(row("as it is", one.start_before_at, one.finish_before_at, "", ""))
        words = " ".join(f"{option} {value}" for option, value in request.items())
        later = sum(each.job_id != number and _is_later(each) for each in found.jobs)
        rows.append(
            row(words, one.start_at, one.finish_at, _row(one, found.made_at, False)[-1], f"{later:,}")
        )
    show(
        (
            Column("Request", flexible=True),
            Column("Starts"),
            Column("Done"),
            Column("Difference", rank=1),
            Column("Others later", right=True, rank=2),
        ),
        rows,
    )


def _is_later(one: WhatIfJob) -> bool:
    if one.finish_at is None or one.finish_before_at is None:
        return one.finish_at is None and one.finish_before_at is not None
    return one.finish_at - one.finish_before_at >= _SAME_S


def _limit(text: str) -> float:
    """A time limit, s. Raises InputError, also for a plain number, which is minutes in Slurm and seconds here."""
    from betimes.units import parse_duration

    try:
        if text.isdecimal():
            raise ValueError(f"is it minutes? write {text}m, or 2:30:00")
        return parse_duration(text)
    except ValueError as error:
        raise InputError(f"--time {text}: {error}") from None


def _checked(text: str) -> str:
    """The number of a job, or of an element of an array. Raises InputError."""
    import re

    if not re.fullmatch(r"[1-9][0-9]{0,17}(_[0-9]{1,9})?", text):
        raise InputError(f"--cancel {text}: give the number of a job, as in 41 or 41_3")
    return text


def _window(text: str) -> dict[str, Any]:
    """The window of FROM..TO[@A,B]. Raises InputError."""
    times, _, names = text.partition("@")
    begin, dots, end = times.partition("..")
    if not dots:
        raise InputError(
            f"--maintenance {text}: write two times, as in 18:00..20:00 or 18:00..20:00@node-3,node-4"
        )
    from_at, to_at = window_of("--maintenance", begin, "--maintenance", end)
    return {"from_at": from_at, "to_at": to_at, "nodes": names_of("--maintenance", names) if names else []}


def _factor(text: str) -> float:
    """The factor by which jobs arrive faster. Raises InputError."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0.0 < found <= MOST_LOAD:
        raise InputError(f"--load {text}: give a number above 0 and up to {MOST_LOAD:g}, as in 1.5")
    return found


def _counts(texts: list[str] | tuple[()]) -> dict[str, int]:
    """TYPE=N as a table. Raises InputError."""
    found: dict[str, int] = {}
    for text in texts:
        name, _, count = text.rpartition("=")
        if not name or not count.isdecimal() or int(count) < 1:
            raise InputError(f"--add-nodes {text}: write TYPE=N, as in big=2")
        found[name] = found.get(name, 0) + int(count)
    return found


def _jobs_of(file: str) -> list[dict[str, Any]]:
    """The jobs of a file as they are sent. Raises InputError."""
    from pathlib import Path

    from betimes.service.spec.job_file import read_drafts, specs_of

    specs = specs_of(read_drafts(Path(file)))
    return [spec.model_dump(mode="json", exclude_defaults=True) for spec in specs]


def _print(found: WhatIfView, cancelled: list[int], edited: list[int], *, wide: bool) -> None:
    from betimes.cli.render.tables import say, show

    named = {*cancelled, *edited}
    changed = [one for one in found.jobs if one.is_new or one.job_id in named or _differs(one)]
    changed.sort(key=lambda one: one.job_id not in edited)
    same = len(found.jobs) - len(changed)
    if changed:
        show(_COLUMNS, [_row(one, found.made_at, one.job_id in cancelled) for one in changed], wide=wide)
    if same:
        say(
            f"{'For' if not changed else 'For the other'} {same:,} job{'' if same == 1 else 's'} nothing changes."
        )
    if found.before is not None and found.after is not None:
        _print_sums(found, found.before, found.after)


def _print_sums(found: WhatIfView, before: WhatIfSums, after: WhatIfSums) -> None:
    """The objectives and the cost, now and then."""
    from betimes.cli.render.tables import say, show
    from betimes.units import length, usd

    what = "jobs that finish both ways"
    if found.arrivals_of_s is not None:
        arrivals = f"{before.arrivals:,} arrivals now, and {after.arrivals:,} then"
        what += f", {arrivals}, as in the last {length(found.arrivals_of_s)}"
    if found.refused:
        what += f"; {found.refused:,} more could not run then"
    say("", f"Of {before.jobs - before.arrivals:,} {what}")
    rows = [
        [name, text(now), text(then)]
        for name, text, now, then in (
            ("time to completion, mean", length, before.mean_jct_s, after.mean_jct_s),
            ("time to completion, p99", length, before.p99_jct_s, after.p99_jct_s),
            ("wait, mean", length, before.mean_wait_s, after.mean_wait_s),
            ("cost of all machines", usd, before.cost_usd, after.cost_usd),
        )
        if now is not None and then is not None
    ]
    if before.never or after.never:
        rows.append(["jobs that are never done", f"{before.never:,}", f"{after.never:,}"])
    show((Column(""), Column("Now", right=True), Column("Then", right=True)), rows)


def _differs(one: WhatIfJob) -> bool:
    if one.finish_at is None or one.finish_before_at is None:
        return one.finish_at is not one.finish_before_at
    return abs(one.finish_at - one.finish_before_at) >= _SAME_S


def _difference(seconds: float) -> str:
    from betimes.units import length

    if abs(seconds) < _SAME_S:
        return "as before"
    return f"{length(abs(seconds))} {'later' if seconds > 0 else 'earlier'}"


def _row(one: WhatIfJob, at_now: float, is_cancelled: bool) -> list[str]:
    from betimes.cli.render.times import clock
    from betimes.service.spec.spelling import job_number

    def text(at: float | None) -> str:
        return "never" if at is None else clock(at, at_now)

    difference = ""
    if one.finish_at is not None and one.finish_before_at is not None:
        difference = _difference(one.finish_at - one.finish_before_at)
    return [
        job_number(one.job_id),
        one.name,
        one.user,
        "" if is_cancelled else text(one.start_at),
        "" if one.is_new else text(one.finish_before_at),
        "cancelled" if is_cancelled and one.finish_at is None else text(one.finish_at),
        "new" if one.is_new else difference,
    ]
