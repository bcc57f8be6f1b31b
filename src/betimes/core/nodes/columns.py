"""The state of a cluster of nodes: the pool engine's columns, and where everything is.

`jobs`, `progress` and `pool` are the records of `core.pool.columns`: a job holds all its units or none. Beside them
stand the jobs' needs (`needs`), the nodes, the placements that tie one to the other, the queue of waiting jobs
(`core.nodes.queue`) and the heap of timers (`core.nodes.timers`).

A node is the room of a machine; when a machine has gone, the next one reuses its node under another generation
(`core.nodes.machines.rented`).

Resources are whole numbers - thousandths of a GPU, thousandths of a core, MiB - so that what is taken and given
back a million times never drifts.
"""

from __future__ import annotations

from typing import Protocol

from betimes.core.closings import Closing
from betimes.core.instruction import Instruction
from betimes.core.placements import Node, Placement
from betimes.core.pool.columns import Job, Pool, Progress, Segment, User
from betimes.kernels import Floats, FloatTable, Ints, Records, Struct, view_by

OWNED = 3
"""The state of a machine that is there for good: up (`machines.RUNNING`)."""

AUTO, NEVER, NOW = range(3)
"""A submitter's choice about rented machines: the policy decides, none, one rather than wait."""

WORD = 62
"""Nodes in a whole number of `State.claimed`, which stays positive."""

BLOCK = 64
"""Entries in a block of the queue: a change moves at most half as many."""

GROUP = 64
"""Places of the queue's directory whose blocks are looked at together first."""

SIZES = 15
"""Number of classes of demands by amount, each twice the one before (`directory.class_of`)."""

CLASSES = 4 * SIZES
"""Classes of demand: bits of a whole number that is not negative."""

FEATURE_COLUMNS = 11
"""Of `State.features` (`wait_features`)."""

LARGEST_PRIORITY = 10**6

ANYTHING, ROOM_FREED = 1, 2
"""`Cluster.must_replan`: anything may differ (a node has opened or closed, a job has outrun its belief), or there is
nothing but more room on nodes in the ring of those freed (a job has ended early, another reservation has moved)."""


class Need:
    """A job's demand, and the nodes that it holds or is to get."""

    gpu: int  # of each task, thousandths; if it differs by family, the least (`nodes.demands`)
    cpu: int  # thousandths of a core
    memory: int  # MiB
    demands: int  # the job's first row of `State.demands`, one a family; 0: the same on all
    tasks: int  # start together, end together
    size_class: int  # of its demand (`directory.class_of`), while the job is in the queue
    labels: int  # a bit for each label that its nodes must have (`cluster.labels`)
    freed_seen: int  # length of the ring of freed nodes when it last did not fit, -1: not tried yet
    placed: int  # its first placement, -1: none
    bound: int  # the first placement of the nodes that it is bound to, -1: none
    holder: int  # its place in `State.holders`, -1: holds nothing
    leaver: int  # its place in `State.leavers`, -1: holds nothing
    trial: int  # 1: trial and error, 0: best effort
    level: int  # twice the priority, and one more for a trial job
    grace_s: float  # from the stop signal until it has left
    share: float  # Euclidean norm of the whole job's demand, each resource over the largest node's
    reserved_s: float  # start of its reservation; infinity: it has none
    reservation: int  # the first placement of its reservation, -1: none
    alarm_s: float  # the next event that does not follow from its account; infinity: none
    alarm: int  # `timers.LAUNCHED`, `EXPIRED`, `SPECULATED`, or of dedicated machines `BOOTED`, `RECLAIMED`
    workload: (
        int  # its row of `State.interference` and `State.hardware`; -1: it neither slows others nor is slowed
    )
    launch_s: float  # from taking its nodes until it contends with its neighbours there
    init_s: float  # and from then on until it works
    stop_s: float  # from the signal to move until it has left its nodes
    rented: int  # machines dedicated to it (`Renting`), 0: none
    dedicated: int  # 1: it is to run on such a machine at once, and is not in the queue
    fits_no_owned: int  # 1: no owned machine holds it
    began_s: float  # when it took the nodes that it holds
    contends: int  # 1: its launch is complete
    limit_s: float  # the longest that a run may take; 0: no such limit
    lasts_s: (
        float  # while it waits: how long it takes at most, by that limit, else as believed (`core.closings`)
    )
    exempt: int  # the bits of the closings that do not concern it (`core.closings`)


