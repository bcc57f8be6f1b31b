"""The operator's interface of PCS: say what you want, see what can be had, pick one (PCS, section 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from betimes.errors import Conflict
from betimes.foresight.objectives import Objective, parse_objectives
from betimes.foresight.tuning.front import Front, Point
from betimes.foresight.tuning.space import WFQConfig
from betimes.foresight.tuning.tune import Search, tune
from betimes.policies import parse_policy
from betimes.workload import Workload


class Tuner:
    """`set_preference`, `pareto_front`, `set_config`, on one workload.

    where: how the workload runs, as `tune` takes it: `units`, `curves`, `fractional` and so on. apply: told the policy
    that `set_config` chooses, such as what sets the policy of a live service; the policy is kept in `policy` too.

        tuner = Tuner(workload, units=64, apply=client.set_policy)
        tuner.set_preference("jct:avg", "pred_err:p99")
        front = tuner.pareto_front()
        tuner.set_config(front.named("PCS-balanced"))
    """

    def __init__(
        self, workload: Workload, *, apply: Callable[[str], object] | None = None, **where: Any
    ) -> None:
        self.workload = workload
        self.policy: str | None = None
        self._apply, self._where = apply, where
        self._objectives: tuple[Objective, ...] = ()
        self._front: Front | None = None

    def set_preference(self, *objectives: str | Objective) -> None:
        """What is wanted: any number of objectives, such as "jct:avg", "pred_err:p99"; raises InputError."""
        self._objectives, self._front = parse_objectives(objectives), None

    def pareto_front(self, **how: Any) -> Front:
        """The configurations that no other tried beats, each with its values; searched for when first asked.

        how: the fields of `Search`, and `progress` and `stopped` of `tune`; with any of them it is searched for anew.
        Raises Conflict where no preference is set, else as `tune` does.
        """
        if not self._objectives:
            raise Conflict("no preference is set; say what you want with set_preference first")
        if self._front is None or how:
            told = {name: how.pop(name) for name in ("progress", "stopped") if name in how}
            self._front = tune(self.workload, self._objectives, how=Search(**how), **self._where, **told)
        return self._front

    def set_config(self, config: Point | WFQConfig | str) -> str:
        """Choose a point, a configuration, or a policy's text; returns the policy, applied where there is a way to.

        Raises PolicyError for a text that is no policy.
        """
        policy = config if isinstance(config, str) else config.policy
        parse_policy(policy)
        if self._apply is not None:
            self._apply(policy)
        self.policy = policy
        return policy
