"""Jobs that are submitted together and name each other in `after`: a pipeline in one request, or one file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from betimes.errors import Refused, did_you_mean
from betimes.service.spec.job_spec import MOST_AFTER, JobSpec, parse_array, split_after


def check_names(specs: Sequence[JobSpec]) -> None:
    """Raise Refused for a job that waits for a name that no job before it has."""
    for at, why in unknown_names(specs):
        raise Refused(why, "after").among(len(specs), at)


def unknown_names(specs: Sequence[JobSpec]) -> Iterator[tuple[int, str]]:
    """Jobs with a bad name in `after`, by their place, and why."""
    counts: dict[str, int] = {}
    for at, spec in enumerate(specs):
        for text in spec.after:
            job, _ = split_after(text)
            if isinstance(job, int):
                continue
            if job not in counts:
                yield at, _unknown(job, list(counts))
            elif counts[job] > MOST_AFTER:
                yield (
                    at,
                    (
                        f"{job!r} are {counts[job]:,} jobs, and a job waits for at most {MOST_AFTER:,}; "
                        "make one job of an array (as_one)"
                    ),
                )
        counts[spec.title] = counts.get(spec.title, 0) + _jobs_of(spec)


def by_number(spec: JobSpec) -> JobSpec:
    """The job without the names that it waits for: the part to check before those have numbers."""
    numbers = [text for text in spec.after if isinstance(split_after(text)[0], int)]
    return spec if len(numbers) == len(spec.after) else spec.model_copy(update={"after": numbers})


def resolved(spec: JobSpec, taken: Mapping[str, Sequence[int]]) -> JobSpec:
    """The job with numbers in place of names; `taken`: by name, numbers of earlier jobs in the request."""
    after: list[str] = []
    for text in spec.after:
        job, on = split_after(text)
        if isinstance(job, str):
            after += [f"{number}:{on}" for number in (taken[job][:1] if on == "corr" else taken[job])]
        else:
            after.append(text)
    return spec if after == spec.after else spec.model_copy(update={"after": after})


def _jobs_of(spec: JobSpec) -> int:
    return len(parse_array(spec.array)[0]) if spec.array is not None and not spec.as_one else 1


def _unknown(name: str, known: Sequence[str]) -> str:
    return (
        f"{name[:60]!r}: no job of that name stands before it{did_you_mean(name, known)}; write a job's number, as in "
        "41 or 41:any, or the name of one before it"
    )