class Eviction:
    """A job that leaves its nodes, or waits for others to leave those that it is bound to (`Need.bound`)."""

    preempted_s: float  # the instant of the stop signal
    vacate_at: float  # infinity: no stop was signalled
    vacated_s: float  # when it last vacated; NaN: it has not been preempted, or runs again
    preemptor: int  # slot of the job that it makes room for, -1: none
    leaves: int  # 1: it is about to leave the nodes that it holds
    moves_when_free: int  # 1: it is asked to vacate once there is room on the nodes that it is bound to
    awaited: (
        int  # placements of `bound` with room still to be made, or whose machine is not up; > 0: nominated
    )
    claims: int  # 1: it claims all that is freed on its bound nodes; 0: only what its victims free


class Renting:
    """A job that waits for owned machines until machines are rented for it alone, or runs on these."""

    choice: int  # `AUTO`, `NEVER` or `NOW`: whether a machine may be rented for it alone
    queued_s: float  # when it last began to wait
    until_s: float  # until when it waits
    undecided: int  # 1: it waits until then unless the predicted wait is longer
    offer: int  # of its machines, -1: it has had none
    serial: int  # runs on machines of this offer before it
    boot_s: float  # that they take to boot
    whole_s: float  # work that was left when they were rented
    believed_s: float  # as was believed
    speculates_until_s: float  # end of its speculative run on them; infinity: the run is not speculative
    speculated: int  # 1: it has run on them for as long as a short job may, and did not end
    lost: int  # times that they were taken away


class TaskDemand:
    """The demand of each task of a job on machines of one family, and its speed there.

    Not in the order of `Need`: Numba would take this record, as a prefix of `Need`, for the other.
    """

    memory: int  # MiB
    cpu: int  # thousandths of a core
    gpu: int  # thousandths
    speed: float  # work a second; a job's run time is that at speed 1


class Residence(Placement):
    """Tasks of one job on one node, in the node's list."""

    slot: int  # the job
    unready: int  # 1: of a bound job, and the machine is not up
    before: int  # the previous placement on the same node, -1: this is the first
    after: int  # the next one on the same node, -1: none


class Step:
    """A node's free resources from an instant on, in the plan of reservations, until the next step."""

    at_s: float
    free_gpu: int
    free_cpu: int
    free_memory: int
    follows: int  # the next step of the same node, -1: none
    closed: int  # the bits of closings, from then on: free for the jobs that all of these exempt


class Timer:
    """An event due at a known time."""

    at_s: float
    rank: int  # kind, then order of submission (`timers.kind_of`)
    owner: int  # `timers.POLICY`, or a job's or a machine's


class End:
    """The begin or end of a job, while a pass looks ahead."""

    at_s: float
    rank: int  # order at the same time: the smallest first
    slot: int


class Entry:
    """A waiting job in the queue."""

    key: float
    seq: int
    slot: int


class Fence:
    """The position of a block in the queue."""

    key: float  # no entry of the block ranks before (key, its `seq`), and every entry of earlier blocks does
    block: int  # its number


class Bounds(Protocol):
    """Lower bounds on the demands of the jobs in a part of the queue."""

    gpu: int
    cpu: int
    memory: int
    classes: int


class Block:
    """A stretch of the queue."""

    head: int  # its entries are queue[block * BLOCK + head : block * BLOCK + tail]
    tail: int
    seq: int  # together with the key of its fence: where it begins
    gpu: int  # no task of any entry needs less than this
    cpu: int
    memory: int
    classes: int  # a bit for each class of demand that there may be (`directory.class_of`)


