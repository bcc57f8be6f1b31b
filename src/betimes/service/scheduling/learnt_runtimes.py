"""Jobs without an estimate follow their siblings that finish: the engine's beliefs are updated before each decision."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from betimes.service.scheduling.beliefs import RuntimeEstimate
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.scheduling.state import SchedulerState

_Account = tuple[float, float, float]
"""Work left and in all as believed so far, and work in all as believed now."""


@dataclass
class News:
    """Jobs whose believed run time changes."""

    believed: RuntimeEstimate
    waiting: dict[_Account | None, list[int]] = field(default_factory=dict[_Account | None, list[int]])
    begun: list[int] = field(default_factory=list[int])


class LearntRuntimes:
    """Updates beliefs from siblings' run times before the policy decides, and logs that."""

    def __init__(self, state: SchedulerState, engine: PolicyEngine) -> None:
        self._state, self._engine = state, engine

    def learn(self) -> list[News]:
        """Pass new beliefs to the engine with the coming decision; returns news to log after it.

        Jobs that the engine does not have yet enter it with the new belief.
        """
        changes: list[News] = []
        for believed, jobs in self._state.siblings.take():
            outside, inside = News(believed), News(believed)
            settled = {*self._engine.reported, *self._engine.withdrawn}
            for job in jobs:
                number, account = job.job_id, job.account
                if account is None:
                    outside.waiting.setdefault(None, []).append(number)
                elif job.status is Status.STOPPING or number in settled:
                    continue
                elif job.attempt == 0 and job.units == 0:
                    whole_s = self._engine.whole_s(job, believed.seconds)
                    inside.waiting.setdefault((account.left_s, account.size_s, whole_s), []).append(number)
                    self._engine.believe(number, whole_s)
                else:
                    inside.begun.append(number)
                    self._engine.believe(number, self._engine.rest_s(job, believed.seconds))
            if outside.waiting:
                self.log(outside)
                self._engine.enter_anew(set(outside.waiting[None]))
            if inside.waiting or inside.begun:
                changes.append(inside)
        return changes

    def log(self, news: News) -> None:
        """Log one event for all: jobs not begun with equal accounts before have equal ones now."""
        groups: list[dict[str, Any]] = []
        for before, numbers in news.waiting.items():
            found: dict[str, Any] = {"jobs": ranges(numbers)}
            if before is not None:
                account = self._engine.account(numbers[0])
                found |= {"left_s": account.left_s, "size_s": account.size_s}
            groups.append(found)
        self._state.log(
            "learnt",
            "executor",
            believed_s=news.believed.seconds,
            basis=news.believed.basis,
            groups=groups,
            accounts={str(number): self._engine.account_row(number) for number in news.begun},
        )


def ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Ascending numbers as the first and the last of each run of them."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found
