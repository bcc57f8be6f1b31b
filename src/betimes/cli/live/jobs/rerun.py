"""`betimes rerun`: submit jobs again, as they are."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

from betimes.cli.live.jobs.ids import Ids
from betimes.cli.verbs import Json, Option, State
from betimes.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from betimes.client.plain import PlainClient
    from betimes.service.views.models import JobStory, JobView

Fields = dict[str, Any]


def rerun(
    ids: Ids,
    failed: Annotated[
        bool, Option("--failed", help="Only those of them that failed, as of the elements of an array.")
    ] = False,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Submit jobs again under new numbers: the same command, demands, environment, name and labels.

    The number of an array, that of its first job, means all of it; any other of its jobs is submitted with its index.
    Jobs that wait for others among these wait for the new ones. Nothing becomes of the old jobs.
    """
    from betimes.cli.live.connection import connect
    from betimes.cli.live.jobs.ids import resolve
    from betimes.cli.live.jobs.submit import show_submitted
    from betimes.cli.render.as_json import print_json

    with connect(state) as service:
        numbers = resolve(service, ids)
        groups = [group for number in numbers if (group := _group(service, number, numbers, failed))]
        if not groups:
            each = (
                f"job {numbers[0]} has not"
                if len(numbers) == 1
                else f"none of these {len(numbers):,} jobs has"
            )
            raise InputError(f"rerun: {each} failed; leave --failed out")
        specs, submitted, again = list[Fields](), list[Any](), dict[int, int]()
        for group in groups:
            specs.append(_spec(service, group, again))
            submitted.append(service.submit(specs[-1]))
            again |= dict(zip([job.job_id for job in group], submitted[-1].job_ids, strict=False))
    if as_json:
        print_json(submitted)
    else:
        show_submitted(specs, submitted)


def _group(service: PlainClient, number: int, numbers: Sequence[int], failed: bool) -> list[JobView]:
    """The jobs to be submitted together for a number: those of an array, or one; empty: none has failed."""
    from betimes.cli.live.jobs.ids import every_job

    one = service.job(number).job
    group = [one]
    if one.array_id == number:
        group = [job for job in every_job(service, {"array_id": number})[::-1] if job.array_index is not None]
    elif one.array_id in numbers:
        return []  # it is submitted with its array
    return [job for job in group if not failed or job.status == "failed"]


def _spec(service: PlainClient, group: Sequence[JobView], again: dict[int, int]) -> Fields:
    """The fields of a submission. again: jobs that have been submitted again so far, and their new numbers."""
    story: JobStory = service.job(group[0].job_id)
    fields: Fields = {name: value for name, value in dict(story.spec).items() if value is not None}
    fields |= {"hold": False, "after": [_renumbered(after, again) for after in story.spec.after]}
    if story.job.array_id is None or story.job.array_index is None:
        return fields
    whole: JobStory = service.job(story.job.array_id)
    submission = next((event.data for event in whole.events if event.kind == "submitted"), {})
    most = submission.get("array_most", 0)
    if whole.job.array_index is None:  # one elastic job
        width = whole.spec.max_units
        fields["as_one"], most = True, width if width < len(whole.trials) else 0
    indices = ranges([job.array_index for job in group if job.array_index is not None])
    return {**fields, "array": indices + (f"%{most}" if most else "")}


def _renumbered(after: str, again: dict[int, int]) -> str:
    number, colon, end = after.partition(":")
    return f"{again.get(int(number), number)}{colon}{end}"


def ranges(indices: Sequence[int]) -> str:
    """Ascending indices as an array has them: `1-3,7`."""
    found = list[str]()
    for _, run in groupby(enumerate(indices), key=lambda each: each[1] - each[0]):
        (_, first), *rest = run
        found.append(f"{first}-{rest[-1][1]}" if rest else f"{first}")
    return ",".join(found)