class Group:
    """The blocks at GROUP places of the directory, one after another; its bounds are as theirs."""

    known: int  # 1: its bounds hold; 2: also its row of `State.group_least_s`
    gpu: int
    cpu: int
    memory: int
    classes: int


class Tally:
    """Bounds on what a walk has passed over."""

    gpu: int
    cpu: int
    memory: int
    classes: int


class Room:
    """Free resources of the nodes, summed up in single numbers."""

    gpu: int  # the most on any node
    cpu: int
    memory: int
    all_gpu: int  # on all nodes together
    all_cpu: int
    all_memory: int
    classes: int  # a bit for each class of demand with jobs that may fit


class Choice:
    """A number of tasks on a node."""

    node: int
    tasks: int


class Absence:
    """A preemption: when the job got the stop signal, when it had left, and when it ran again."""

    row: int
    preempted_s: float
    vacated_s: float
    resumed_s: float


class Machine:
    """The machine of a node: owned, or rented under an offer."""

    state: int  # `machines.UNUSED`, `BOOTING`, `SETTING_UP`, `RUNNING`, `DRAINING` or `GOING`
    generation: int  # machines that have had this number before
    offer: int  # -1: owned
    serial: int  # machines of this offer that were asked for before
    requested_s: float
    booted_s: float  # infinity: not yet
    up_s: float  # infinity: not yet
    due_s: float  # time of `due`; infinity: nothing is known to be due
    due: int  # a kind of `timers`
    fails: int  # 1: it will not come up
    age_s: float  # time up until it gets notice; infinity: never
    residents: int  # the first of the placements on it, of jobs that hold it or are bound to it; -1: none
    empty_s: float  # since when nothing is on it, if nothing is
    idle_s: float  # that it was up and empty before
    task_s: float  # that tasks were on it, summed over them
    claims: int  # placements on it of jobs that wait for room there, or for the machine to be up
    cause: int  # why it goes: `machines.RELEASED`, `FAILED` or `TAKEN_AWAY`
    kind: int  # its group in the cluster; of a rented one -1 - offer
    family: int  # which of the cluster's


class Terms:
    """An offer: the resources, the cost and the delays of its machines."""

    gpu: int  # thousandths
    cpu: int  # thousandths of a core
    memory: int  # MiB
    family: int
    usd_per_h: float
    boot_s: float
    setup_s: float
    release_s: float
    min_bill_s: float
    bill_step_s: float
    from_request: int  # 1: charged for from the request, 0: from boot
    capacity: int  # machines at most at once
    notice_s: float
    spot: int  # 1: its machines may be taken away
    drawn: int  # 1: `State.fates` has each machine's boot time and fate
    known: int  # machines whose fate has been drawn
    labels: int  # as of a node: a bit for each label that jobs require and its machines have
    rented: int  # machines now
    asked: int  # machines ever


class Fate:
    """The random draws for a machine that will be requested (`cluster.draws`)."""

    boot_s: float
    fails: int
    age_s: float


class Lease:
    """A rented machine that has gone; or several that were rented for one job alone."""

    offer: int
    count: int  # machines
    serial: int
    node: int
    generation: int
    job: int  # the row of the job that it was dedicated to, -1: none
    requested_s: float
    booted_s: float  # infinity: it never was
    up_s: float  # infinity: it never was
    ended_s: float
    idle_s: float  # that it was up and empty
    task_s: float  # that tasks were on it, summed over them
    cause: int  # `machines.RELEASED`, `FAILED` or `TAKEN_AWAY`


