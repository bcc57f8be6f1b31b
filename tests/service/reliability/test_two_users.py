"""Two Unix users share a service that runs as root: each reaches what is theirs and nothing else."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from betimes.cli.client_file import client_file
from betimes.service.access.unix_users import Account
from tests.service.reliability.starting import Starter, starter, until
from tests.service.unix_users import PYTHON, as_root, open_folder, two_users

pytestmark = [as_root, pytest.mark.slow]


@dataclass
class Lab:
    """A service of root, and the command line as its users have it: one file, and nothing of Betimes installed."""

    folder: Path
    service: Starter
    ann: Account
    ben: Account

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def asks(self, user: Account, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """What a user gets for a verb."""
        url = {"BETIMES_URL": f"unix:{self.folder}/socket"}
        return self.runs(user, PYTHON, str(self.folder / "betimes.pyz"), *words, **url, **env)

    def runs(self, user: Account, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        """What a process of a user prints."""
        return subprocess.run(
            command, user=user.uid, group=user.gid, extra_groups=user.groups, cwd=user.home, check=False,
            env={**user.variables, **env}, capture_output=True, text=True, umask=0o022,
        )  # fmt: skip

    def submits(self, user: Account, *words: str, **env: str) -> int:
        """The number of a job of a user."""
        said = self.asks(user, "submit", "--json", *words, **env)
        assert said.returncode == 0, said.stderr
        return int(said.stdout.split('"job_id":')[1].split(",")[0])

    def job(self, number: int) -> dict[str, object]:
        """A job, as root sees it."""
        return self.service.ask("GET", f"/jobs/{number}")["job"]

    def ended(self, number: int) -> dict[str, object]:
        """A job once it is over."""
        until(lambda: self.job(number)["status"] in ("finished", "failed", "cancelled"))
        return self.job(number)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with two_users() as (ann, ben), open_folder() as folder, starter() as service:
        (folder / "state").mkdir(mode=0o700)
        client_file(str(folder / "betimes.pyz"))
        service.start(folder / "state", local_users="any", socket=str(folder / "socket"))
        yield Lab(folder, service, ann, ben)


def test_each_has_jobs_as_themselves_and_no_way_to_the_others(lab: Lab) -> None:
    ann, ben = lab.ann, lab.ben
    writes = 'echo kept >mine; echo x >"$BETIMES_RUN_DIR/x"; echo y >"$BETIMES_CHECKPOINT_DIR/y"'
    script = f"id -un; pwd; {writes}; sleep 600"
    number = lab.submits(ann, "--", "sh", "-c", script)
    log = lab.state / "runs" / f"{number}" / "1" / "log"
    until(lambda: log.exists() and log.read_text() == f"{ann.name}\n{ann.home}\n")
    assert lab.job(number)["user"] == ann.name
    until((lab.state / "checkpoints" / f"{number}" / "y").exists)

    # Ben sees that it is there, and that is all.
    assert f"{number}" in lab.asks(ben, "jobs").stdout
    hostile = [("logs",), ("cancel",), ("requeue",), ("suspend",), ("edit", "--priority", "9"), ("attach",)]
    for verb, *rest in hostile:
        refused = lab.asks(ben, verb, f"{number}", *rest)
        assert (refused.returncode, refused.stdout) == (2, ""), verb
        assert f"job {number} belongs to {ann.name}" in refused.stderr
    assert script not in lab.asks(ben, "job", f"{number}").stdout
    assert "only operators do that" in lab.asks(ben, "policy", "set", "srsf").stderr
    assert lab.job(number)["status"] == "running"

    # What the environment says counts for nothing: the kernel knows who it is.
    false = lab.submits(ben, "--", "id", "-un", USER=ann.name, LOGNAME=ann.name, BETIMES_USER=ann.name)
    assert lab.ended(false)["user"] == ben.name
    assert (lab.state / "runs" / f"{false}" / "1" / "log").read_text() == f"{ben.name}\n"

    # All that the run has written is ann's, and ben reads nothing of it, nor of the service.
    written = [
        Path(ann.home, "mine"),
        log,
        log.parent / "job" / "x",
        lab.state / "checkpoints" / f"{number}" / "y",
    ]
    assert {path.stat().st_uid for path in written} == {ann.uid}
    files = [path for path in lab.state.rglob("*") if path.is_file()]
    assert len(files) > 10
    theirs = [f"{path}" for path in files if path.stat().st_uid != ben.uid]
    assert lab.runs(ben, "cat", *theirs).stdout == ""
    assert lab.runs(ben, "ls", "-R", str(lab.state)).stdout.strip() == ""
    process = next(path for path in Path("/proc").glob("[0-9]*") if _runs_sleep(path, ann))
    assert lab.runs(ben, "cat", f"{process}/environ").stdout == ""  # nor the token of the run
    assert lab.runs(ben, "kill", "-KILL", process.name).returncode != 0

    # To ann it is as if it were her own service.
    assert lab.asks(ann, "logs", f"{number}").stdout == f"{ann.name}\n{ann.home}\n"
    assert lab.asks(ann, "cancel", f"{number}").returncode == 0
    assert lab.ended(number)["status"] == "cancelled"


def _runs_sleep(process: Path, user: Account) -> bool:
    try:
        return process.stat().st_uid == user.uid and (process / "cmdline").read_bytes() == b"sleep\x00600\x00"
    except OSError:  # it has just ended
        return False


def test_no_link_and_no_path_makes_root_read_or_write_what_its_user_may_not(lab: Lab) -> None:
    ann = lab.ann
    secret = lab.folder / "secret"
    secret.write_text("root's own")
    secret.chmod(0o600)
    closed = lab.folder / "closed"
    closed.mkdir(mode=0o700)
    Path(ann.home, "link").symlink_to(secret)
    links = f'cd "$BETIMES_RUN_DIR"; ln -s {secret} log; ln -s {secret} ../log.1; ln -sf {secret} ../log; echo done'
    tries = {
        "output": lab.submits(ann, "--output", str(secret), "--", "echo", "taken"),
        "link": lab.submits(ann, "--output", "link", "--", "echo", "taken"),
        "workdir": lab.submits(ann, "--workdir", str(closed), "--", "ls"),
        "checkpoints": lab.submits(ann, "--checkpoint-dir", f"{closed}/mine", "--", "true"),
        "program": lab.submits(ann, "--", str(secret)),
        "input": lab.submits(ann, "--", "cat", str(secret)),
    }
    assert {name for name, number in tries.items() if lab.ended(number)["status"] != "failed"} == set()
    linking = lab.submits(ann, "--", "sh", "-c", links)
    assert lab.ended(linking)["status"] == "finished"
    said = "".join(lab.asks(ann, "logs", f"{number}").stdout for number in (*tries.values(), linking))
    assert "root's own" not in said
    assert "done" in said
    assert secret.read_text() == "root's own"
    assert list(closed.iterdir()) == []


def test_what_a_job_notifies_runs_as_its_owner(lab: Lab) -> None:
    told = Path(lab.ann.home, "told")

    lab.submits(
        lab.ann, "--notify", "test -e told || { id -un; pwd; } >told.part; mv told.part told", "--", "true"
    )

    until(told.exists)
    assert told.read_text() == f"{lab.ann.name}\n{lab.ann.home}\n"
    assert told.stat().st_uid == lab.ann.uid


def test_a_job_of_another_user_submits_jobs_without_a_token(lab: Lab) -> None:
    file = str(lab.folder / "betimes.pyz")

    first = lab.submits(lab.ben, "--", PYTHON, file, "submit", "--name", "next", "--", "id", "-un")

    assert lab.ended(first)["status"] == "finished"
    following = next(job for job in lab.service.everything("/jobs") if job["name"] == "next")
    assert lab.ended(following["job_id"])["user"] == lab.ben.name


def test_a_restarted_service_goes_on_with_the_jobs_of_all(lab: Lab) -> None:
    going = "until [ -e go ]; do sleep 0.05; done; id -un"
    numbers = [lab.submits(user, "--", "sh", "-c", going) for user in (lab.ann, lab.ben)]
    until(lambda: {lab.job(number)["status"] for number in numbers} == {"running"})

    lab.service.kill()
    lab.service.start(lab.state, local_users="any", socket=str(lab.folder / "socket"))
    for user in (lab.ann, lab.ben):
        Path(user.home, "go").touch()

    for number, user in zip(numbers, (lab.ann, lab.ben), strict=True):
        assert lab.ended(number)["status"] == "finished"
        assert lab.asks(user, "logs", f"{number}").stdout == f"{user.name}\n"
    assert (lab.folder / "socket").stat().st_mode & 0o777 == 0o666
