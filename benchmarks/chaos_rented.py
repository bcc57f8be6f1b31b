"""No job is lost or run twice and no machine is left running, whatever is killed while machines are rented.

As `chaos.py`, on a service that rents machines on which jobs really run: it is killed, machines are killed, and with
`--fleet command` so are scripts that answer for the provider, before or after they have done their part. At the end all
machines are given back: no process of one may be left, and the bill in the service's log is compared with the time for
which each machine was really there::

    python benchmarks/chaos_rented.py --fleet local --kills 100 --jobs 500
    python benchmarks/chaos_rented.py --fleet command --kills 100 --jobs 500
    python benchmarks/chaos_rented.py --fleet ec2 --kills 100 --jobs 500
    python benchmarks/chaos_rented.py --fleet local --kills 100 --jobs 500 --policy fifo:rent_within=1

With `--fleet ec2` the account is at moto's server, which loses answers, and instances are processes that join a Ray
cluster here; the log's bill has to be the account's to the cent.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from chaos import CALM_S, Chaos, Counts, Fault, Installation, run

from betimes.errors import ServiceError
from betimes.service.executors.supervision import processes
from betimes.service.views.models import RunView

sys.path.insert(0, str(Path(__file__).parents[1]))  # a checkout
from tests.service.executors.ray.metadata import metadata_service
from tests.service.executors.ray.served import RayOnThisMachine
from tests.service.executors.rented.instances import Instances, aws_account, table_of

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

    def __init__(self, fleet: str, folder: Path, state: Path, policy: str) -> None:
        self.fleet, self.folder, self.leases, self.policy = fleet, folder, state / "rented", policy
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
        return ["--fleet", fleet, "--cloud", str(self.folder / "offers.toml"), "--policy", self.policy]

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

    def kill(self, name: str, pid: int) -> bool:
        """End a machine."""
        return processes.send(pid, signal.SIGKILL)

    def end_all(self) -> None:
        """Leave none, whatever has happened."""
        for pid in (*self.look().values(), *self.scripts()):
            processes.send(pid, signal.SIGKILL)


class Ec2Machines(Machines):
    """Instances of an account at moto's server."""

    def __init__(self, folder: Path, state: Path, policy: str) -> None:
        super().__init__("ec2", folder, state, policy)
        self._stack = contextlib.ExitStack()

    def watch(self) -> None:
        """Nothing: the account knows when each was there."""

    def prepare(self) -> list[str]:
        """Open the account, and start Ray's head; the options of the service."""
        enter = self._stack.enter_context
        (settings, self.answers), metadata = enter(aws_account("eu-central-1")), enter(metadata_service())
        ray = RayOnThisMachine(head_cores=0)
        self._stack.callback(ray.end)
        self.instances = Instances(settings.region, self.folder, metadata)
        self._stack.callback(self.instances.close)
        file = self.folder / "aws.toml"
        offer = (
            OFFERS.format(bill_from="request")
            .replace('"small"', '"m5.large"')
            .replace("boot_s = 1", "boot_s = 20")
        )
        file.write_text(table_of(settings) + offer)
        return ["--fleet", "ec2", "--cloud", str(file), "--ray", ray.address, "--policy", self.policy]

    def look(self) -> dict[str, int]:
        """Those that live, by name; of none a process is known."""
        return dict.fromkeys(self.instances.ids(), 0)

    def kill(self, name: str, pid: int) -> bool:
        """The market takes it away."""
        self.instances.take(name)
        return True

    def end_all(self) -> None:
        """Leave none, and no cluster."""
        self._stack.close()


