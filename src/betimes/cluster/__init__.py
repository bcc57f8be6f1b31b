"""Where jobs run: `Cluster`, its groups of equal nodes and its offers of more, and the reader of cluster files.

The names below are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from betimes.lazy import lazy_names

if TYPE_CHECKING:
    from betimes.cluster.catalogue import catalogues
    from betimes.cluster.cluster import Cluster, NodeGroup
    from betimes.cluster.interference import Interference, read_interference
    from betimes.cluster.offer import Offer, Spot
    from betimes.cluster.readers.any_format import read_cluster

__all__ = [
    "Cluster",
    "Interference",
    "NodeGroup",
    "Offer",
    "Spot",
    "catalogues",
    "read_cluster",
    "read_interference",
]

_HOME = {
    "Cluster": "betimes.cluster.cluster",
    "Interference": "betimes.cluster.interference",
    "NodeGroup": "betimes.cluster.cluster",
    "Offer": "betimes.cluster.offer",
    "Spot": "betimes.cluster.offer",
    "catalogues": "betimes.cluster.catalogue",
    "read_cluster": "betimes.cluster.readers.any_format",
    "read_interference": "betimes.cluster.interference",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
