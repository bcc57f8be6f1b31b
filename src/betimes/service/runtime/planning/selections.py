"""Selections of a portfolio, each made in a thread on a snapshot while the policy in force goes on deciding."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from betimes.foresight.portfolio.arrivals import MOST_JOBS
from betimes.foresight.portfolio.driver import Selector, Settings
from betimes.foresight.portfolio.ledger import Totals
from betimes.foresight.portfolio.lookahead import Lookahead
from betimes.foresight.portfolio.objective import Aim
from betimes.policies import parse_nodes_policy
from betimes.service.engines.dedicated_machines import known_live
from betimes.service.engines.named_policies import kind_of
from betimes.service.engines.selection import MemberRules
from betimes.service.runtime.background import Background
from betimes.service.runtime.commands import TakeSelection
from betimes.service.runtime.inbox import Inbox
from betimes.service.runtime.planning.past_jobs import PastJobs
from betimes.service.scheduling.decisions import Selection
from betimes.service.scheduling.effects import SelectMember
from betimes.service.store.store import Store

log = logging.getLogger(__name__)

MOST_NAMED = 200
"""Jobs that a selection's event names: what comes of them says what came of the choice."""


class Selections:
    """Makes one selection at a time; what each member was worth before is remembered from one to the next.

    hold: keeps a virtual clock from jumping while a selection goes on.
    """

    def __init__(
        self,
        inbox: Inbox,
        background: Background,
        hold: Callable[[], AbstractContextManager[None]],
        seed: int,
        store: Store,
    ) -> None:
        self._inbox, self._background, self._hold, self._seed = inbox, background, hold, seed
        self._past = PastJobs(store)
        self._selector: tuple[str, Selector] | None = None

    def begin(self, asked: SelectMember) -> None:
        """Let a thread select."""
        holding = self._hold()
        holding.__enter__()  # from now on, and not only once the thread has begun
        self._background.go(self._select(asked, holding))

    async def _select(self, asked: SelectMember, holding: AbstractContextManager[None]) -> None:
        try:
            try:
                selection = await asyncio.to_thread(self._choose, asked)
            except (
                Exception
            ) as error:  # a member may be a user's code; the service goes on under its last choice
                log.warning("a selection of %s has failed", asked.policy, exc_info=error)
                problem = f"the selection has failed: {type(error).__name__}: {error}"
                selection = Selection(asked.policy, asked.snapshot.at_s, problem=problem)
            self._inbox.tell(TakeSelection(selection))
        finally:
            holding.__exit__(None, None, None)

    def _choose(self, asked: SelectMember) -> Selection:
        snapshot, record = asked.snapshot, asked.record
        begun_s = time.perf_counter()
        selector = self._selector_of(asked.policy)
        so_far = Totals(record.jobs, record.job_s, record.machine_s, record.slowdown)
        submitted, most_coming = None, 0
        if selector.expects_more:
            submitted, most_coming = self._past.submitted(snapshot, asked.epoch_at), MOST_JOBS
        everyone = selector.preempts or len(snapshot.rounds) > 0  # planners move jobs that run
        lookahead = Lookahead(snapshot, everyone, selector.workers, most_coming, snapshot.rounds)
        choice = selector.choose(lookahead, snapshot.at_s, len(snapshot.waits), so_far, submitted)
        expected = choice.foreseen[choice.name]
        return Selection(
            asked.policy,
            snapshot.at_s,
            MemberRules(choice.name, selector.rules[choice.member], selector.params[choice.member]),
            data={
                "shadow": selector.is_shadow,
                "waiting": choice.waiting,
                "jobs": [list(one) for one in snapshot.waits[:MOST_NAMED]],
                "score": choice.scores[choice.name],
                "slowdown": expected.slowdown,
                "machine_s": expected.machine_s,
                "scores": {
                    name: None if math.isnan(score) else score for name, score in choice.scores.items()
                },
                "smallest_wins": selector.smallest_wins,
                "took_s": time.perf_counter() - begun_s,
            },
        )

    def _selector_of(self, policy: str) -> Selector:
        if self._selector is None or self._selector[0] != policy:
            chosen = parse_nodes_policy(kind_of(policy)[1])
            assert chosen.policy.members is not None, "only a portfolio selects"
            members = [known_live(each) for each in chosen.policy.members(chosen.values)]
            settings = Settings.of(chosen)
            aim = None if settings.objective is None else Aim(settings.objective, alone=True)
            self._selector = (
                policy,
                Selector(policy, members, settings, log.warning, seed=self._seed, aim=aim),
            )
        return self._selector[1]
