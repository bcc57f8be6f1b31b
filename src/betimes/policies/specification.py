"""The published policies by text: `fifo`, `wfq:thresholds=1627+969473`, and users' own, `FILE.py:NAME`.

The engine may stand before each, as in `nodes:fifo`.
"""

from __future__ import annotations

from betimes.errors import PolicyError
from betimes.policies.hooks import Policy
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.policies.nodes.registry import NODES_POLICIES
from betimes.policies.parsing import ChosenPolicy, parsed
from betimes.policies.registry import POLICIES


def parse_policy(text: str) -> ChosenPolicy[Policy]:
    """The policy for a pool that `text` names; raises PolicyError naming the policy or parameter at fault."""
    return parsed(text.strip().removeprefix("pool:"), POLICIES, Policy)


def parse_nodes_policy(text: str) -> ChosenPolicy[NodesPolicy]:
    """The policy for nodes that `text` names; raises PolicyError naming the policy or parameter at fault."""
    return parsed(text.strip().removeprefix("nodes:"), NODES_POLICIES, NodesPolicy)


def split_policies(text: str) -> list[str]:
    """Several policies separated by commas; a part that looks like ``key=value`` belongs to the one before it."""
    texts: list[str] = []
    for part in text.split(","):
        # `a:x=1,y=2,b` is a with two parameters, then b: only a parameter has its `=` before any `:`.
        is_parameter = "=" in part.partition(":")[0]
        if is_parameter and texts:
            texts[-1] += "," + part
        elif part.strip():
            texts.append(part.strip())
    if not texts:
        raise PolicyError("no policy given; name some, separated by commas, as in fifo,srsf")
    return texts


def parse_policies(text: str) -> list[ChosenPolicy[Policy]]:
    """Several policies for a pool (`split_policies`)."""
    return [parse_policy(one) for one in split_policies(text)]
