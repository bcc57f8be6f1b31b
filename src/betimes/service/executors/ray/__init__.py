"""Runs on the machines of a Ray cluster.

::

    service                                    node of the cluster
    RayExecutor ── NodeLink, one a node ──┐    NodeAgent, a detached actor: a LocalExecutor of that machine
    Membership (who joins, who leaves) ───┤      └─ supervisors, one a run, that outlive agent and service
    ClusterConnection ── bridge process ──┴──── Ray

Only `bridge` imports Ray, in a separate process: a driver ends with its cluster, and the service must not.
"""
