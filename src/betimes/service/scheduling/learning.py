"""Jobs that wait or run are believed to take what the last ones of their user and name took."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from betimes.service.engines.moves import Wanted
from betimes.service.job import Job
from betimes.service.scheduling.runtime_estimates import RuntimeEstimate
from betimes.service.scheduling.siblings import ranges
from betimes.service.scheduling.trial_sets import TrialSets
from betimes.service.views import Status

Account = tuple[
    float, float, float
]  # work left and in all as believed so far, and work in all as believed now


@dataclass
class News:
    """Who is believed to take how long from now on."""

    believed: RuntimeEstimate
    waiting: dict[Account | None, list[int]] = field(default_factory=dict[Account | None, list[int]])
    begun: list[int] = field(default_factory=list[int])


class Learning(TrialSets):
    """What siblings have taken becomes what is believed, before the policy decides, and is logged."""

    def _learn(self) -> list[News]:
        """Tell the engine, at the coming decision, what is believed now; returns what it is told.

        Jobs that it does not have yet come to it with the new belief.
        """
        told: list[News] = []
        for believed, jobs in self.siblings.take():
            outside, inside = News(believed), News(believed)
            reported = {number for number, _ in self.pending.believed} | set(self.pending.done)
            for job in jobs:
                number, account = job.job_id, job.account
                if account is None:
                    outside.waiting.setdefault(None, []).append(number)
                elif job.status is Status.STOPPING or number in reported:
                    continue
                elif job.attempt == 0 and job.units == 0:
                    whole_s = self._whole(job, believed)
                    inside.waiting.setdefault((account.left_s, account.size_s, whole_s), []).append(number)
                    self.pending.believed.append((number, whole_s))
                else:
                    inside.begun.append(number)
                    self.pending.believed.append((number, self._left_of(job, believed)))
            if outside.waiting:
                self._log_news(outside)
                self._enter_anew(set(outside.waiting[None]))
            if inside.waiting or inside.begun:
                told.append(inside)
        return told

    def _log_news(self, news: News) -> None:
        """One event for all of them: those that have not begun have equal accounts where they had before."""
        groups: list[dict[str, Any]] = []
        for before, numbers in news.waiting.items():
            found: dict[str, Any] = {"jobs": ranges(numbers)}
            if before is not None:
                account = self.engine.account(numbers[0])
                found |= {"left_s": account.left_s, "size_s": account.size_s}
            groups.append(found)
        self._log(
            "learnt",
            "executor",
            believed_s=news.believed.seconds,
            basis=news.believed.basis,
            groups=groups,
            accounts={str(number): self._account(number) for number in news.begun},
        )

    def _enter_anew(self, numbers: set[int]) -> None:
        """Jobs that are about to queue come with what is believed now."""

        def fresh(wanted: Wanted) -> Wanted:
            return self._wanted(self.ledger.jobs[wanted.job]) if wanted.job in numbers else wanted

        self.pending.wanted = [fresh(wanted) for wanted in self.pending.wanted]

    def _whole(self, job: Job, believed: RuntimeEstimate) -> float:
        """All the work of a job, in its engine's unit."""
        whole_s = believed.seconds * self._speed(job, job.spec.max_units)
        if self.built is not None and self.built.kind == "nodes":
            whole_s /= self._speed(job, job.units or job.spec.max_units)
        return whole_s

    def _left_of(self, job: Job, believed: RuntimeEstimate) -> float:
        """The work that a job which has begun has left; one that outran the belief takes twice as long again."""
        whole_s = self._whole(job, believed)
        done_s = self.engine.account(job.job_id).size_s - self._believed_left(job)
        while whole_s <= done_s:
            whole_s *= 2.0
        return whole_s - done_s
