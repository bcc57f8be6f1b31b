"""`betimes service`: the service as a unit of systemd, so that it starts with the machine and after a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

from betimes.cli.live.up import ConfigFile, Settings
from betimes.cli.verbs import Json, Option
from betimes.errors import InputError, ServiceError

UNIT = "betimes.service"
SYSTEM_STATE = "/var/lib/betimes"
_MARK = "# Written by `betimes service install`, which writes it anew; settings belong into config.toml."
_TEMPLATE = """\
{mark}
[Unit]
Description=Betimes, a batch scheduler
After=network-online.target
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=exec
ExecStart={command}
{environment}
Restart=on-failure
RestartSec=2
# Bad settings get no better by trying again.
RestartPreventExitStatus=2
SuccessExitStatus=143
# Jobs outlive the service, and the next one finds them: only the service itself gets the signal to stop.
KillMode=process
TimeoutStopSec=30
# A job that the kernel stops for its memory does not stop the service.
OOMPolicy=continue
{delegate}
LimitNOFILE=65536
TasksMax=infinity
SyslogIdentifier=betimes

[Install]
WantedBy={target}
"""
# systemd before 254 starts a service in the unit's own group, which the kernel refuses while limited groups of jobs are
# below it: the service could not start again.
_DELEGATES_FROM = 254
_DELEGATE = """\
# The kernel enforces limits on the memory of jobs, in groups beside that of the service.
Delegate=yes
DelegateSubgroup=service"""
_NO_DELEGATE = (
    "# With systemd 254 or newer the kernel can limit memory: Delegate=yes and DelegateSubgroup=service"
)

System = Annotated[
    bool | None,
    Option(
        "--system/--user",
        help="A service of the machine, or your own, while you are logged in; by default root's is one of the machine.",
        show_default=False,
    ),
]


def install(
    settings: Settings,
    system: System = None,
    only_print: Annotated[bool, Option("--print", help="Print the unit, and change nothing.")] = False,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Write a unit of systemd and start it; one that is there is replaced, and its service started again.

    It takes the options of `betimes up`. Jobs that run go on while the service stops and starts. Its log is in the
    journal. With --json an object: the path of the unit and whether it runs for the machine.
    """
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import say
    from betimes.files import whole_file
    from betimes.service.access.address import default_state, read_address
    from betimes.service.startup.config import FILE, ServiceConfig, read_settings

    for_all = os.geteuid() == 0 if system is None else system
    if for_all and not (settings.get("state") or {"BETIMES_STATE", "BETIMES_UP_STATE"} & set(os.environ)):
        settings["state"] = SYSTEM_STATE
    given = read_settings(settings, config)
    ServiceConfig(**{at: each.value for at, each in given.items()})  # check that they go together
    state = given["state"].value if "state" in given else default_state()
    words = ["--service", str(state), *(("--config", str(config.absolute())) if config is not None else ())]
    for at, each in given.items():
        if at != "state" and not each.where.startswith(str(config or state / FILE)):
            words += _option(at, each.value, each.written)
    path = _path(for_all)
    if only_print:
        print(_text(words, for_all, _version(for_all)), end="")
        return
    if for_all and os.geteuid() != 0:
        raise InputError("--system: only root installs a service of the machine; use sudo, or leave it out")
    if (version := _version(for_all)) is None:
        raise InputError(
            "systemd does not run here, as in most containers, so nothing was installed; let what starts programs here "
            "run `betimes up`, or see the unit (--print)"
        )
    if path.exists() and _MARK not in path.read_text(encoding="utf-8"):
        raise InputError(f"{path} was written by somebody else; move it away first")
    address = read_address(state)
    if address is not None and _pid(for_all) != address.pid:
        raise InputError(
            f"a service runs with its state in {state}; stop it first (betimes down --service {state})"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, 0o644) as file:
        file.write(_text(words, for_all, version).encode())
    _systemctl(for_all, "daemon-reload")
    _systemctl(for_all, "enable", UNIT)
    _systemctl(for_all, "restart", UNIT)
    if as_json:
        print_json({"unit": str(path), "system": for_all})
        return
    user = "" if for_all else " --user"
    say(
        f"{path} is written and started; its state is in {state}.", f"Its log: journalctl{user} -u betimes -f"
    )
    if not for_all:
        say("It ends when you log out, unless you have `loginctl enable-linger` done once.")


def uninstall(system: System = None, as_json: Json = False) -> None:
    """Stop the service and remove its unit; its state stays, and jobs that run go on."""
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import say

    for_all = os.geteuid() == 0 if system is None else system
    path = _path(for_all)
    if not path.exists():
        raise InputError(
            f"{path} is not there: nothing is installed ({'--user' if for_all else '--system'}?)"
        )
    if _MARK not in path.read_text(encoding="utf-8"):
        raise InputError(f"{path} was written by somebody else; remove it by hand")
    _systemctl(for_all, "disable", "--now", UNIT)
    path.unlink()
    _systemctl(for_all, "daemon-reload")
    if as_json:
        print_json({"unit": str(path), "system": for_all})
        return
    say(f"The service has stopped, and {path} is removed. Its state is kept, and jobs that run go on.")


