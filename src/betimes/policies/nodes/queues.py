"""The policies without preemption: a queue order and a backfill rule."""

from __future__ import annotations

from betimes.policies.nodes.hooks import BACKFILL, ORDER, PLACEMENT, WINDOW, NodesPolicy
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
