"""Slurm's commands as scripts of a folder: they print what is given, and those that write fail the test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.slurm.recording import RECORDED

WRITING = ("sbatch", "srun", "salloc", "scancel", "sacctmgr", "strigger", "scrun", "sattach", "sbcast")


class FakeSlurm:
    """A folder with commands. `squeue` prints the file `squeue` of `shown`, each row behind the mark asked for."""

    def __init__(
        self, folder: Path, shown: Path = RECORDED, instead: Mapping[str, str] | None = None
    ) -> None:
        """instead: scripts of commands that behave otherwise."""
        self.folder, self.calls, self.written = folder / "bin", folder / "calls", folder / "written"
        self.folder.mkdir()
        self.calls.touch()
        scripts = {
            "squeue": f"""case "$1" in -V) echo slurm-wlm 22.05.8; exit;; esac
for last; do :; done
sed "s/^MARK|/${{last%%|*}}|/" {shown}/squeue""",
            "scontrol": f"""[ "$1 $2 $3" = "-o -a show" ] || {{ echo "scontrol $*" >> {self.written}; exit 1; }}
cat {shown}/$4""",
            "sdiag": f"cat {shown}/sdiag",
            "sacct": f"cat {shown}/sacct",
            **{name: f'echo "{name} $*" >> {self.written}; exit 1' for name in WRITING},
            **(instead or {}),
        }
        for name, body in scripts.items():
            (self.folder / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {self.calls}\n{body}\n')
            (self.folder / name).chmod(0o755)

    @property
    def nothing_was_written(self) -> bool:
        """Whether no command that writes was called, and none with `--test-only`."""
        return not self.written.exists() and "--test-only" not in self.calls.read_text()
