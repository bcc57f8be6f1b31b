"""The policies without preemption: a queue order and a backfill rule."""

from __future__ import annotations

from dataclasses import replace

from betimes.policies.hooks import Parameter
from betimes.policies.nodes.hooks import BACKFILL, MOST, ORDER, PLACEMENT, WINDOW, NodesPolicy
from betimes.policies.nodes.orders import ORDERS

QUESTIONS = {
    "sjf": "Which order gives short completion times?",
    "ljf": "Which order packs the long jobs first?",
    "widest": "Which order packs the wide jobs first?",
    "slowdown": "Who suffers most from waiting, for its length?",
    "wfp3": "Who has waited longest for its length, with a bonus for wide jobs?",
    "unicef": "Who has waited longest for its work, with a bonus for narrow jobs?",
}

fifo = NodesPolicy(
    name="fifo",
    summary="In order of submission; a job that does not fit holds up all behind it.",
    question="Which order is perfectly predictable?",
    paper="the baseline of FitGpp (OpML 2019)",
)

skip_over = NodesPolicy(
    name="skip-over",
    summary="In order, but a job that fits goes ahead of those that do not.",
    question="What does it bring never to leave a fitting gap empty?",
    paper="work-conserving queue of the waiting policies (SoCC 2021)",
    parameters=(WINDOW, ORDER, PLACEMENT),
    backfill="skip-over",
)

easy = NodesPolicy(
    name="easy",
    summary="The first job that does not fit has a reservation; others go ahead if they do not delay it.",
    question="What do most operators run today?",
    paper="Lifka (JSSPP 1995)",
    parameters=(WINDOW, ORDER, PLACEMENT),
    backfill="easy",
)

conservative = NodesPolicy(
    name="conservative",
    summary="Every waiting job has a reservation; others go ahead if they delay none of those before them.",
    question="What if no job may be delayed by one that overtakes it?",
    paper="Feitelson and Weil (IPPS 1998)",
    parameters=(WINDOW, ORDER, PLACEMENT),
    backfill="conservative",
)

slurm = NodesPolicy(
    name="slurm",
    summary="As Slurm plans: in order of priority, whole nodes, to a depth and a horizon, all anew at each pass.",
    question="What will the Slurm that is there do with this queue?",
    paper="Slurm's sched/backfill, version 22.05, as measured",
    parameters=(
        Parameter("depth", "jobs that are planned; 0: all (bf_max_job_test)", 500.0, low=0.0, high=MOST),
        Parameter(
            "horizon",
            "how far ahead jobs are planned; 0: without limit (bf_window)",
            86400.0,
            low=0.0,
            is_duration=True,
        ),
        Parameter(
            "resolution",
            "plans begin and end at multiples of it; 0: to the instant (bf_resolution)",
            60.0,
            low=0.0,
            is_duration=True,
        ),
        Parameter(
            "precision",
            "running jobs that end within such a time count as one, and twice that further on; 0: each for itself",
            30.0,
            low=0.0,
            is_duration=True,
        ),
        replace(PLACEMENT, default="row"),
    ),
    rank=ORDERS["level"].rank,
    backfill="slurm",
    by_priority=True,
)

BY_ORDER = tuple(
    NodesPolicy(
        name=name,
        summary=f"In the order of {ORDERS[name].summary}.",
        question=question,
        paper="portfolio scheduling (JSSPP 2013)" if ORDERS[name].dynamic else "the classical order",
        parameters=(BACKFILL, WINDOW, PLACEMENT),
        rank=ORDERS[name].rank,
        dynamic=ORDERS[name].dynamic,
    )
    for name, question in QUESTIONS.items()
)
