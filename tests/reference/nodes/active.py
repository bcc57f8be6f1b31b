"""A job on its way through the cluster."""

from collections.abc import Sequence

from tests.reference.nodes.model import BEST_EFFORT, TRIAL, Job, Number, Placement, Resources, Start, State
from tests.reference.nodes.resources import NOTHING


class ActiveJob:
    """One job, what it holds, and what is known and believed of it."""

    def __init__(self, seq: int, job: Job, families: Sequence[str]) -> None:
        if not (job.submit >= 0 and job.run > 0 and job.grace >= 0 and job.tasks >= 1 and job.units >= 1):
            raise ValueError(f"job {seq}: a time or a count that cannot be")
        if job.size is not None and job.size <= 0:
            raise ValueError(f"job {seq}: believed to take no time")
        stated = [demand for _, demand in job.by_family] or [job.demand]
        if any(min(demand) < 0 or demand == NOTHING for demand in stated):
            raise ValueError(f"job {seq}: demands nothing, or less")
        if job.qos not in {BEST_EFFORT, TRIAL}:
            raise ValueError(f"job {seq}: neither a trial nor best-effort")
        self.seq = seq
        self.job = job
        each = (job.demand_on(family) for family in set(families))
        self.demands = [demand for demand in each if demand is not None]  # that it may have here
        self.state = State.EXPECTED
        self.believed_size: Number = job.run if job.size is None else job.size
        self.done: Number = 0  # work before the present run, seconds
        self.works_from: Number | None = None  # the present run's start, and the restart overhead
        self.starts: list[Start] = []
        self.finish: Number | None = None

        self.held: dict[int, Resources] = {}  # by node
        self.nodes: Placement = ()  # where it runs or will run
        self.owed: dict[int, Resources] = {}  # of a nominated job: what its victims still hold for it

        self.promised: Number | None = None  # the start of its reservation, with conservative backfilling
        self.booked: Placement = ()  # and its nodes

        self.preemptions = 0
        self.signals: list[Number] = []
        self.vacates: list[Number] = []  # the last one may lie ahead
        self.preemptor: ActiveJob | None = None

    def done_at(self, now: Number) -> Number:
        """Seconds of work done in all; time within the restart overhead does not count."""
        if self.state is State.RUNNING:
            return self.done + max(0, now - self.works_from)
        return self.done

    def believed_left(self, now: Number) -> Number:
        return self.believed_size - self.done_at(now)

    def overhead(self, restart_s: Number) -> Number:
        """What passes between its next start and its work; a run that lasted no time does not count."""
        has_run = any(start.time < left for start, left in zip(self.starts, self.vacates, strict=False))
        return restart_s if has_run else 0

    @property
    def end(self) -> Number:
        """When a running job ends in truth."""
        return self.works_from + self.job.run - self.done

    @property
    def believed_end(self) -> Number:
        """When a running job is believed to end."""
        return self.works_from + self.believed_size - self.done

    @property
    def believed_leave(self) -> Number:
        """When the resources of a running or vacating job are believed to be free."""
        return self.vacates[-1] if self.state is State.VACATING else self.believed_end
