"""Drives the scheduler in real time: the controller, clocks, requests, effects, recovery and retention."""
