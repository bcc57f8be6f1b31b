"""A policy as the nodes engine sees it: one record of rules and hooks."""

from __future__ import annotations

from collections.abc import Callable

from betimes.core.nodes.columns import NodesState, NodesView
from betimes.core.nodes.wait_predictor import Split
from betimes.core.placements import Node
from betimes.kernels import Floats, FloatTable, Ints, Records, Struct

SKIP, EASY, CONSERVATIVE, SLURM = 0, 1, 2, 3


class NodesRules(Struct):
    """The rules of a policy with its parameters, and its hooks (`policies.nodes.hooks`)."""

    ranked: bool  # else all keys are 0: first come, first served
    dynamic: bool  # keys change while jobs wait
    by_level: bool  # trial jobs first, or those of a higher priority: a class of its own where users share
    backfill: int  # SKIP: any that fits goes ahead; EASY: what does not delay the first that does not fit
    depth: int  # SLURM: jobs that are planned at most; 0: all
    horizon_s: float  # how far ahead
    resolution_s: float  # their plans begin and end at multiples of it; 0: as they are
    precision_s: float  # the first interval of ends that count as one; 0: none do
    window: int  # jobs passed over before a pass gives up; 1: strictly in order; 0: no limit
    spreads: bool  # a gang takes one node after another in turn
    preempts: bool
    most_preemptions: int  # protect a job from further ones
    trims: bool
    later_first: bool  # victims of the same score: the one submitted last first
    planned: bool  # a planner decides all starts, and no pass does, except that it
    fills: bool  # lets a job that fits on an empty machine start between rounds; the first comes with the first job
    tick_s: float  # > 0: passes and `provision` happen at multiples of it only
    waits: bool  # `wait` sets a job's deadline, after which a machine is rented for it alone
    foresees: bool  # a job that would wait in vain is known at once, and does not
    observes: bool  # the features of jobs that begin to wait are recorded
    learned: bool  # whether a job would wait in vain is predicted from these: by `trees`, `roots`, `weights` and `seen`
    plays: bool  # the same by playing forward: the loop asks for it
    trees: Records[Split]
    roots: Ints
    weights: Floats
    seen: FloatTable
    requeues_last: bool  # a job that has run on dedicated machines in vain goes to the end of the queue
    speculate_s: float  # < infinity: jobs run on rented machines for so long before they may wait for others
    by_core_time: bool  # so long over the number of their units
    learns: bool  # beliefs come from the user's last two jobs
    rank: Callable[[NodesView, float, Ints, Floats], None]
    place: Callable[[NodesView, Records[Node], int, Ints, Floats], None]
    evict: Callable[[NodesView, float, int, int, Ints, Floats], None]
    provision: Callable[[NodesView, float, Ints, Ints], None]
    wait: Callable[[NodesView, float, int], float]
    # Parts of the engine that only some policies need, so that the others need not compile them.
    share: Callable[[NodesState, NodesRules, int], int]  # `passes.schedule.share`, where users share
    preempt: Callable[[NodesState, NodesRules, int], int]  # `passes.preemption`, if the policy preempts
    reserve: Callable[[NodesState, NodesRules, int], int]  # `passes.backfilling`, if `backfill` is EASY
    # `passes.reservations`, if `backfill` is CONSERVATIVE, or `passes.slurm_backfill`
    start_as_reserved: Callable[[NodesState, NodesRules], int]
    order_machines: Callable[[NodesState, NodesRules], int]  # `machines.provisioning`, if it has ticks
    fill: Callable[[NodesState, NodesRules], int]  # `passes.empty_machines`, if it fills
    # `machines.wait_or_rent`, if it waits
    begin_to_wait: Callable[[NodesState, NodesRules, int], int]
    stop_waiting: Callable[[NodesState, NodesRules, int], int]