def status(system: System = None, as_json: Json = False) -> None:
    """Show whether systemd runs the service, since when, and how often it was started again.

    The exit code is 0 while it runs, else 1. With --json an object with systemd's own words.
    """
    from betimes.cli.live.following import Left
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import say

    for_all = os.geteuid() == 0 if system is None else system
    path = _path(for_all)
    if not path.exists() and not as_json:
        say(f"Not installed: {path} is not there; `betimes service install` writes it.")
        raise Left(1)
    names = (
        "ActiveState",
        "SubState",
        "UnitFileState",
        "MainPID",
        "NRestarts",
        "Result",
        "ActiveEnterTimestamp",
    )
    shown = _systemctl(for_all, "show", UNIT, f"--property={','.join(names)}") if path.exists() else ""
    found = {name: value for name, _, value in (line.partition("=") for line in shown.splitlines())}
    is_up = found.get("ActiveState") in ("active", "activating", "reloading")
    if as_json:
        print_json({"unit": str(path), "system": for_all, "installed": path.exists(), **found})
        if not is_up:
            raise Left(1)
        return
    since = f" since {found['ActiveEnterTimestamp']}" if found.get("ActiveEnterTimestamp") else ""
    say(
        f"{found.get('ActiveState')} ({found.get('SubState')}){since}, process {found.get('MainPID')}, "
        f"started again {found.get('NRestarts')} times; at the start of the machine: {found.get('UnitFileState')}",
    )
    if found.get("Result") not in ("", "success"):
        user = "" if for_all else " --user"
        say(f"It has failed ({found.get('Result')}); journalctl{user} -u betimes shows why.")
    if not is_up:
        raise Left(1)


def _path(for_all: bool) -> Path:
    if for_all:
        return Path("/etc/systemd/system") / UNIT
    return (
        Path(os.environ.get("XDG_CONFIG_HOME", "").strip() or Path.home() / ".config") / "systemd/user" / UNIT
    )


def _option(at: str, value: Any, written: Any) -> list[str]:
    """A setting as options of `betimes up`."""
    from betimes.service.startup.config import SETTINGS

    setting = SETTINGS[at]
    if isinstance(value, bool):
        return [setting.flag] if value else []
    if isinstance(value, str | Path):  # names of files in full
        return [setting.flag, str(value)]
    if not setting.repeats:
        return [setting.flag, str(written)]
    texts = written.split(",") if isinstance(written, str) else written
    return [word for text in texts for word in (setting.flag, text)]


def _text(words: list[str], for_all: bool, version: int | None) -> str:
    beside = Path(sys.executable).with_name("betimes")
    program = [str(beside)] if beside.exists() else [sys.executable, "-m", "betimes.cli.main"]
    kept = {name: os.environ[name] for name in ("PATH", "BETIMES_CACHE_DIR") if os.environ.get(name)}
    lines = [f"Environment={_quoted(f'{name}={value}')}" for name, value in kept.items()]
    if for_all:
        lines.insert(0, "User=root")  # or there would be no HOME
    return _TEMPLATE.format(
        mark=_MARK,
        command=" ".join(map(_quoted, (*program, "up", *words))).replace("$", "$$"),
        environment="\n".join(lines),
        delegate=_DELEGATE if version is not None and version >= _DELEGATES_FROM else _NO_DELEGATE,
        target="multi-user.target" if for_all else "default.target",
    )


def _quoted(word: str) -> str:
    """A word as systemd reads it."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return text if text and text == word and not set(" \t;'#") & set(text) else f'"{text}"'


def _version(for_all: bool) -> int | None:
    """The version of the systemd that runs here; None: none does."""
    try:
        shown = _systemctl(for_all, "show", "--property=Version")
    except ServiceError:
        return None
    digits = "".join(each if each.isdigit() else " " for each in shown).split()
    return int(digits[0]) if digits else None


def _pid(for_all: bool) -> int:
    """The process of the unit; 0: there is none."""
    return int(_systemctl(for_all, "show", UNIT, "--property=MainPID").strip().removeprefix("MainPID=") or 0)


def _systemctl(for_all: bool, *words: str) -> str:
    """The output of systemctl. Raises ServiceError where it fails or is not there."""
    command = ["systemctl", *(() if for_all else ("--user",)), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ServiceError("systemctl is not there: systemd does not run here") from None
    if done.returncode != 0:
        raise ServiceError(f"{' '.join(command)}: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return done.stdout
