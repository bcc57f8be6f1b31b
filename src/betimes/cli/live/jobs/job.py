"""`betimes job`: everything about one job."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

from betimes.cli.live.jobs.ids import Ids
from betimes.cli.render.tables import Column
from betimes.cli.verbs import Json, Option, Output, State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from betimes.client.plain import PlainClient
    from betimes.service.spec.family_demand import FamilyDemand
    from betimes.service.spec.job_spec import JobSpec
    from betimes.service.views.models import (
        CurvesView,
        Help,
        HelpsView,
        JobStory,
        JobView,
        PreemptionView,
        Quote,
        RunView,
    )

_MOST_VARIABLES = 12  # shown one by one
_QUOTE_COLUMNS = (
    Column("Made"),
    Column("Starts", rank=1),
    Column("Done"),
    Column("In truth", rank=1),
    Column("Run time", rank=2, right=True),
    Column("Taken from", rank=3),
    Column("Cost", rank=4, right=True),
    Column("Policy", rank=5, flexible=True),
)
_RUN_COLUMNS = (
    Column("Run", right=True),
    Column("Started"),
    Column("Took", right=True),
    Column("Units", rank=1, right=True),
    Column("On", rank=3, flexible=True),
    Column("Outcome"),
    Column("Memory", rank=4, right=True),
    Column("CPU time", rank=5, right=True),
    Column("Message", rank=2, flexible=True),
)


QUICK_S, THOROUGH_S = 0.5, 10.0  # of processor time, to try what would help


def job(
    ids: Ids,
    helps: Annotated[
        bool,
        Option(
            "--helps",
            help=f"Take up to {THOROUGH_S:g} s to try what would help a job that waits, with --json, too; otherwise "
            f"{QUICK_S:g} s, where a single job is named.",
        ),
    ] = False,
    output: Output = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Tell the story of a job: what it asked for, what was promised, how it ran and what it used, why it waited, and
    what would help.

    With --json an object; an array of them where several jobs are named.
    """
    from betimes.cli.live.connection import connect, service_now
    from betimes.cli.live.jobs.ids import resolve
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import say

    with connect(state) as service:
        stories = [service.job(job_id) for job_id in resolve(service, ids)]
        within_s = THOROUGH_S if helps else QUICK_S if len(stories) == 1 and not as_json else 0.0
        helped = {
            story.job.job_id: service.helps(story.job.job_id, within_s)
            for story in stories
            if within_s and story.job.status == "queued"
        }
        used = {
            story.job.job_id: _curves(service, story.job.job_id)
            for story in stories
            if story.runs and not story.trials and not as_json
        }
        latest_at = max((event.at for story in stories for event in story.events), default=None)
        at_now, notes = service_now(service, latest_at)
    if as_json:
        found = [
            {**dict(story), "helps": helped.get(story.job.job_id)} if helps else story for story in stories
        ]
        print_json(found if len(found) > 1 else found[0])
        return
    for number, story in enumerate(stories):
        say(*[""] * (number > 0))
        _show(
            story,
            at_now,
            notes,
            helped.get(story.job.job_id),
            used.get(story.job.job_id),
            wide=output is not None,
        )


def _show(
    story: JobStory,
    at_now: float,
    notes: Sequence[str],
    helped: HelpsView | None,
    used: CurvesView | None,
    *,
    wide: bool,
) -> None:
    from betimes.cli.live.events import EVENT_COLUMNS, event_row, worth_a_line
    from betimes.cli.render.jobs import job_name, option_pairs
    from betimes.cli.render.tables import say, show, show_pairs
    from betimes.service.spec.spelling import job_number

    one = story.job
    say(f"Job {job_number(one.job_id)}, {job_name(one)}: {_where_it_stands(one, at_now)}")
    show_pairs(
        [
            *_state(one, story, at_now),
            *_asked(story),
            *_used(used, story),
            *(("note", note) for note in notes),
        ]
    )
    if helped is not None and (helped.helps or helped.not_tried):
        say("", "What would help", *map(_help_line, helped.helps))
        if helped.not_tried:
            say(f"not tried: {'; '.join(helped.not_tried)}")
    if story.quotes:
        say("", "Promises")
        voids = [e for e in story.events if e.kind in ("held", "suspended") or e.data.get("voids")]
        void_at = max((event.at for event in voids), default=-math.inf)
        show(_QUOTE_COLUMNS, [_quote_row(quote, one, at_now, void_at) for quote in story.quotes], wide=wide)
        for quote in story.quotes:
            for label, text in option_pairs(quote, at_now):
                say(f"{label}: {text}")
    if story.trials:
        say("", "Trials")
        show(_TRIAL_COLUMNS, [_trial_row(one, at_now) for one in story.trials], wide=wide)
    if story.runs:
        say("", "Runs")
        show(_RUN_COLUMNS, [_run_row(run, at_now) for run in story.runs], wide=wide)
    _show_preemptions("Preempted (an empty cell: not known yet)", story.preempted, at_now, wide=wide)
    _show_preemptions("Jobs preempted for it", story.displaced, at_now, wide=wide)
    events = [event for event in story.events if worth_a_line(event)]
    if events:
        say("", "Events")
        show(EVENT_COLUMNS, [event_row(event, at_now, with_job=False) for event in events], wide=wide)


