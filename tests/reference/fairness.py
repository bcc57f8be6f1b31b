"""Errors of the promises, and unfairness by both definitions (specification, 1.7 and D3)."""

from fractions import Fraction

from tests.reference.oracle import ReferenceResult
from tests.reference.policy import Number


def signed_errors(result: ReferenceResult) -> list[Number]:
    """(JCT - promised JCT) / promised JCT, as a fraction."""
    pairs = zip(result.jct, result.predicted_jct, strict=True)
    return [(truth - promised) / promised for truth, promised in pairs]


def absolute_errors(result: ReferenceResult) -> list[Number]:
    return [abs(error) for error in signed_errors(result)]


def event_averaged_fair_jct(result: ReferenceResult) -> list[Number]:
    """Work over the smaller of an equal share, by the mean number of active jobs seen, and the maximum."""
    fair = []
    for job, (seen_sum, seen_count) in zip(result.jobs, result.contention, strict=True):
        equal_share = result.units / Fraction(seen_sum, seen_count)
        fair.append(job.work / min(equal_share, job.max_units))
    return fair


def unfairness(result: ReferenceResult, fair_jct: list[Number]) -> list[Number]:
    """max(0, JCT / fair JCT - 1), as a fraction."""
    return [max(0, jct / fair - 1) for jct, fair in zip(result.jct, fair_jct, strict=True)]


def event_averaged_unfairness(result: ReferenceResult) -> list[Number]:
    return unfairness(result, event_averaged_fair_jct(result))


def fair_run_unfairness(result: ReferenceResult, fair_run: ReferenceResult) -> list[Number]:
    """Against the JCTs of a max-min run of the same jobs."""
    return unfairness(result, fair_run.jct)