class RentedChaos(Chaos):
    """Jobs on rented machines, and what happens to both."""

    cpu = 1.0

    def __init__(
        self, at: Installation, notes: Path, machines: Machines, kills: int, jobs: int, seed: int
    ) -> None:
        super().__init__(at, notes, None, None, seed)
        self.least_faults, self.least_jobs, self.machines = kills, jobs, machines
        if machines.fleet == "ec2":
            self.faults_a_s = 0.25  # machines take a while to boot
        self.killed: set[str] = set()
        self.killed_at = 0.0
        self.outages: list[tuple[float, float]] = []

    def _kinds(self) -> list[Fault]:
        kinds: list[Fault] = [
            (1.0, "services killed", self._kill_service),
            (2.0, "machines killed", self._kill_machine),
        ]
        if isinstance(self.machines, Ec2Machines):
            kinds.append((2.0, "answers lost", self._lose_answers))
        elif self.machines.fleet == "command":
            kinds.append((2.0, "answers lost", self._kill_script))
        return kinds

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
        return self.machines.kill(name, pid)

    def _kill_script(self) -> bool:
        at_work = self.machines.scripts()
        return bool(at_work) and processes.send(self.draw.choice(at_work), signal.SIGKILL)

    def _lose_answers(self) -> bool:
        """The next ones of a kind; the sixth launch is one that the service gives up before."""
        assert isinstance(self.machines, Ec2Machines)
        action = self.draw.choice(["RunInstances", "TerminateInstances", "DescribeInstances"])
        self.machines.answers.lost[action] = self.draw.randrange(1, 7)
        return True

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
        if isinstance(self.machines, Ec2Machines):
            self._judge_bill(found, self.machines.instances)
            return found
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
            unknown_s = sum(max(0.0, min(to, event.at) - max(begun, until)) for begun, to in self.outages)
            paid_s, lived_s = costs[name] / USD_PER_S, until - since
            slack_s = SLACK_S + self.machines.late_s
            if not lived_s - slack_s <= paid_s <= lived_s + unknown_s + slack_s:
                found.falsely_ended.append(
                    f"machine {name} was there for {lived_s:.1f} s, and {paid_s:.1f} s are paid: {event}"
                )
        billed, month = sum(costs.values()), self._client.fleet().month_usd
        if abs(billed - month) > 1e-6:
            found.falsely_ended.append(f"the log has {billed:.6f} USD, and `betimes fleet` {month:.6f}")
        self._judge_usage(found, billed)
        print(
            f"{len(costs)} machines in the log, {billed / USD_PER_S:.0f} s paid; besides {len(unseen)} that a service "
            f"was killed over before it had noted them, {sum(to - at for at, to in unseen.values()):.0f} s; looked at "
            f"every {self.machines.late_s:.1f} s or more often"
        )
        return found

    def _judge_usage(self, found: Counts, billed: float) -> None:
        """Check that the users' costs, and those of nobody, add up to the bill to the cent."""
        usage = self._client.usage(by="user")
        users = sum(group.figures.rented_usd or 0.0 for group in usage.groups)
        nobodys, total = usage.unused_usd or 0.0, usage.total.rented_usd or 0.0
        if max(abs(users + nobodys - billed), abs(total - billed)) > 0.005:
            found.falsely_ended.append(
                f"the log has {billed:.6f} USD, and `betimes usage` {users:.6f} of users and {nobodys:.6f} of nobody, "
                f"{total:.6f} in all"
            )
        print(f"users pay {users:.4f} USD, nobody {nobodys:.4f} USD")

    def _judge_bill(self, found: Counts, instances: Instances) -> None:
        """The log's bill is the account's to the cent: its last word on each machine counts."""
        wrong, costs = found.falsely_ended, dict[str, dict[str, Any]]()
        for event in self._client.events(kinds=["node-gone", "node-billed"]):
            if event.kind == "node-gone" and str(event.node) in costs:
                found.doubled.append(f"machine {event.node} is gone twice")
            costs[str(event.node)] = event.data
        billed, month = sum(data["cost_usd"] for data in costs.values()), self._client.fleet().month_usd
        truly = instances.bill_usd("", USD_PER_S * 3600)
        if max(billed, month, truly) - min(billed, month, truly) > 0.01:
            wrong.append(
                f"the log has {billed:.6f} USD, `betimes fleet` {month:.6f}, and the account {truly:.6f}"
            )
        self._judge_usage(found, month)
        print(f"{len(costs)} machines in the log, {billed:.4f} USD; in the account {truly:.4f} USD")


def main(arguments: list[str] | None = None) -> int:
    """Print what was lost, doubled and falsely ended; 0: nothing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fleet", choices=("local", "command", "ec2"), default="local")
    parser.add_argument("--policy", default=POLICY, help=f"which rents (default {POLICY})")
    parser.add_argument("--kills", type=int, default=100, help="at least so many faults (default 100)")
    parser.add_argument("--jobs", type=int, default=500, help="at least so many jobs (default 500)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of what happens, and when")
    given = parser.parse_args(arguments)
    # Machines and the service go, too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="betimes-chaos-") as folder:
        notes, state, own = Path(folder, "notes"), Path(folder, "state"), Path(folder, "cloud")
        for each in (notes, own):
            each.mkdir()
        (notes / "journal").touch()
        machines = (
            Ec2Machines(own, state, given.policy)
            if given.fleet == "ec2"
            else Machines(given.fleet, own, state, given.policy)
        )
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
