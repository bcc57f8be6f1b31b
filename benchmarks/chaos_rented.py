"""No job is lost or run twice and no machine is left running, whatever is killed while machines are rented.

As `chaos.py`, on a service that rents machines on which jobs really run: it is killed, machines are killed, and with
`--fleet command` so are scripts that answer for the provider, before or after they have done their part. At the end all
machines are given back: no process of one may be left, and the bill in the service's log is compared with the time for
which each machine was really there::

    python benchmarks/chaos_rented.py --fleet local --kills 100 --jobs 500
    python benchmarks/chaos_rented.py --fleet command --kills 100 --jobs 500
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from chaos import CALM_S, Chaos, Counts, Fault, Installation, run

from betimes.errors import ServiceError
from betimes.service.executors.supervision import processes
from betimes.service.views.models import RunView

POLICY = "odb:tick=0.5"  # which moves no job that runs
OFFERS = """
[[offers]]
type = "small"
cpu = 1
memory_gib = 1
usd_per_h = 3.6
boot_s = 1
bill_step_s = 1
bill_from = "{bill_from}"
capacity = 4
"""
BILL_FROM = {"local": "boot", "command": "request"}  # scripts do not say when a machine was up
USD_PER_S = 0.001  # of that
SLACK_S = (
    4.0  # between the service and the machines themselves: boots are free here, and a look takes its time
)
SCRIPT = """#!{python} -IS
import json, os, pathlib, random, signal, subprocess, sys, time
here = pathlib.Path(__file__).parent
asked, what = json.load(sys.stdin), pathlib.Path(__file__).name
time.sleep(random.uniform(0, 0.3))
file = here / "machines" / asked.get("name", "")
if what == "rent" and not file.exists():
    command = ["sh", "-c", "trap '' HUP; exec sleep 600"]
    new = here / f"{{os.getpid()}}.new"
    with open(new, "w") as made:  # the machine is there with its file, whoever is killed between the two
        pid = os.fork()
        if pid == 0:
            os.setsid()
            while not file.exists():
                time.sleep(0.01)
                if time.time() - os.fstat(made.fileno()).st_mtime > 1:
                    os._exit(1)
            os.execvp("sleep", ["sleep", "600"])
        print(pid, file=made)
    new.rename(file)
elif what == "release" and file.exists():
    try:
        os.kill(int(file.read_text()), signal.SIGKILL)
    except ProcessLookupError:
        pass
time.sleep(random.uniform(0, 0.3))
if what == "list":
    pids = {{each.name: int(each.read_text()) for each in (here / "machines").iterdir()}}
    lives = [name for name, pid in pids.items() if os.path.exists(f"/proc/{{pid}}") and
             open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()[0] not in "ZX"]
    print(json.dumps({{"machines": [{{"name": name, "state": "up", "pid": pids[name]}} for name in lives]}}))
else:
    print("{{}}")