class Cluster:
    """The scalars that only this engine has; an array of one record."""

    families: int  # of machines: as many rows of `State.demands` belong together
    most_gpu: float  # the largest capacity of any node; 1 where no node has any
    most_cpu: float
    most_memory: float
    waiting: int  # jobs in the queue
    least_gpu: int  # no task of any of them needs less than this
    least_cpu: int
    least_memory: int
    blocks: int  # blocks of the queue in use: directory[front : front + blocks]
    front: int  # the others are before and behind: the first is opened and closed without moving any
    nominated: int  # jobs bound to nodes that their victims have not left yet
    unused_head: int  # head of the list of unused placements, -1: none
    unused: int  # their number
    timers: int  # entries of `State.timers`
    leavers: int  # entries of `State.leavers`, as many as hold nodes; -1: they are not kept
    leases: int  # length of `State.leases`
    logged: int  # length of `State.log`
    ticks: int  # `provisioning.NOT_DUE`, `DUE` or `ORDERED`
    select_s: float  # from then on a pass with waiting jobs first asks for a selection of the policy; infinity: never
    migrations: int  # moves of jobs so far
    observed: int  # 1: `State.features` is written, and what follows is kept up to date
    owned_cpu: int  # of all nodes
    owned_memory: int
    observed_running: int  # jobs that hold nodes
    running_cpu: int
    running_memory: int
    running_since_s: float  # when they began, summed
    observed_waiting: int
    waiting_cpu: int
    waiting_since_s: float  # when they began to wait, summed
    predicted: int  # waits
    abstained: int  # waits that the predictor did not predict
    quota: int  # machines that may be rented at once
    lease_s: float  # from its request on a machine rented for several jobs takes work for so long; infinity: no limit
    longest_run_s: float  # no machine is rented for a job that takes longer
    rented: int  # rented machines
    freed: int  # times that something was freed on a node, since the beginning
    pending: int  # the driver's next step at this instant, 0: none
    changed: int  # grows whenever something starts, stops, or is expected to stop at another time
    seen_change: int  # `changed` at the end of the last complete pass, -1: none
    seen_freed: int  # `freed` then
    arrived: int  # jobs that have entered the queue since then: newcomers[:arrived]
    seed: int  # of random decisions
    draws: int  # decisions on victims taken so far
    held_gpu_s: float  # thousandths x seconds that jobs whose demand differs by family have held and left
    held_cpu_s: float
    held_memory_s: float
    absences: int  # length of `State.absences`
    must_replan: (
        int  # reservations may have to move: `ROOM_FREED` or `ANYTHING` since the last pass; 0: none has to
    )
    moved: int  # the same for what this pass has moved
    steps: int  # length of the plan of reservations, 0: there is none
    idle: int  # head of the list of its unused steps, -1: none
    planning: int  # 1: a pass was interrupted for want of room, and goes on with its plan
    shadow_s: float  # when the job with the reservation can start
    reserved: int  # its slot, -1: there is none
    outlasts: int  # 1: a job has started beside it that is believed to run longer
    level_mask: int  # the part of a level that counts: -1: all of it; 1: only whether the job is a trial
    guarded: int  # 1: hooks are a user's: they get copies, and their answers are checked


class NodesView(Struct):
    """The part of the state that a policy's hooks read."""

    params: Floats  # the policy's parameters, in the order it declares them
    pool: Records[Pool]  # (1,)
    cluster: Records[Cluster]  # (1,)
    placements: Records[Residence]
    nodes: Records[Node]  # (nodes,); a user's hooks are shown copies
    machines: Records[Machine]  # (nodes,)
    offers: Records[Terms]
    holders: Ints  # the slots of the jobs that hold nodes: holders[: pool[0].holders]
    progress: Records[Progress]  # (slots,)
    needs: Records[Need]  # (slots,)
    evictions: Records[Eviction]  # (slots,)
    rentings: Records[Renting]  # (slots,) of length 0 unless machines are rented for one job alone
    demands: Records[TaskDemand]  # what tasks need by family (`demands.demand_on`)
    jobs: Records[Job]  # (slots,)


