"""What live nodes looked like when they were last looked at, to tell what has changed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.core.nodes.columns import NodesState
from betimes.kernels import as_array


@dataclass(frozen=True)
class Seen:
    """What the columns said last, (slots,) each."""

    holds: NDArray[Any]
    placed: NDArray[Any]
    leave_by_s: NDArray[Any]  # infinity: it has not been told to leave
    promised_s: NDArray[Any]  # infinity: it has no reservation
    size_s: NDArray[Any]

    def forget(self, slot: int) -> None:
        """The job in this slot holds nothing, and is bound to nothing, whatever it was before."""
        self.holds[slot] = self.placed[slot] = False
        self.leave_by_s[slot] = self.promised_s[slot] = math.inf

    def differs_from(self, other: Seen) -> NDArray[np.bool_]:
        """(slots,) where anything is different."""
        return (
            (self.holds != other.holds)
            | (self.placed != other.placed)
            | (self.leave_by_s != other.leave_by_s)
            | (self.promised_s != other.promised_s)
            | (self.size_s != other.size_s)
        )

    def longer(self, by: int) -> Seen:
        """With so many more slots, in which nothing has been seen."""
        nobody, never = np.zeros(by, dtype=bool), np.full(by, math.inf)
        return Seen(
            np.concatenate([self.holds, nobody]),
            np.concatenate([self.placed, nobody]),
            np.concatenate([self.leave_by_s, never]),
            np.concatenate([self.promised_s, never]),
            np.concatenate([self.size_s, np.zeros(by)]),
        )


def look(state: NodesState) -> Seen:
    """What the columns say now."""
    needs, jobs = as_array(state.needs), as_array(state.jobs)
    live = as_array(state.progress)["mark"] >= 0
    return Seen(
        holds=live & (needs["holder"] >= 0),
        placed=live & ((needs["placed"] >= 0) | (needs["bound"] >= 0)),
        leave_by_s=np.where(live & (needs["holder"] >= 0), needs["vacate_at"], math.inf),
        promised_s=np.where(live, needs["promised_s"], math.inf),
        size_s=jobs["size_s"].copy(),
    )
