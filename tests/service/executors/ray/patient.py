"""Ray on a machine that is not idle: a node gets more than half a minute to start, and its agents more than a quarter.

As a program it is Ray's own: `patient.py start --address ...`.
"""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import pytest

PATIENCE_S = 300.0  # for what happens in a moment, on a machine that is not idle
AGENT_PORTS = (
    "metrics_agent_port",
    "metrics_export_port",
    "dashboard_agent_listen_port",
    "runtime_env_agent_port",
)


def agent_ports() -> dict[str, int]:
    """Ports for the agents of a node, which otherwise ends where they have not chosen some within fifteen seconds."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in AGENT_PORTS]
        for one in sockets:
            one.bind(("", 0))
        return {name: one.getsockname()[1] for name, one in zip(AGENT_PORTS, sockets, strict=True)}


@contextlib.contextmanager
def patience() -> Iterator[None]:
    """While this is entered, nodes that are started in this process get the time that they need."""
    services = import_module("ray._private.services")
    begun = list[subprocess.Popen[bytes]]()

    def start(begin: Callable[..., Any], command: list[str], *args: Any, **more: Any) -> Any:
        """Ray gives one port to a node's agent alone, and the node then waits for the agent."""
        port = re.search(r"--dashboard_agent_command=.* --listen-port=(\d+)", " ".join(command))
        if port is None:
            return begin(command, *args, **more)
        found = begin([*command, f"--dashboard_agent_listen_port={port[1]}"], *args, **more)
        begun.append(found.process)
        return found

    def registered(get_node: Callable[..., Any], *args: Any) -> Any:
        """What `get_node` says of a node once it knows of it."""
        give_up = time.monotonic() + PATIENCE_S
        while True:
            try:
                return get_node(*args)
            except RuntimeError:
                has_ended = bool(begun) and begun[-1].poll() is not None
                if has_ended or time.monotonic() >= give_up:
                    raise

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(services, "get_node", partial(registered, services.get_node))
        patch.setattr(services, "start_ray_process", partial(start, services.start_ray_process))
        yield


if __name__ == "__main__":
    for name, port in agent_ports().items():
        option = name.replace("metrics_agent", "dashboard_agent_grpc").replace("_", "-")
        sys.argv += [f"--{option}", str(port)]
    with patience():
        import_module("ray.scripts.scripts").main()