class NodesState(Struct):
    """Everything the engine knows about a cluster at one instant, and room to think."""

    jobs: Records[Job]
    needs: Records[Need]
    evictions: Records[Eviction]
    rentings: Records[Renting]  # of length 0 unless machines are rented for one job alone
    progress: Records[Progress]
    nodes: Records[Node]
    placements: Records[Residence]
    cluster: Records[Cluster]
    pool: Records[Pool]
    params: Floats
    holders: Ints  # (slots,) those that run or are vacating, in no order
    free: Ints  # (slots,) stack of unused slots
    timers: Records[Timer]  # (slots + nodes + 1,) heap
    leavers: Records[End]  # (slots,) heap of when holders are believed to end (`believed_ends`)
    timer_of: Ints  # of each owner, where in the heap its own stands, -1: it has none
    queue: Records[Entry]  # (BLOCK * blocks,)
    blocks: Records[Block]
    directory: Records[Fence]  # (blocks,) those in use in order, then the others
    block_least_s: FloatTable  # (blocks, CLASSES) no entry of the class is believed to run shorter
    groups: Records[Group]  # a group for each GROUP places of the directory
    group_least_s: FloatTable  # (groups, CLASSES) as of its blocks
    vacated: Ints  # (nodes,) the last nodes that had something freed, a ring
    newcomers: Ints  # (slots,)
    segments: Records[Segment]  # of length 0 where none are recorded
    absences: Records[Absence]
    machines: Records[Machine]  # (nodes,)
    offers: Records[Terms]
    features: FloatTable  # (slots, FEATURE_COLUMNS) when the job began to wait (`wait_features`)
    fates: Records[Fate]  # a ring for each offer, of as many; of length 0 where nothing is drawn
    orders: Ints  # (2 x offers,) machines of each that a policy has ordered and that are still to be rented; to compare
    leases: Records[Lease]
    log: Records[Instruction]  # of length 0 where it is not read
    interference: (
        FloatTable  # (workloads, workloads) speed of the row's next to one of the column's; empty: none
    )
    # (workloads, offers) speed of the row's on machines of the column's; empty: 1 everywhere.
    hardware: FloatTable
    # A row for each family, after `families` rows of no job; of length 0: none differs.
    demands: Records[TaskDemand]
    closings: Records[Closing]  # of length 0 where no node closes
    users: Records[User]  # of length 0 where users do not share
    shown: Records[Node]  # what hooks are shown: the nodes themselves, or `aside`
    # Room to think, of no meaning between two passes:
    sketch: Records[Node]  # (nodes,) the nodes as they would be
    beside: Records[Node]  # (nodes,) what a job may take that outlasts the reservation
    aside: Records[Node]  # (nodes,) what a user's hook is shown of them
    rooms: Records[Room]  # (2,) what is free now, and what of it a job may take that outlasts the reservation
    tally: Records[Tally]  # (2,) of the block that a walk is in, and of the whole queue up to there
    tally_least_s: Floats  # (CLASSES,) of the block
    plan: Records[Choice]  # (nodes,)
    fitting: Ints  # (nodes,)
    chosen: Ints  # (slots,)
    asked: Ints  # (slots or nodes, whichever is more) what a user's hook is shown of either
    score: Floats  # (slots or nodes, whichever is more)
    ends: Records[End]  # (2 * slots,) begins and ends
    steps: Records[Step]  # the plan of reservations; node n's begins with step n
    claimed: Ints  # (words of nodes x (steps + 1),) a bit for each node that is taken from a step on (`slurm_backfill`)
    spans: Records[End]  # (2 x steps,) heap: from when on how many tasks of a job fit on a node
    open_spans: Records[End]  # (2 x steps,) of a node, a stack; of all, a heap of until when
    span_ends_s: Floats  # (2 x steps,) until when, by the rank of a span
    cursor: Ints  # (nodes,) a step of each


view_of = view_by(NodesView, NodesState, nodes="shown")
"""The fields of the state that a policy may read."""
