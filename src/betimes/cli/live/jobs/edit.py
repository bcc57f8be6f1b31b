"""`betimes edit`: change jobs that are not over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from betimes.cli.live.jobs.ids import Ids
from betimes.cli.live.jobs.job_options import OPTIONS, given_fields, wrong_option
from betimes.cli.verbs import Json, Several, State
from betimes.errors import FieldError, InputError
from betimes.printing import report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from betimes.client.plain import PlainClient
    from betimes.service.views.models import JobView

MOST_A_REQUEST = 10_000
MOST_LINES = 20  # with one job each; longer lists are summed up

EDITABLE = (
    "name",
    "labels",
    "priority",
    "estimate",
    "time_limit",
    "units",
    "cpu",
    "memory",
    "gpu",
    "after",
    "singleton",
    "begin",
)
Changes = Annotated[dict[str, Any], Several({name: OPTIONS[name] for name in EDITABLE})]


def edit(ids: Ids, changes: Changes, state: State = None, as_json: Json = False) -> None:
    """Change jobs: all of these options while they wait; name, labels, priority, estimate and limit while they run.

    What a job was promised is void then, unless only its name or labels change, and it is promised an end anew. It
    keeps its place in the queue. A label is put beside those that it has; --after none and --begin now end a wait.
    Several jobs are changed alike; those that are over, or do not allow it any more, are left out.
    """
    from betimes.cli.live.connection import connect
    from betimes.cli.live.jobs.ids import resolve, waited_for
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import say

    fields = given_fields({name: value for name, value in changes.items() if value != ["none"]})
    if changes.get("after") == ["none"]:
        fields |= {"after": [], "singleton": False}
    if not fields:
        raise InputError("edit: no change is given; `betimes edit --help` lists what can be changed")
    with connect(state) as service:
        if fields.get("after"):
            fields["after"] = waited_for(service, fields["after"])
        wanted = resolve(service, ids)
        try:
            changed = _changed(service, wanted, fields)
        except FieldError as refused:
            field = refused.field or ""
            raise wrong_option(
                field.removeprefix("changes."), str(refused).removeprefix(f"{field}: ")
            ) from None
    left_out = len(wanted) - len(changed)
    if not changed:
        raise InputError(f"edit: none of these {len(wanted):,} jobs can be changed so: they run, or are over")
    note = f"skipped {left_out:,} of {len(wanted):,} jobs: they run, or are over"
    if as_json:
        print_json(changed)
        if left_out:
            report("betimes: note", note)
        return
    say(*_lines(changed), *([f"{note[0].upper()}{note[1:]}."] if left_out else []))


def _changed(service: PlainClient, wanted: Sequence[int], fields: dict[str, Any]) -> list[JobView]:
    """The jobs after the change: a single job is changed or refused; of several, those that allow it are changed."""
    if len(wanted) == 1:
        return service.edit(wanted, **fields)
    parts = [wanted[at : at + MOST_A_REQUEST] for at in range(0, len(wanted), MOST_A_REQUEST)]
    return [job for part in parts for job in service.edit(part, where_possible=True, **fields)]


def _lines(changed: Sequence[JobView]) -> list[str]:
    from betimes.cli.render.jobs import job_name, promised
    from betimes.cli.render.times import now

    if len(changed) > MOST_LINES:
        return [f"{len(changed):,} jobs changed"]
    lines = list[str]()
    for job in changed:
        done = promised(job, now())
        lines.append(f"Job {job.job_id}, {job_name(job)}: {job.status}{done and f', promised {done}'}")
    return lines
