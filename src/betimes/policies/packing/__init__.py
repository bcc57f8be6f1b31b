"""Which instances to rent, and which tasks share one: Eva, its baselines and the exact optimum, as pure algorithms.

A planner reads a `Round` and answers with a `Plan`; it knows no clock, no core and no disk.
"""
