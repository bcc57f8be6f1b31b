"""How long a job is believed to take before it has run: told, learnt from the user's last runs, or the default."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any, Literal, NamedTuple

Basis = Literal["estimate", "last-two", "default"]

USUAL_S = 3600.0
LEAST_S = 0.01  # no job is believed to take less, however short the last ones were
MOST_NAMES = 10_000


class RuntimeEstimate(NamedTuple):
    """Seconds on max_units, and where they are from."""

    seconds: float
    basis: Basis


class RuntimeEstimates:
    """The last two run times of each user's jobs of a name, and what follows for the next one.

    As in the twin (`--sizes last-two`), a run time is a job's work over its speed on max_units, so that it does not
    depend on how many units the job got. At most `most` names are kept; the one whose job finished longest ago goes
    first. Only `finished` changes anything: quotes may ask as often as they like.
    """

    def __init__(self, default_s: float = USUAL_S, most: int = MOST_NAMES) -> None:
        if not (0 < default_s < math.inf and most >= 1):
            raise ValueError(
                f"expected a default above 0 s and room for a name, found {default_s} and {most}"
            )
        self.default_s = default_s
        self._most = most
        self._last_s: OrderedDict[tuple[str, str], tuple[float, ...]] = (
            OrderedDict()
        )  # one or two, latest first

    def __len__(self) -> int:
        return len(self._last_s)

    def believed(self, user: str, name: str, runtime_estimate_s: float = math.nan) -> RuntimeEstimate:
        """What a job of that user and name takes; `runtime_estimate_s` is the estimate that came with it, NaN: none."""
        if not math.isnan(runtime_estimate_s):
            return RuntimeEstimate(runtime_estimate_s, "estimate")
        last_s = self._last_s.get((user, name))
        if last_s is None:
            return RuntimeEstimate(self.default_s, "default")
        return RuntimeEstimate(max(sum(last_s) / len(last_s), LEAST_S), "last-two")

    def finished(self, user: str, name: str, run_s: float) -> None:
        """A job finished, and would have taken so many seconds on max_units; ValueError: below 0, or not finite."""
        if not 0 <= run_s < math.inf:
            raise ValueError(f"the run time of {user}'s {name}: expected 0 s or more, found {run_s}")
        self._last_s[user, name] = (run_s, *self._last_s.get((user, name), ())[:1])
        self._last_s.move_to_end((user, name))
        while len(self._last_s) > self._most:
            self._last_s.popitem(last=False)

    def to_json(self) -> list[list[Any]]:
        """[[user, name, [last, before]], ...], the longest ago first: the state, without the operator's settings."""
        return [[user, name, [*last_s]] for (user, name), last_s in self._last_s.items()]

    @classmethod
    def from_json(
        cls, body: list[list[Any]], default_s: float = USUAL_S, most: int = MOST_NAMES
    ) -> RuntimeEstimates:
        """The same again, under other settings perhaps."""
        made = cls(default_s, most)
        for user, name, last_s in body:
            for run_s in reversed(last_s):
                made.finished(user, name, run_s)
        return made