def _help_line(one: Help) -> str:
    from betimes.units import length

    gain = "instead of never" if one.earlier_s is None else f"{length(one.earlier_s)} earlier"
    return f"{one.text}: done {gain}"


def _where_it_stands(one: JobView, at_now: float) -> str:
    from betimes.cli.render.times import both

    text = str(one.status)
    if one.finished_at is not None:
        return f"{text} at {both(one.finished_at, at_now)}"
    if one.units:
        text += f" on {one.units} unit{'' if one.units == 1 else 's'}"
    if one.progress_frac is not None:
        text += f", {one.progress_frac:.0%} done"
    return text


def _state(one: JobView, story: JobStory, at_now: float) -> list[tuple[str, str]]:
    from betimes.cli.render.jobs import BASES, expected_start_within, expected_within, promised
    from betimes.cli.render.times import both, sentence

    pairs = []
    if one.reason is not None:
        pairs.append(("why", sentence(one.reason.text, at_now)))
    if one.estimate is not None:
        basis = BASES.get(one.estimate.basis, one.estimate.basis)
        if one.started_at is None:
            at = (
                one.estimate.start_at
                if one.estimate.start_median_at is None
                else one.estimate.start_median_at
            )
            pairs.append(("starts", f"{both(at, at_now)}{expected_start_within(one.estimate, at_now)}"))
        end_at = one.estimate.finish_median_at or one.estimate.finish_at
        sure = expected_within(one.estimate, at_now)
        pairs.append(("done", "not known" if end_at is None else f"{both(end_at, at_now)}{sure} ({basis})"))
        if one.estimate.rests_on is not None:
            pairs.append(("interval", one.estimate.rests_on))
    if one.promised_finish_at is not None:
        pairs.append(("promised", promised(one, at_now)))
    elif story.no_quote is not None:
        pairs.append(("promised", f"nothing: {story.no_quote.text}"))
    pairs.append(("submitted", f"{both(one.submitted_at, at_now)}, by {one.user}"))
    if one.started_at is not None:
        pairs.append(("started", both(one.started_at, at_now)))
    if one.preemptions or one.resizes:
        pairs.append(("moved", f"preempted {_times(one.preemptions)}, resized {_times(one.resizes)}"))
    return pairs


def _asked(story: JobStory) -> list[tuple[str, str]]:
    """The job's request, without defaults."""
    from betimes.cli.render.jobs import units
    from betimes.service.spec.sbatch import command_line, of_slurm
    from betimes.units import length

    spec = story.spec
    if (seen := of_slurm(spec.command, spec.labels, story.job.finished_at is not None)) is not None:
        # CPUs are the units of what Slurm runs.
        width = f"{spec.min_units} CPU{'' if spec.min_units == 1 else 's'}"
        return [("in Slurm", seen), ("asks for", width), ("limit", length(spec.time_limit_s))]
    everywhere = (spec.gpu, spec.cpu, spec.memory_gib)
    needed = [_amounts(*everywhere)]
    if spec.demand:
        needed = [_on_family(everywhere, name, one) for name, one in sorted(spec.demand.items())]
    estimate_s = spec.steps * spec.step_s if spec.steps and spec.step_s else spec.estimate_s
    width = units(spec.min_units, spec.max_units)
    each = " of" if spec.max_units == 1 else ", each of"
    pairs = [
        ("command", command_line(spec.command)),
        ("conda", spec.conda or ""),
        ("venv", spec.venv or ""),
        ("image", spec.image or ""),
        ("folder", spec.workdir or ""),
        ("upload", spec.upload or ""),
        ("output", spec.output or ""),
        ("errors", spec.error or ""),
        ("asks for", f"{width}{each} {', or '.join(needed)}"),
        ("tasks", _tasks(spec)),
        ("requires", ", ".join(f"{name}={value}" for name, value in spec.require.items())),
        ("resources", ", ".join(f"{name}={amount}" for name, amount in spec.resources.items())),
        ("memory", _memory_limit(story)),
        ("curve", str(spec.curve) if isinstance(spec.curve, str) and spec.max_units > 1 else ""),
        ("class", spec.qos),
        ("queue", spec.queue or ""),
        ("priority", f"{spec.priority}" if spec.priority else ""),
        ("estimate", length(estimate_s).strip("-")),
        ("limit", length(spec.time_limit_s) if spec.time_limit_s is not None else ""),
        ("array", spec.array or ""),
        ("after", ", ".join(spec.after)),
        ("retries", f"{spec.retries}" if spec.retries else ""),
        ("requeue", "" if spec.requeue else "never"),
        ("checkpoints", spec.checkpoint_dir or ""),
        ("notifies", spec.notify or ""),
        ("mail", " to ".join([",".join(spec.mail_type), *([spec.mail_user] if spec.mail_user else [])])),
        ("labels", ", ".join(f"{name}={value}" for name, value in spec.labels.items())),
        ("environment", _variables(spec.env)),
    ]
    return [(name, text) for name, text in pairs if text]


