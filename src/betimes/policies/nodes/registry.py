"""Every policy for nodes that ships with Betimes, by name."""

from __future__ import annotations

from betimes.policies.nodes.fitgpp import fitgpp
from betimes.policies.nodes.heterogeneous_wfq import heterogeneous_wfq
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.policies.nodes.packing import PACKING
from betimes.policies.nodes.portfolio import portfolio_of
from betimes.policies.nodes.provisioning import PROVISIONING
from betimes.policies.nodes.queues import BY_ORDER, conservative, easy, fifo, skip_over, slurm
from betimes.policies.nodes.victims import lowest_priority, youngest
from betimes.policies.nodes.waiting import WAITING
from betimes.policies.nodes.wfq_order import wfq_order

# As members of a portfolio, for which `wfq` is that for a pool.
_POSSIBLE: dict[str, NodesPolicy] = {
    policy.name: policy
    for policy in (
        fifo,
        skip_over,
        easy,
        conservative,
        slurm,
        *BY_ORDER,
        wfq_order,
        fitgpp,
        youngest,
        lowest_priority,
        *WAITING,
        *PROVISIONING,
        *PACKING,
    )
}
_POSSIBLE["portfolio"] = portfolio_of(_POSSIBLE)
NODES_POLICIES: dict[str, NodesPolicy] = {**_POSSIBLE, heterogeneous_wfq.name: heterogeneous_wfq}
