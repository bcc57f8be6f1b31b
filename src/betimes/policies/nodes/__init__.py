"""Policies for nodes: queue order, placement, preemption."""