def _variables(env: Mapping[str, str]) -> str:
    """Variables of a job; only their number where a whole environment was handed over."""
    if len(env) > _MOST_VARIABLES:
        return f"{len(env)} variables; --json lists them"
    return ", ".join(f"{name}={value}" for name, value in env.items())


def _amounts(gpu: float, cpu: float, memory_gib: float) -> str:
    """The demand of a unit: 4 cores, 10 GiB, 1 GPU."""
    from betimes.units import gib

    amounts = [f"{cpu:g} core{'' if cpu == 1 else 's'}"] if cpu else []
    amounts += [gib(memory_gib)] if memory_gib else []
    amounts += [f"{gpu:g} GPU{'' if gpu == 1 else 's'}"] if gpu else []
    return ", ".join(amounts)


def _on_family(everywhere: tuple[float, float, float], family: str, demand: FamilyDemand) -> str:
    """The demand of a unit on machines of a family; amounts left out are those of `everywhere`."""
    given = (demand.gpu, demand.cpu, demand.memory_gib)
    needed = (usual if one is None else one for one, usual in zip(given, everywhere, strict=True))
    pace = f", {demand.speed:g} times as fast" if demand.speed != 1.0 else ""
    return f"{_amounts(*needed)} on {family}{pace}"


def _tasks(spec: JobSpec) -> str:
    """The placement of its units together, if not the default."""
    units = spec.units_per_task
    if units == "pack":
        return ""
    if units == "spread":
        return "one unit each, on any nodes"
    return f"{units} unit{'' if units == 1 else 's'} each, together on a node"


def _quote_row(quote: Quote, one: JobView, at_now: float, void_at: float) -> list[str]:
    from betimes.cli.render.jobs import off_by
    from betimes.cli.render.times import clock
    from betimes.units import length, usd

    truth = ""
    if quote.made_at < void_at:
        truth = "void: the job was held, suspended or changed"
    elif one.finished_at is not None and one.status == "finished" and quote.finish_at is not None:
        truth = off_by(one.finished_at - quote.finish_at)
    return [
        clock(quote.made_at, at_now),
        _within(
            quote, quote.start_at, quote.start_median_at, quote.start_low_at, quote.start_high_at, at_now
        ),
        _within(
            quote, quote.finish_at, quote.finish_median_at, quote.finish_low_at, quote.finish_high_at, at_now
        ),
        truth,
        length(quote.run_s),
        quote.basis,
        usd(quote.cost_usd),
        quote.policy,
    ]


def _within(
    quote: Quote,
    at: float | None,
    median_at: float | None,
    low_at: float | None,
    high_at: float | None,
    at_now: float,
) -> str:
    """An instant of a promise and its interval, where it has one: `14:05 (13:50 to 14:40)`."""
    from betimes.cli.render.jobs import between
    from betimes.cli.render.times import clock

    if at is None:
        return "never"
    ends = "" if low_at == high_at else between(low_at, high_at, quote.made_at, quote.level, at_now)
    return f"{clock(at if median_at is None else median_at, at_now)}{ends}"


def _run_row(run: RunView, at_now: float) -> list[str]:
    from betimes.cli.render.times import clock
    from betimes.units import gib, length

    outcome = run.outcome or "runs"
    if run.exit_code is not None:
        outcome += f" with {run.exit_code}"
    if run.signal is not None:
        outcome += f" by signal {run.signal}"
    return [
        str(run.number),
        clock(run.started_at, at_now),
        length(run.ran_s),
        str(run.units),
        ", ".join(f"{place.node}: {place.units}" for place in run.places),
        outcome,
        gib(run.max_rss_gib) if run.max_rss_gib is not None else "",
        length(run.cpu_s) if run.cpu_s is not None else "",
        run.message or _lost_output(run),
    ]


