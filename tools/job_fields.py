"""The meaning of each field of a job, in the words of the command line's help, for pages that list the fields."""

from __future__ import annotations

from betimes.cli.live.jobs.job_options import OPTIONS
from betimes.service.spec.spelling import SPELLINGS

MEANT = {
    "command": "The program and its arguments. Every job needs one.",
    "upload": "A directory that is sent along, in a file by its path, else by its SHA-256; the job runs in a copy.",
    "env": "Variables of its environment.",
    "after": "Start once that job has finished, or with :any, however it has ended: its number, or the name of a job "
    "before it in the same file or request.",
    "stdin": "What its command reads from standard input, as text. By default nothing.",
    "curve": "How much faster on more units: linear (the default), amdahl:F, power:A, or measured.",
    "demand": "What a unit needs on machines of a family instead, under a policy for nodes: tables by family, with "
    "`gpu`, `cpu` and `memory`, and with `speed`: how fast the job works there, if its run time is that at speed 1. "
    "The job then runs only on the families that are named; what one leaves out is what the job says beside it, and "
    "speed 1.",
    "steps": "Instead of `estimate`, with `step`: how many steps it takes.",
    "labels": "Labels, to find it by.",
    "resources": "So many of what the service counts besides machines, such as licences: a table by name.",
    "require": "Labels that its nodes must have, under a policy for nodes: a table, or texts such as `zone=a`.",
}
"""Meanings that differ from those of the options of the command line, or that have no option."""
SPELT = {field: name for name, one in SPELLINGS.items() for field in one.fields}
"""The name of a field in a job file, where it is another than in the specification."""


def meaning(name: str) -> str:
    """The meaning of a field: the help of its option on the command line, unless a file puts it another way."""
    if name in MEANT:
        return MEANT[name]
    return OPTIONS[name].__metadata__[0].settings["help"].removesuffix(" Repeatable.")
