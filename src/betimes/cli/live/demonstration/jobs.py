"""The three jobs that the demonstration runs: a loop of the shell, a training loop, and one that waits for both."""

from __future__ import annotations

from pathlib import Path

from betimes.service.spec.job_spec import JobSpec

_COUNT = 'for i in 1 2 3 4 5; do echo "line $i"; sleep 1; done'

_TRAIN = '''\
"""What a training loop looks like to Betimes: it says how far it is, and that is all."""

import time

import betimes

loss = 1.0
for step in betimes.progress(range(40)):
    time.sleep(0.25)
    loss *= 0.95
print(f"40 steps, loss {loss:.3f}")
'''

_REPORT = 'echo "all is done: $(date)"; sleep 3'


def jobs(folder: Path, cores: float) -> list[JobSpec]:
    """Two jobs of a core, and one that needs all of the machine's and must wait. Their files go to `folder`."""
    (folder / "train.py").write_text(_TRAIN, encoding="utf-8")
    here, core, width = str(folder), min(1.0, cores), max(1, int(cores))
    return [
        JobSpec(name="count", command=["sh", "-c", _COUNT], workdir=here, cpu=core, estimate_s=6),
        JobSpec(name="train", command=["python", "train.py"], workdir=here, cpu=core, estimate_s=20),
        JobSpec(
            name="report",
            command=["sh", "-c", _REPORT],
            workdir=here,
            cpu=core,
            min_units=width,
            max_units=width,
        ),
    ]