def _curves(service: PlainClient, job_id: int) -> CurvesView | None:
    """The use of its last run; null: the service is an older one, which has no answer to that."""
    from betimes.errors import Unknown

    try:
        return service.curves(job_id)
    except Unknown:
        return None


def _used(used: CurvesView | None, story: JobStory) -> list[tuple[str, str]]:
    """The use of its last run so far, on its first node: cores in the mean and at most, and memory at most, of what it
    has, and the same of its GPUs.
    """
    from betimes.units import amount, gib

    if used is None or used.cores_mean is None or used.memory_most_gib is None:
        return []
    most = max(point.cores for point in used.points)
    limit = f" of {gib(used.memory_asked_gib)}" if used.memory_asked_gib else ""
    cores = (
        f"{amount(used.cores_mean)} of {amount(used.cores_asked)} cores in the mean, {amount(most)} at most"
    )
    nodes = list(dict.fromkeys(place.node for place in story.runs[-1].places))
    where = f"on {nodes[0]}, its first node: " if len(nodes) > 1 else ""
    said = f"{where}{cores}; {gib(used.memory_most_gib)}{limit} of memory at most"
    if used.gpus_mean is not None and used.gpu_memory_most_gib is not None:
        has = f" of {gib(used.gpu_memory_has_gib)}" if used.gpu_memory_has_gib else ""
        said += f"; {amount(used.gpus_mean)} of {amount(used.gpus_asked)} GPUs busy in the mean"
        said += f", {gib(used.gpu_memory_most_gib)}{has} of their memory at most"
    return [("used", said)]


def _memory_limit(story: JobStory) -> str:
    """The memory limit of its last run, its enforcement, and whether it was exceeded."""
    from betimes.units import gib

    run = story.runs[-1] if story.runs else None
    if run is None or run.memory_limit_gib is None:
        return ""
    text = f"at most {gib(run.memory_limit_gib)} for all of its processes"
    text += f", by {run.memory_limited_by}" if run.memory_limited_by else ""
    return f"{text}; exceeded" if run.outcome == "out-of-memory" else text


def _lost_output(run: RunView) -> str:
    return f"{run.log_lost_bytes:,} bytes of its output are not kept" if run.log_lost_bytes else ""


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


_PREEMPTION_COLUMNS = (
    Column("Told"),
    Column("Job", right=True),
    Column("Run", rank=5, right=True),
    Column("Made room for", flexible=True),
    Column("Grace", rank=3, right=True),
    Column("Cost", right=True),
    Column("Vacating", rank=1, right=True),
    Column("Redone", rank=1, right=True),
    Column("Restart", rank=1, right=True),
    Column("Waited", rank=2, right=True),
    Column("Policy", rank=4, flexible=True),
)


def _show_preemptions(
    title: str, preemptions: Sequence[PreemptionView], at_now: float, *, wide: bool
) -> None:
    """Print a table under a title, in node-seconds; nothing if there is no preemption."""
    from betimes.cli.render.tables import say, show

    if preemptions:
        say("", title)
        show(_PREEMPTION_COLUMNS, [_preemption_row(one, at_now) for one in preemptions], wide=wide)


def _preemption_row(one: PreemptionView, at_now: float) -> list[str]:
    from betimes.cli.render.times import clock
    from betimes.units import length

    return [
        clock(one.told_at, at_now),
        str(one.job_id),
        str(one.run),
        ", ".join(map(str, one.by)),
        length(one.grace_s),
        _node_seconds(one.cost_node_s) if one.vacating_node_s is not None else "",
        _node_seconds(one.vacating_node_s),
        _node_seconds(one.lost_node_s),
        _node_seconds(one.restart_node_s),
        length(one.waiting_s) if one.waiting_s is not None else "",
        one.policy,
    ]


def _node_seconds(node_s: float | None) -> str:
    from betimes.cli.render.jobs import node_seconds

    return node_seconds(node_s) if node_s is not None else ""


_TRIAL_COLUMNS = (
    Column("Job", right=True),
    Column("Index", right=True),
    Column("Status"),
    Column("Runs", rank=2, right=True),
    Column("Started", rank=1),
    Column("Ended", rank=1),
    Column("Done", rank=3, right=True),
    Column("Why", rank=4, flexible=True),
)


def _trial_row(one: JobView, at_now: float) -> list[str]:
    """A trial: its number, its status, and the reason."""
    from betimes.cli.render.times import clock, sentence

    return [
        str(one.job_id),
        str(one.array_index),
        str(one.status),
        str(one.attempt),
        clock(one.started_at, at_now) if one.started_at is not None else "",
        clock(one.finished_at, at_now) if one.finished_at is not None else "",
        f"{one.progress_frac:.0%}" if one.progress_frac is not None else "",
        sentence(one.reason.text, at_now) if one.reason is not None else "",
    ]
