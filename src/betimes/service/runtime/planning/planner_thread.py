"""The thread in which planners answer, while the service goes on under what they decided before."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress

from betimes.service.engines.plans import Plan, answer
from betimes.service.runtime.background import Background
from betimes.service.runtime.commands import TakePlan
from betimes.service.runtime.inbox import Inbox
from betimes.service.scheduling.effects import AskPlanner

log = logging.getLogger(__name__)


class PlannerThread:
    """Answers one question at a time. A planner that never comes to an end does not keep the service from stopping."""

    def __init__(self, inbox: Inbox, background: Background) -> None:
        self._inbox, self._background = inbox, background
        self._one_at_a_time = asyncio.Lock()

    def ask(self, asked: AskPlanner) -> None:
        """Let the thread answer; the answer comes as a command."""
        self._background.go(self._ask(asked))

    async def _ask(self, asked: AskPlanner) -> None:
        async with self._one_at_a_time:
            plan = await _in_a_thread(asked)
        if plan.problem is not None:
            log.warning("planner %s has failed", asked.policy, exc_info=plan.error)
        self._inbox.tell(TakePlan(plan))


async def _in_a_thread(asked: AskPlanner) -> Plan:
    """The answer of a thread that ends with the process at the latest."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[Plan] = loop.create_future()

    def tell(plan: Plan) -> None:
        if not answered.done():  # else the service is stopping
            answered.set_result(plan)

    def work() -> None:
        plan = answer(asked.planner, asked.question)
        with suppress(RuntimeError):  # the loop is closed: the service has stopped
            loop.call_soon_threadsafe(tell, plan)

    threading.Thread(target=work, name="planner", daemon=True).start()
    return await answered
