"""Betimes: a batch scheduler that looks ahead.

The names below are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from betimes.lazy import lazy_names

if TYPE_CHECKING:
    from betimes.client import AsyncClient, Client, JobSpec
    from betimes.cluster import Cluster, read_cluster
    from betimes.foresight.learn import Learned, learn
    from betimes.foresight.learned_promises import Promise
    from betimes.foresight.simulate import simulate
    from betimes.foresight.tuning import Front, Search, Tuner, tune
    from betimes.outcome import Result, load, save, summarise
    from betimes.policies import NODES_POLICIES, POLICIES
    from betimes.reporting import progress
    from betimes.resizing import on_resize
    from betimes.twin.cluster_state import ClusterState, RunningJob
    from betimes.twin.generate import generate
    from betimes.twin.options import SimulationOptions
    from betimes.workload import Job, Workload, mark_trials, read_trace
    from betimes.workload.speedup import SpeedupTable

__version__ = "0.1.0"

_HOME = {
    "NODES_POLICIES": "betimes.policies",
    "POLICIES": "betimes.policies",
    "AsyncClient": "betimes.client",
    "Client": "betimes.client",
    "Cluster": "betimes.cluster",
    "ClusterState": "betimes.twin.cluster_state",
    "Front": "betimes.foresight.tuning",
    "Job": "betimes.workload",
    "JobSpec": "betimes.client",
    "Learned": "betimes.foresight.learn",
    "Promise": "betimes.foresight.learned_promises",
    "Result": "betimes.outcome",
    "RunningJob": "betimes.twin.cluster_state",
    "Search": "betimes.foresight.tuning",
    "SimulationOptions": "betimes.twin.options",
    "SpeedupTable": "betimes.workload.speedup",
    "Tuner": "betimes.foresight.tuning",
    "Workload": "betimes.workload",
    "generate": "betimes.twin.generate",
    "learn": "betimes.foresight.learn",
    "load": "betimes.outcome",
    "mark_trials": "betimes.workload",
    "on_resize": "betimes.resizing",
    "progress": "betimes.reporting",
    "read_cluster": "betimes.cluster",
    "read_trace": "betimes.workload",
    "save": "betimes.outcome",
    "simulate": "betimes.foresight.simulate",
    "summarise": "betimes.outcome",
    "tune": "betimes.foresight.tuning",
}

__all__ = [
    "NODES_POLICIES",
    "POLICIES",
    "AsyncClient",
    "Client",
    "Cluster",
    "ClusterState",
    "Front",
    "Job",
    "JobSpec",
    "Learned",
    "Promise",
    "Result",
    "RunningJob",
    "Search",
    "SimulationOptions",
    "SpeedupTable",
    "Tuner",
    "Workload",
    "generate",
    "learn",
    "load",
    "mark_trials",
    "on_resize",
    "progress",
    "read_cluster",
    "read_trace",
    "save",
    "simulate",
    "summarise",
    "tune",
]

__getattr__, __dir__ = lazy_names(__name__, _HOME)
