"""The options of a simulation: made and checked once, and handed on whole to the engine."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from betimes.cluster import Cluster, read_cluster
from betimes.errors import ClusterError, InputError
from betimes.twin.cluster_state import ClusterState
from betimes.twin.noted_cluster import noted_cluster
from betimes.twin.sizes import Sizes, parse_sizes
from betimes.twin.users import FairUsers, parse_users
from betimes.workload import Workload
from betimes.workload.speedup import SpeedupTable

OVERRUN = ("extend", "kill")
ON_WIDE = ("refuse", "clip", "drop")


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """The cluster of a simulation, the scheduler's knowledge of the workload, and the records to be kept.

    Times are in seconds. Raises InputError (and its children) for a value that no engine can take; `check` for one that
    means nothing on a certain engine.
    """

    units: int | None = None
    """Units of the pool; on nodes the cores of one pool without walls. By default those of the traced machine."""
    cluster: Cluster | None = None
    """The nodes; on a pool its GPUs, or its cores if it has none, are the units (docs/notes/pool-on-nodes.md)."""
    engine: str = "auto"
    """`pool`, `nodes`, or `auto`: what the policy is for; one for both runs on nodes where there are any."""
    fractional: bool = False
    """On a pool: grant fractions of a unit; else whole units."""
    curves: SpeedupTable | None = None
    """Measured speed-up curves, by name."""
    predict: bool = False
    """Promise a finish at every submission, or at those that `predict_sample` draws."""
    predict_sample: int | None = None
    """With `predict`: promise a finish to so many jobs, drawn by `seed`. None: to all."""
    interval: float | None = None
    """With `predict`: each promise is the median of an interval in which this share of the jobs is done
    (docs/notes/promises.md)."""
    sizes: Sizes | None = None
    """The run times that the scheduler believes. None: the truth; on nodes users' estimates, if the trace has any."""
    overrun: str | None = None
    """On nodes, jobs that outrun their estimate: `extend` (the default) doubles the belief, `kill` ends them."""
    seed: int = 0
    """Of everything that is drawn at random; 0 or more."""
    restart_s: float = 0.0
    """Lost when a running job's units change, or a preempted job resumes."""
    resize_interval_s: float = 0.0
    """On a pool: a job keeps its width at least so long, unless it is preempted."""
    resize_gain: bool = False
    """On a pool: change a width only where that pays."""
    timeline: bool = False
    """Record which units or nodes each job holds over time, and the decisions."""
    fair: bool = False
    """On a pool: also run max-min shares, without restarts, and record their finish times."""
    on_wide: str | None = None
    """Jobs that need more than there is: `refuse` (the default on a pool), `clip` (on a pool), or `drop` (the
    default on nodes)."""
    users: FairUsers | None = None
    """Users share by weight and recent use (docs/notes/fair-share.md). None: nobody's jobs go before another's."""
    state: ClusterState | None = None
    """The jobs that run and wait at the first instant (docs/how-to/from-python.md). None: no jobs."""
    as_trials: bool = False
    """On a pool: a job is as many equal trials as it can use units; each takes one unit (docs/notes/trials.md)."""

    def __post_init__(self) -> None:
        """Refuse values that no engine can take."""
        if type(self.predict) not in (bool, np.bool_):  # "yes" and 40 are true, too
            raise InputError(
                f"predict {self.predict!r}: give True or False; predict_sample=N promises to some of the jobs"
            )
        if self.interval is not None:
            if not 0.0 < self.interval < 1.0:
                raise InputError(
                    f"--interval {self.interval:g}: the share of jobs that are done within it, above 0 and below 1, "
                    "such as 0.8"
                )
            if not self.predict:
                raise InputError(
                    f"--interval {self.interval:g}: an interval is part of a promise; give --predict too"
                )
        if self.units is not None and self.units != int(self.units):
            raise InputError(f"--units {self.units}: a whole number")
        if self.overrun is not None and self.overrun not in OVERRUN:
            raise InputError(f"--overrun {self.overrun}: choose {' or '.join(OVERRUN)}")
        if self.on_wide is not None and self.on_wide not in ON_WIDE:
            raise ClusterError(f"--on-wide {self.on_wide}: choose {', '.join(ON_WIDE)}")
        if self.seed < 0:
            raise InputError(f"--seed {self.seed}: a whole number of 0 or more")
        for option, seconds, what in (
            ("restart-s", self.restart_s, "the time of a restart"),
            ("resize-interval", self.resize_interval_s, "the time between resizes"),
        ):
            if not 0.0 <= seconds < math.inf:
                raise ClusterError(f"--{option} {seconds:g}: {what} is a number of seconds from 0")

    @classmethod
    def of(cls, options: SimulationOptions | None, **fields: Any) -> SimulationOptions:
        """`options`, by default the default ones, with `fields` instead of its own.

        Cluster and curves may be given by the names of their files, sizes as text. Raises InputError, and TypeError for
        a field that does not exist.
        """
        if isinstance(fields.get("cluster"), str | os.PathLike):
            fields["cluster"] = read_cluster(fields["cluster"])
        if isinstance(fields.get("curves"), str | os.PathLike):
            fields["curves"] = SpeedupTable.read_csv(fields["curves"])
        if isinstance(fields.get("sizes"), str):
            fields["sizes"] = parse_sizes(fields["sizes"])
        if isinstance(fields.get("users"), str):
            fields["users"] = parse_users(fields["users"])
        made = replace(options or cls(), **fields)
        if made.cluster is not None and made.units is not None:
            raise InputError(
                f"--cluster {made.cluster.name}: --units {made.units} is given too; leave one of them out"
            )
        return made

    def pool_units(self, workload: Workload) -> int:
        """The units of a pool for `workload`: those given, the cluster's, or those of the traced machine.

        Raises InputError if there are none.
        """
        units = self.units
        if units is None:
            units = workload.machine_units if self.cluster is None else self.cluster.units
        if units is None:
            raise InputError(
                f"{workload.name}: the trace does not say how large its machine is; give --units N"
            )
        return int(units)

    def nodes_for(self, workload: Workload) -> Cluster:
        """The nodes for `workload`: those given, a pool of `units`, else the workload's own cluster or machine.

        Raises InputError if there are none.
        """
        if self.cluster is not None:
            return self.cluster
        noted = noted_cluster(workload) if self.units is None else None
        if noted is not None:
            return noted
        units = workload.machine_units if self.units is None else self.units
        if units is None:
            raise InputError(
                f"{workload.name}: the trace does not say how large its machine is; give --cluster FILE or --units N"
            )
        return Cluster.pool(int(units))

    def max_min(self) -> SimulationOptions:
        """The options of the max-min run that others are compared with: the same pool, and every change is free."""
        return SimulationOptions(
            units=self.units,
            cluster=self.cluster,
            engine="pool",
            fractional=self.fractional,
            curves=self.curves,
            seed=self.seed,
            on_wide=self.on_wide,
            state=self.state,
            as_trials=self.as_trials,
        )

    def check(self, engine: str) -> None:
        """Raise InputError for options that mean nothing on this engine."""
        held_back = bool(self.resize_interval_s or self.resize_gain)
        if engine == "nodes":
            resize = f"resize-{'gain' if self.resize_gain else 'interval'}"
            for name, given, why in (
                ("fractional", self.fractional, "jobs on nodes are never resized"),
                ("fair", self.fair, "there is no max-min run on nodes"),
                (resize, held_back, "jobs on nodes are never resized"),
                ("as-trials", self.as_trials, "sets of trials share the units of a pool"),
            ):
                if given:
                    raise InputError(f"--{name}: {why}; leave it out")
            if self.on_wide == "clip":
                raise InputError("--on-wide clip: jobs on nodes are never narrowed; choose drop or refuse")
            return
        if self.fractional and (self.cluster is not None or held_back):
            what = "resizes are held back in" if self.cluster is None else "units on nodes are"
            raise InputError(f"--fractional: {what} whole units; leave it out")
        if self.as_trials and (self.cluster is not None or self.fractional):
            what = "--cluster" if self.cluster is not None else "--fractional"
            raise InputError(
                f"--as-trials: trials take whole units of a pool without nodes; leave {what} out"
            )
        if self.state is not None and self.state.closed:
            raise InputError(
                f"state, closed node {self.state.closed[0]}: a pool counts all units of its nodes; leave the node out "
                "of the cluster"
            )
        if self.as_trials and self.state is not None:
            raise InputError(
                "state: sets of trials begin with none of them done; leave state or as_trials out"
            )
        if self.as_trials and self.users is not None:
            raise InputError("--users: trials are not counted by user; leave --users or --as-trials out")
        if self.as_trials and self.interval is not None:
            raise InputError(
                f"--interval {self.interval:g}: trials are promised without intervals; leave one of them out"
            )
        if self.as_trials and str(self.sizes) == "learned":
            raise InputError(
                "--sizes learned: the run times of trials are not learned; choose estimate or last-two"
            )
        if self.overrun is not None:
            raise InputError(
                f"--overrun {self.overrun}: on a pool estimates do not end jobs; leave it out, or give --engine nodes"
            )
