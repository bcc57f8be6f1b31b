"""What of a decision can be carried out (docs/notes/pool-on-nodes.md): the gate on resizes, room on nodes."""

from dataclasses import dataclass

from tests.reference.policy import Number

TOO_SOON = "too soon"
NO_GAIN = "no gain"
KEPT_BY_OTHERS = "kept by others"
NO_ROOM = "no room"


@dataclass
class Settled:
    """What became of what one job was given."""

    asked: int
    units: int
    reason: str | None = None


class Cut:
    """One decision, cut. `settled` has every job that the policy named, `opens` when somebody held back may resize."""

    def __init__(self, cluster, asked: dict[int, Number]) -> None:
        self.cluster = cluster
        self.before = {job.index: job.settled_grant for job in cluster.active}
        self.named = [cluster.active_job(index) for index, units in asked.items() if units > 0]
        self.settled = {job.index: Settled(asked[job.index], 0) for job in self.named}
        self.opens: Number | None = None
        held_back = [job for job in self.named if self.comes_too_soon(job)]
        if self.total_kept(held_back) > cluster.units:
            held_back = []
        self.left = cluster.units - self.total_kept(held_back)
        for job in cluster.active:
            job.places = [list(place) for place in job.settled_places]
            self.give_back(job, self.keeps(job, held_back))
        for job in self.named:
            if job in held_back:
                self.hold_back(job)
            else:
                self.serve(job, self.keeps(job, held_back))
        if cluster.resize_gain:
            for job in self.named:
                if self.settled[job.index].units < self.before[job.index]:
                    self.keep_after_all(job)

    # --- who keeps what ---

    def comes_too_soon(self, job) -> bool:
        before, interval = self.before[job.index], self.cluster.resize_interval
        if interval == 0 or before == 0 or self.settled[job.index].asked == before:
            return False
        return self.cluster.now < job.width_since + interval

    def keeps(self, job, held_back) -> int:
        if job.index not in self.settled:
            return 0
        before = self.before[job.index]
        return before if job in held_back else min(before, self.settled[job.index].asked)

    def total_kept(self, held_back) -> int:
        return sum(self.keeps(job, held_back) for job in self.named)

    def hold_back(self, job) -> None:
        self.settled[job.index].units = self.before[job.index]
        self.settled[job.index].reason = TOO_SOON
        opens = job.width_since + self.cluster.resize_interval
        self.opens = opens if self.opens is None else min(self.opens, opens)

    # --- who gets more ---

    def serve(self, job, keeps: int) -> None:
        it = self.settled[job.index]
        it.units = keeps
        wanted = it.asked - keeps
        more = min(wanted, self.left)
        if more < wanted:
            it.reason = KEPT_BY_OTHERS
        if self.cluster.nodes is not None:
            fitting = min(more, sum(self.fitting(job, node, more) for node in self.node_numbers()))
            if fitting < more:
                more, it.reason = fitting, NO_ROOM
        if keeps == 0 and more < job.min_units:
            more = 0
        if keeps > 0 and more > 0 and self.cluster.resize_gain and not self.pays(job, keeps + more):
            more, it.reason = 0, NO_GAIN
        self.left -= more
        it.units += more
        if self.cluster.nodes is not None:
            self.place(job, more)

    def pays(self, job, units: int) -> bool:
        restart = self.cluster.restart_s if job.has_progressed else 0
        grown = restart + job.believed_left / job.rate(units)
        return grown < job.stall_left + job.believed_left / job.rate(self.before[job.index])

    def keep_after_all(self, job) -> None:
        it = self.settled[job.index]
        more = self.before[job.index] - it.units
        if more > self.left:
            return
        if self.cluster.nodes is not None:
            now = job.places
            job.places = [list(place) for place in job.settled_places]
            if any(min(self.free(node)) < 0 for node in self.node_numbers()):
                job.places = now
                return
        self.left -= more
        it.units += more
        it.reason = NO_GAIN

    # --- nodes ---

    def node_numbers(self) -> range:
        return range(len(self.cluster.nodes or ()))

    def free(self, node: int) -> list[int]:
        """What all jobs, as they are placed now, leave of a node."""
        left = list(self.cluster.nodes[node])
        for job in self.cluster.active:
            for number, units in job.places:
                if number == node:
                    left = [amount - units * each for amount, each in zip(left, job.demand, strict=True)]
        return left

    def fitting(self, job, node: int, most: int) -> int:
        if not self.cluster.up[node]:
            return 0
        free = self.free(node)
        units = 0
        while units < most and all(
            (units + 1) * each <= amount or each == 0 for each, amount in zip(job.demand, free, strict=True)
        ):
            units += 1
        return units

    def give_back(self, job, keeps: int) -> None:
        """Last placed first."""
        while sum(units for _, units in job.places) > keeps:
            job.places[-1][1] -= 1
            if job.places[-1][1] == 0:
                job.places.pop()

    def place(self, job, units: int) -> None:
        while units > 0:
            its_own = [number for number, _ in job.places]
            candidates = [node for node in its_own if self.fitting(job, node, units) > 0] or [
                node for node in self.node_numbers() if node not in its_own
            ]
            best = min(candidates, key=lambda node: (-self.fitting(job, node, units), *self.free(node), node))
            taken = self.fitting(job, best, units)
            if best in its_own:
                job.places[its_own.index(best)][1] += taken
            else:
                job.places.append([best, taken])
            units -= taken
