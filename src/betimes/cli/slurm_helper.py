"""Steps on several machines: a helper on each machine of a job starts tasks there, and `srun` speaks to all of them.

Before a script of several nodes begins, its command runs `srun --helper` on each machine (`join`). On the first it
forks a helper and ends once the others have come; on each other one it is the helper, until the script is over. `srun`
within the script connects to the helpers of its step's machines; a step lives as long as these connections.

::

    rank 0: script ── srun ──┬── its own helper ── tasks
                             └── helper of rank 1 ── tasks     a connection each step, and one for as long as the
                                                               script runs, by which a helper knows that it does

Both sides of a connection prove that they know the run's token (`_prove`); what is sent then is not encrypted, as
nothing is within a cluster of Ray.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import queue
import secrets
import select
import signal
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from betimes.cli.live.following import Left
from betimes.cli.slurm_step import (
    BY_SIGNAL,
    FOLDER,
    MACHINES,
    PASSED_ON,
    Node,
    Plan,
    Step,
    reads_input,
    with_own_files,
)
from betimes.errors import BetimesError
from betimes.printing import report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    # A machine and its exit code, null: it is lost; or a signal that came.
    News = tuple[int | None, int | None]

MEET_S = 300.0  # for the helpers of all machines to come
AGAIN_S = 0.5
ANSWER_S = 30.0  # for the other side of a new connection
LINGER_S = 5.0  # after its last task a step waits so long for output of what the tasks have left behind
ALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
"""A machine that says nothing for half a minute is lost."""
PIECE_BYTES = 1 << 16
MOST_BYTES = 64 << 20  # of a message: of a request, with its environment
_HEAD = struct.Struct("!cI")
REQUEST, PROOF, INPUT, SIGNAL, OUT, ERROR, EXIT = b"r", b"p", b"i", b"s", b"o", b"e", b"x"


class _Lost(Exception):
    """The other side has gone, or is none of ours."""


class _Channel:
    """Messages, each of a kind, over a connection; several threads may send."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._lock = connection, threading.Lock()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for name, value in ALIVE:
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def fileno(self) -> int:
        """For select."""
        return self._connection.fileno()

    def send(self, kind: bytes, data: bytes = b"") -> None:
        """Send a message. Raises _Lost."""
        with self._lock:
            try:
                self._connection.sendall(_HEAD.pack(kind, len(data)) + data)
            except OSError:
                raise _Lost from None

    def receive(self, most: int = MOST_BYTES) -> tuple[bytes, bytes]:
        """The next message. Raises _Lost, also for one that is longer."""
        kind, size = _HEAD.unpack(self._read(_HEAD.size))
        if size > most:
            raise _Lost
        return kind, self._read(size)

    def _read(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            try:
                piece = self._connection.recv(size - len(found))
            except OSError:
                raise _Lost from None
            if not piece:
                raise _Lost
            found += piece
        return bytes(found)

    def close(self) -> None:
        """Close it."""
        self._connection.close()


def _prove(connection: socket.socket, side: bytes) -> _Channel:
    """A channel to another process of this run, on side `a` or `c` (accepts, connects). Raises _Lost for others."""
    connection.settimeout(ANSWER_S)
    channel, key = _Channel(connection), os.environ["BETIMES_RUN_TOKEN"].encode()
    mine = secrets.token_bytes(32)
    channel.send(PROOF, mine)
    _, theirs = channel.receive(32)

    def proof(of: bytes) -> bytes:
        nonces = mine + theirs if side == b"a" else theirs + mine
        return hmac.digest(key, b"srun" + of + nonces, hashlib.sha256)

    channel.send(PROOF, proof(side))
    _, given = channel.receive(32)
    if not hmac.compare_digest(given, proof(b"c" if side == b"a" else b"a")):
        raise _Lost
    connection.settimeout(None)
    return channel


def _connected(address: Sequence[str | int]) -> _Channel:
    """A channel to a process of this run. Raises _Lost."""
    host, port = address
    try:
        return _prove(socket.create_connection((str(host), int(port)), timeout=ANSWER_S), b"c")
    except OSError:
        raise _Lost from None


def _listening(host: str, port: int = 0) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        text = f"{host}, port {port}: cannot be listened at ({error.strerror}), so that the job's machines cannot meet"
        raise BetimesError(f"{text}; submit it again") from None


# --- the helper ---


def join() -> None:
    """Bring this machine into the job: on the first one fork its helper, on others be it. Raises BetimesError."""
    rank, hosts = int(os.environ["RANK"]), os.environ["BETIMES_NODES"].split(",")
    meeting = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    own = _listening(hosts[rank])
    if rank:
        _serve(own, _met(meeting, rank, own))
    with _listening(*meeting) as door:
        links, addresses = _gathered(door, own, len(hosts))
    folder = Path(os.environ["BETIMES_RUN_DIR"], FOLDER)
    folder.mkdir(exist_ok=True)
    (folder / MACHINES).write_text(json.dumps(addresses), encoding="ascii")
    ends = os.pidfd_open(os.getppid())  # which becomes the script
    if not os.fork():
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        _serve(own, ends, links)


def _met(meeting: tuple[str, int], rank: int, own: socket.socket) -> _Channel:
    """Tell the helper of rank 0 where this one listens; the connection that lasts as long as the script."""
    until = time.monotonic() + MEET_S
    while time.monotonic() < until:
        with suppress(_Lost):
            door = _connected(meeting)
            door.send(REQUEST, json.dumps([rank, own.getsockname()[1]]).encode())
            port = json.loads(door.receive(100)[1])
            door.close()  # from here, so that the port is free there at once: it is the job's own
            return _connected((meeting[0], port))
        time.sleep(AGAIN_S)
    text = f"rank {rank} does not reach {meeting[0]}, port {meeting[1]}, on which the job's machines meet"
    raise BetimesError(f"{text}; let the machines of the cluster reach each other's ports")


def _gathered(
    door: socket.socket, own: socket.socket, count: int
) -> tuple[list[_Channel], list[tuple[str, int]]]:
    """The connections to the helpers of all other ranks, and where all listen, in the order of ranks."""
    hosts = os.environ["BETIMES_NODES"].split(",")
    ports, links = {0: own.getsockname()[1]}, list[_Channel]()
    until = time.monotonic() + MEET_S
    door.settimeout(AGAIN_S)
    while len(ports) < count:
        if time.monotonic() > until:
            missing = ", ".join(str(rank) for rank in range(count) if rank not in ports)
            text = f"rank {missing} did not come to {door.getsockname()[0]}, where the job's machines meet"
            raise BetimesError(f"{text}; let the machines of the cluster reach each other's ports")
        with suppress(_Lost, OSError):
            channel = _prove(door.accept()[0], b"a")
            rank, port = json.loads(channel.receive(100)[1])
            channel.send(REQUEST, json.dumps(ports[0]).encode())
            own.settimeout(ANSWER_S)
            links.append(_prove(own.accept()[0], b"a"))
            ports[rank] = port
            with suppress(_Lost):
                channel.receive(0)  # until the other side has closed it
            channel.close()
    own.settimeout(None)
    return links, [(hosts[rank], ports[rank]) for rank in range(count)]


def _serve(own: socket.socket, script: _Channel | int, links: Sequence[_Channel] = ()) -> NoReturn:
    """Start the tasks of steps until the script is over; each step has a process of its own here.

    script: can be read once it is over. links: to the other helpers, open as long as this process lives.
    """
    for number in PASSED_ON:  # it ends with the script, which may have time to save its work
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # none is waited for
    while script not in (ready := select.select([own, script], [], [])[0]):
        if not ready:
            continue
        connection, _ = own.accept()
        if os.fork():
            connection.close()
            continue
        own.close()
        for link in links:
            link.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        with suppress(_Lost):
            _run(_prove(connection, b"a"))
        os._exit(0)
    os._exit(0)


def _run(channel: _Channel) -> None:
    """Run this machine's tasks of a step for the `srun` at the other end. Raises _Lost."""
    request = json.loads(channel.receive()[1])
    own = {name: text for name, text in os.environ.items() if name in OF_MACHINE}
    os.environ.clear()
    os.environ.update(request["env"] | own)
    plan = Plan(*request["plan"])
    plan = plan._replace(nodes=[Node(*node) for node in plan.nodes])
    step, news = Step(plan, int(own["RANK"])), queue.SimpleQueue["tuple[int | None, int]"]()
    source, feed = os.pipe()
    os.dup2(source, 0)
    os.close(source)
    copies = [_copied(channel, kind, number) for kind, number in ((OUT, 1), (ERROR, 2))]
    threading.Thread(target=_heed, args=(channel, news, feed), daemon=True).start()
    try:
        code = step.run(request["command"], news)
    except Left as left:
        code = left.exit_code
    except BetimesError as error:
        report("srun: error", str(error))
        code = 1
    finally:
        sys.stdout.flush()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (1, 2):
        os.dup2(nothing, number)
    until = time.monotonic() + LINGER_S
    for copy in copies:
        copy.join(max(0.0, until - time.monotonic()))
    channel.send(EXIT, str(code).encode())


OF_MACHINE = frozenset(
    {
        "BETIMES_RUN_DIR",
        "BETIMES_CPUS",
        "BETIMES_LOCAL_UNITS",
        "RANK",
        "CUDA_VISIBLE_DEVICES",
        "SLURMD_NODENAME",
    }
)
"""Variables that each machine of a job has its own of."""


def _copied(channel: _Channel, kind: bytes, number: int) -> threading.Thread:
    """Let this process's standard output or error be a pipe, and send what comes there."""
    source, sink = os.pipe()
    os.dup2(sink, number)
    os.close(sink)

    def copy() -> None:
        with suppress(_Lost):
            while piece := os.read(source, PIECE_BYTES):
                channel.send(kind, piece)

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    return thread


def _heed(channel: _Channel, news: queue.SimpleQueue[tuple[int | None, int]], feed: int) -> None:
    """Pass on input and signals; once `srun` has gone, kill the tasks."""
    try:
        while True:
            kind, data = channel.receive()
            if kind == SIGNAL:
                news.put((None, int(data)))
            elif data:
                with suppress(BrokenPipeError):
                    os.write(feed, data)
            else:
                os.close(feed)
    except _Lost:
        news.put((None, signal.SIGKILL))


# --- srun ---


def run_on(plan: Plan, command: list[str]) -> int:
    """Run a step on its machines, and wait for it; signals, input and output are passed on. The worst exit code."""
    found = json.loads(Path(os.environ["BETIMES_RUN_DIR"], FOLDER, MACHINES).read_text(encoding="ascii"))
    plan = with_own_files(plan)
    request = json.dumps({"plan": plan, "command": command, "env": dict(os.environ)}).encode()
    news: queue.SimpleQueue[News] = queue.SimpleQueue()

    def heed(number: int, _: object) -> None:
        news.put((None, number))

    channels: dict[int, _Channel] = {}
    before = {number: signal.signal(number, heed) for number in PASSED_ON}
    lines = {OUT: threading.Lock(), ERROR: threading.Lock()}
    try:
        for machine in sorted({node.machine for node in plan.nodes}):
            try:
                channels[machine] = _connected(found[machine])
                channels[machine].send(REQUEST, request)
            except _Lost:
                raise BetimesError(
                    f"{found[machine][0]}: the job's helper there does not answer, so that this step has not begun on "
                    "all of its machines; submit the job again"
                ) from None
        for machine, channel in channels.items():
            threading.Thread(target=_listen, args=(machine, channel, news.put, lines), daemon=True).start()
        threading.Thread(target=_feed, args=([*channels.values()],), daemon=True).start()
        worst, left = 0, set(channels)
        while left:
            machine, code = news.get()
            if machine is None:
                _send_all([channels[each] for each in left], code or 0)
                continue
            left.discard(machine)
            if code is None:
                report("srun: error", f"{found[machine][0]}: the connection is lost, and the step is ended")
                worst = max(worst, BY_SIGNAL + signal.SIGKILL)
                _send_all([channels[each] for each in left], signal.SIGKILL)
            else:
                worst = max(worst, code)
                if code and plan.asked.get("kill-on-bad-exit", "0") != "0":
                    _send_all([channels[each] for each in left], signal.SIGTERM)
    finally:
        for channel in channels.values():
            channel.close()
        for number, handler in before.items():
            signal.signal(number, handler)
    return worst


def _send_all(channels: Sequence[_Channel], number: int) -> None:
    for channel in channels:
        with suppress(_Lost):  # which its listener reports
            channel.send(SIGNAL, str(int(number)).encode())


def _listen(
    machine: int, channel: _Channel, tell: Callable[[News], None], lines: dict[bytes, threading.Lock]
) -> None:
    """Write what comes from a machine, whole lines at a time, and tell its exit code."""
    code: int | None = None
    kept = {OUT: b"", ERROR: b""}

    def write(kind: bytes, data: bytes) -> None:
        with lines[kind]:
            while data:
                data = data[os.write(1 if kind == OUT else 2, data) :]

    with suppress(_Lost, BrokenPipeError):
        while code is None:
            kind, data = channel.receive()
            if kind == EXIT:
                code = int(data)
                continue
            data = kept[kind] + data
            end = len(data) if len(data) > PIECE_BYTES else data.rfind(b"\n") + 1
            kept[kind] = data[end:]
            write(kind, data[:end])
    with suppress(BrokenPipeError):
        for kind, data in kept.items():
            write(kind, data)
    tell((machine, code))


def _feed(channels: list[_Channel]) -> None:
    """Send standard input to the tasks that read it."""
    while reads_input() and (piece := os.read(0, PIECE_BYTES)):
        for channel in channels:
            with suppress(_Lost):
                channel.send(INPUT, piece)
    for channel in channels:
        with suppress(_Lost):
            channel.send(INPUT)
