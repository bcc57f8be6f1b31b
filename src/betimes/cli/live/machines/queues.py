"""`betimes queues`: sets of nodes, and the defaults and limits of the jobs that go there."""

from __future__ import annotations

from betimes.cli.render.tables import Column
from betimes.cli.verbs import Json, Output, State

_COLUMNS = (
    Column("Queue", flexible=True),
    Column("Nodes", right=True),
    Column("Running", right=True),
    Column("Waiting", right=True),
    Column("Limit", right=True),
    Column("Longest", right=True),
    Column("Cores", rank=1, right=True),
    Column("GPUs", rank=1, right=True),
    Column("Priority", rank=2, right=True),
    Column("For", rank=3, flexible=True),
    Column("Labels", rank=4, flexible=True),
)


def queues(output: Output = None, state: State = None, as_json: Json = False) -> None:
    """List the queues: nodes and jobs there now, the time limit of jobs that have none, and the most of a job.

    The default one, for jobs that name none, has a star. `betimes submit --queue NAME` submits to one.
    """
    from betimes.cli.live.connection import connect
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import say, show
    from betimes.units import length

    with connect(state) as service:
        found = service.queues()
    if as_json:
        print_json(found)
        return
    if not found:
        say("There are no queues; tables [[queues]] in the service's settings make some.")
        return
    rows = [
        [
            f"{each.name}{'*' * each.default}",
            str(len(each.nodes)),
            str(each.running_jobs),
            str(each.waiting_jobs),
            *("" if each_s is None else length(each_s) for each_s in (each.time_limit_s, each.max_time_s)),
            *("" if most is None else f"{most:g}" for most in (each.max_cpu, each.max_gpu, each.priority)),
            ", ".join(each.users) or "all",
            ", ".join(f"{key}={value}" for key, value in each.require.items()),
        ]
        for each in found
    ]
    show(_COLUMNS, rows, wide=output is not None)
