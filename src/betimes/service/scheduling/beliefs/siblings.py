"""Jobs of one user and history without an estimate: the run time of one that finishes is evidence for the others."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from betimes.service.scheduling.beliefs.progress_rate import differs
from betimes.service.scheduling.beliefs.runtime_estimates import RuntimeEstimate
from betimes.service.scheduling.jobs.job import Job

LEARNT = ("default", "last-two", "limit")  # what a belief must rest on to be replaced
LEAST_NEWS_S = 0.1  # beliefs that are closer are not told apart
SHARE = (
    50  # of so many siblings, one must have finished since the last time: news costs time for each of them
)
MOST_A_TURN = 1000  # jobs whose belief is updated in one turn: more would delay requests

Key = tuple[str, str]  # user and `JobSpec.history_key`


class Siblings:
    """The live jobs of each user and history without an estimate, and those whose belief has not been updated yet."""

    def __init__(self) -> None:
        self._live: defaultdict[Key, dict[int, Job]] = defaultdict(dict)
        self._finished: defaultdict[Key, int] = defaultdict(int)  # since their last update
        # Of each key also by time limit, which bounds what is believed.
        self._untold: dict[tuple[Key, float | None], tuple[RuntimeEstimate, list[Job]]] = {}

    def note(self, job: Job) -> None:
        """A job is new, or has changed. A set of trials learns from its own, and so do they."""
        if job.trials is not None or job.set_id is not None or not math.isnan(job.spec.runtime_estimate_s):
            return
        key = (job.user, job.spec.history_key)
        if not job.status.is_over and job.basis in LEARNT:
            self._live[key][job.job_id] = job
        elif key in self._live:
            self._live[key].pop(job.job_id, None)
            if not self._live[key]:
                for gone in (self._live, self._finished):
                    gone.pop(key, None)

    def finished(self, user: str, history_key: str, believed: RuntimeEstimate) -> None:
        """A job has finished; the next one like it would be believed to take so long, if it had no time limit."""
        key = (user, history_key)
        if key not in self._live:
            return
        self._finished[key] += 1
        if self._finished[key] * SHARE < len(self._live[key]):
            return
        self._finished[key] = 0
        others: defaultdict[float | None, list[Job]] = defaultdict(list)
        for job in self._live[key].values():
            if _is_news(believed.within(job.spec.time_limit_s), job):
                others[job.spec.time_limit_s].append(job)
        for limit_s, jobs in others.items():
            self._untold[key, limit_s] = (believed.within(limit_s), jobs)

    @property
    def are_untold(self) -> bool:
        """Whether some have not heard the news yet."""
        return bool(self._untold)

    def take(self) -> Iterator[tuple[RuntimeEstimate, list[Job]]]:
        """Those to be updated now, the first ones first; each is updated once."""
        room = MOST_A_TURN
        for which, (believed, jobs) in list(self._untold.items()):
            now, later = jobs[:room], jobs[room:]
            room -= len(now)
            if later:
                self._untold[which] = (believed, later)
            else:
                del self._untold[which]
            live = self._live.get(which[0], {})
            yield believed, [job for job in now if job.job_id in live]
            if room == 0:
                return


def apply_learnt(jobs: Mapping[int, Job], data: Mapping[str, Any]) -> None:
    """Let the jobs of an event `learnt` be believed to take what it says."""
    for group in data["groups"]:
        for first, last in group["jobs"]:
            for number in range(first, last + 1):
                job = jobs[number]
                job.believed_s, job.basis = data["believed_s"], data["basis"]
                if job.account is not None:
                    job.account.left_s, job.account.size_s = group["left_s"], group["size_s"]
    for number, account in data["accounts"].items():
        job = jobs[int(number)]
        job.believed_s, job.basis = data["believed_s"], data["basis"]
        job.settle(account)


def ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Ascending numbers as the first and the last of each run of them."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def _is_news(believed: RuntimeEstimate, job: Job) -> bool:
    return differs(believed.seconds, job.believed_s, least_s=LEAST_NEWS_S)
