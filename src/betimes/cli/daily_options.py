"""The options that `betimes VERB --help` shows, under headings, of verbs that have too many; --help-all shows all."""

from __future__ import annotations

from collections.abc import Mapping

_JOB = {
    "What": ("--name", "--workdir", "--output", "--array", "--each-line"),
    "Needs": ("--cpu", "--memory", "--gpu", "--estimate", "--time-limit"),
    "When": ("--after", "--begin", "--by"),
    "Where": ("--upload", "--rent"),
    "After it ends": ("--retries", "--notify", "--wait"),
}
_SIMULATION = {
    "What": ("--jobs", "--load", "--seed"),
    "Where": ("--policy", "--policies", "--units", "--cluster"),
    "Promises": ("--predict", "--interval", "--sizes"),
    "Results": ("--measure", "--out", "--report", "--open"),
}
DAILY: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "submit": _JOB,
    "quote": _JOB,
    "run": _JOB,
    "simulate": _SIMULATION,
    "compare": _SIMULATION,
    "up": {
        "Where": ("--service", "--config", "--listen", "--port"),
        "Machines": ("--cluster", "--fleet", "--ray"),
        "Who starts when": ("--policy", "--fair-share"),
        "Users": ("--local-users", "--notify"),
        "Money": ("--budget", "--most-machines"),
        "Try it": ("--replay", "--speed"),
    },
}
"""By verb and heading; a verb leaves out the options that it does not have. Those without a heading are shown last."""