"""


class Machines:
    """The machines that there really are, and when each was seen first and last, by name and process."""

    def __init__(self, fleet: str, folder: Path, state: Path) -> None:
        self.fleet, self.folder, self.leases = fleet, folder, state / "rented"
        self.seen: dict[tuple[str, int], tuple[float, float]] = {}
        self.late_s = (
            0.0  # the longest time from one look to the next: on a busy machine the service is as late
        )

    def watch(self) -> None:
        """Look again and again, in a thread."""
        looked_s = time.monotonic()
        while True:
            self.look()
            time.sleep(0.05)
            self.late_s, looked_s = max(self.late_s, time.monotonic() - looked_s), time.monotonic()

    def prepare(self) -> list[str]:
        """Write the scripts and the offers; the options of the service."""
        (self.folder / "machines").mkdir()
        (self.folder / "offers.toml").write_text(OFFERS.format(bill_from=BILL_FROM[self.fleet]))
        for name in ("rent", "release", "list"):
            script = self.folder / name
            script.write_text(SCRIPT.format(python=sys.executable))
            script.chmod(0o755)
        fleet = "local" if self.fleet == "local" else f"command:{self.folder}"
        return ["--fleet", fleet, "--cloud", str(self.folder / "offers.toml"), "--policy", POLICY]

    def look(self) -> dict[str, int]:
        """The processes of those that live, by name; they are noted."""
        found: dict[str, int] = {}
        files = self.leases.glob("*.lease") if self.fleet == "local" else (self.folder / "machines").iterdir()
        for file in files:
            try:
                pid = int(file.read_text().split("\n")[-2].split()[0])
            except (FileNotFoundError, ValueError, IndexError):
                continue  # it goes, or has no process yet
            if processes.lives(pid, None):
                found[file.stem] = pid
        now = time.time()
        for each in found.items():
            self.seen[each] = self.seen.get(each, (now, now))[0], now
        return found

    def scripts(self) -> list[int]:
        """The scripts at work."""
        found = []
        for pid in processes.everyone():
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if any(word.startswith(f"{self.folder}/") for word in words[:4]):
                found.append(pid)
        return found

    def end_all(self) -> None:
        """Leave none, whatever has happened."""
        for pid in (*self.look().values(), *self.scripts()):
            processes.send(pid, signal.SIGKILL)


class RentedChaos(Chaos):
    """Jobs on rented machines, and what happens to both."""

    cpu = 1.0

    def __init__(
        self, at: Installation, notes: Path, machines: Machines, kills: int, jobs: int, seed: int
    ) -> None:
        super().__init__(at, notes, None, None, seed)
        self.least_faults, self.least_jobs, self.machines = kills, jobs, machines
        self.killed: set[str] = set()
        self.killed_at = 0.0
        self.outages: list[tuple[float, float]] = []

    def _kinds(self) -> list[Fault]:
        kinds: list[Fault] = [
            (1.0, "services killed", self._kill_service),
            (2.0, "machines killed", self._kill_machine),
        ]
        return (
            [*kinds, (2.0, "answers lost", self._kill_script)] if self.machines.fleet == "command" else kinds
        )

    def _kill_service(self) -> bool:
        print(f"{sum(self.faults.values())} faults, {self.accepted} jobs", file=sys.stderr, flush=True)
        self.killed_at = time.time()
        self.at.kill()
        return True

    def _start(self) -> None:
        super()._start()
        self.outages.append((self.killed_at, time.time()))

    def _kill_machine(self) -> bool:
        there = sorted(self.machines.look().items())
        if not there:
            return False
        name, pid = self.draw.choice(there)
        self.killed.add(name)
        return processes.send(pid, signal.SIGKILL)

    def _kill_script(self) -> bool:
        at_work = self.machines.scripts()
        return bool(at_work) and processes.send(self.draw.choice(at_work), signal.SIGKILL)

    def _had_to_end(self, run: RunView) -> bool:
        return run.outcome == "node-lost" and any(place.node in self.killed for place in run.places)

    def calm(self) -> list[str]:
        """Wait for the jobs, then give all machines back."""
        late = super().calm()
        patience_at, asked = time.monotonic() + CALM_S, False
        while time.monotonic() < patience_at:
            try:
                if not asked:
                    self._client.give_back(now=True)
                    asked = True
                fleet = self._client.fleet()
                if not fleet.machines and not fleet.going and not self.machines.look():
                    return late
            except ServiceError:
                pass
            time.sleep(0.05)
        left = ", ".join(sorted(self.machines.look())) or "none, but the service goes on giving some back"
        return [*late, f"machines that are left: {left}"]

    def judge(self) -> Counts:
        """With the bill."""
        found, costs, unseen = super().judge(), dict[str, float](), dict(self.machines.seen)
        turns = sorted({event.at for event in self._client.events()})
        # A service that answers may be long in its first turn, until which it looks at no machine.
        outages = [(begun, next((at for at in turns if at > to), to)) for begun, to in self.outages]
        for event in self._client.events(kinds=["node-gone"]):
            name, rented_at = str(event.node), event.data["rented_at"]
            if name in costs:
                found.doubled.append(f"machine {name} is gone twice")
            costs[name] = event.data.get("cost_usd", 0.0)
            # One of that name from before is one that a service was killed over before it had noted it.
            its = [(each, at) for each, at in unseen.items() if each[0] == name and at[1] > rented_at]
            since, until = unseen.pop(its[-1][0]) if its else (event.at, event.at)
            if event.data["why"] == "boot-failed":
                continue  # which is not charged for
            unknown_s = sum(max(0.0, min(to, event.at) - max(begun, until)) for begun, to in outages)
            paid_s, lived_s = costs[name] / USD_PER_S, until - since
            slack_s = SLACK_S + self.machines.late_s
            if not lived_s - slack_s <= paid_s <= lived_s + unknown_s + slack_s:
                found.falsely_ended.append(
                    f"machine {name} was there for {lived_s:.1f} s, and {paid_s:.1f} s are paid: {event}"
                )
        billed, month = sum(costs.values()), self._client.fleet().month_usd
        if abs(billed - month) > 1e-6:
            found.falsely_ended.append(f"the log has {billed:.6f} USD, and `betimes fleet` {month:.6f}")
        print(
            f"{len(costs)} machines in the log, {billed / USD_PER_S:.0f} s paid; besides {len(unseen)} that a service "
            f"was killed over before it had noted them, {sum(to - at for at, to in unseen.values()):.0f} s; looked at "
            f"every {self.machines.late_s:.1f} s or more often"
        )
        return found


def main(arguments: list[str] | None = None) -> int:
    """Print what was lost, doubled and falsely ended; 0: nothing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fleet", choices=("local", "command"), default="local")
    parser.add_argument("--kills", type=int, default=100, help="at least so many faults (default 100)")
    parser.add_argument("--jobs", type=int, default=500, help="at least so many jobs (default 500)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of what happens, and when")
    given = parser.parse_args(arguments)
    signal.signal(
        signal.SIGTERM, lambda number, _: sys.exit(128 + number)
    )  # machines and the service go, too
    with tempfile.TemporaryDirectory(prefix="betimes-chaos-") as folder:
        notes, state, own = Path(folder, "notes"), Path(folder, "state"), Path(folder, "cloud")
        for each in (notes, own):
            each.mkdir()
        (notes / "journal").touch()
        machines = Machines(given.fleet, own, state)
        options = machines.prepare()
        threading.Thread(target=machines.watch, daemon=True).start()
        chaos = RentedChaos(
            Installation(state, options), notes, machines, given.kills, given.jobs, given.seed
        )
        print(
            f"seed {given.seed}, {given.kills} faults and {given.jobs} jobs on machines of --fleet {given.fleet}",
            flush=True,
        )
        try:
            found = run(chaos, 0.0)
        except ServiceError as error:
            print(f"chaos: {error}", file=sys.stderr)
            return 1
        finally:
            machines.end_all()
        print(f"{chaos.accepted} jobs, {len(chaos.cancelled)} cancellations asked for")
        print(", ".join(f"{count} {name}" for name, count in chaos.faults.items() if count))
        print("\n".join(found.lines()))
        return 1 if found.total else 0


if __name__ == "__main__":
    sys.exit(main())
