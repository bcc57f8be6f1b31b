"""Make the pictures of the page in the documentation from a real run: ``python -m tools.page_pictures``.

A fresh service with made-up nodes runs for two minutes; Debian's Chromium looks at it. ``--every FOLDER`` takes every
page instead, with few and many jobs, at three widths, in light and dark, and prints the faults it finds; 1: some.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.page_faults import faults

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

    from betimes.client import Client

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
COLOURS = 64  # of a picture, which keeps it small
RUNS_S = 75.0
SETTLES_S = 15.0  # until what is short is over
NODES = """
[[nodes]]
type = "a100"
count = 3
cpu = 8
memory_gib = 64
gpu = 2
usd_per_h = 3.2
"""
PICTURES = (
    ("page-now", "", 1280, 620, "light"),
    ("page-queue", "queue", 1280, 680, "light"),
    ("page-time", "time?span=1h", 1280, 520, "dark"),
    ("page-job", "job/26", 390, 800, "light"),
)

COUNTS = (0, 5, 300, 50_000)  # of jobs
SIZES = ((1400, 900), (800, 900), (390, 800))
MODES = ("light", "dark")
PAGES = {
    "now": "",
    "queue": "queue",
    "queue-by-name": "queue?group=name&sort=-units",
    "queue-over": "queue?state=over",
    "time": "time",
    "machines": "machines",
    "promises": "promises",
    "policy": "policy",
    "what-if": "what-if",
    "what-if-add": "what-if?add:a100-80g-sxm=1",
    "submit": "submit",
}
JOBS = {"job-running": ["running"], "job-waiting": ["queued"], "job-over": ["finished", "failed"]}
MOST_TALL = 2400  # pixels of a picture
MANY_NODES = """
[[nodes]]
type = "a100-80g-sxm"
count = 12
cpu = 32
memory_gib = 256
gpu = 4
usd_per_h = 12.0
[[nodes]]
type = "epyc-9654-highmem-with-a-long-name"
count = 2
cpu = 96
memory_gib = 1536
"""
NAMES = (
    "train",
    "llama-3.1-70b-instruct-lora-r16-seed-0042-with-a-very-long-name-of-a-sweep",
    "eval",
    "tokenise",
    "x",
)
BATCH = 5000
FEW = 30  # jobs; with fewer there is no array and nothing held


@contextmanager
def browser() -> Iterator[Chrome]:
    """Chromium without a window, driven by the installed driver."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield chrome
    finally:
        chrome.quit()


@contextmanager
def service(state: Path, *words: str) -> Iterator[dict[str, Any]]:
    """A service with its state there, until this is left, and the object that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "betimes", "up", "--state", str(state), "--json", *words],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def look(chrome: Chrome, width: int, height: int, mode: str) -> None:
    """A window of this size, in light or dark."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wanted = {"features": [{"name": "prefers-color-scheme", "value": mode}]}
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)


def _submit(state: Path) -> None:
    from betimes.client import Client

    with Client(state=state) as client:
        while not client.health().ready:
            time.sleep(0.2)
        # Jobs of several commands that take longer or shorter than estimated: from them ends get their intervals.
        for number in range(24):
            work = {"VIRTUAL_WORK_S": f"{4.0 + number * 7 % 24 / 6.0}"}
            client.submit(command=[f"try-{number % 8}"], estimate_s=5.0, env=work, gpu=1.0, cpu=2.0)
        while client.jobs(limit=1, status=["queued", "running"]).items:
            time.sleep(0.5)
        numbers: dict[str, int] = {}
        for name, units, minutes in (
            ("resnet50", 2, 2),
            ("bert-large", 2, 10),
            ("eval", 1, 1),
            ("llama-lora", 4, 22),
            ("tokenise", 1, 1),
            ("vit-huge", 2, 15),
            ("whisper", 2, 9),
            ("distil", 1, 6),
            ("ablation", 6, 25),
        ):
            work = {"VIRTUAL_WORK_S": str(60.0 * minutes * units)}
            asked: dict[str, Any] = {"min_units": units, "max_units": units, "gpu": 1.0, "cpu": 2.0}
            taken = client.submit(command=[name], name=name, estimate_s=60.0 * minutes, env=work, **asked)
            numbers[name] = taken.job_id
        client.submit(command=["sweep"], name="sweep", array="1-40%6", estimate_s=240.0, gpu=1.0, cpu=2.0)
        client.submit(
            command=["report"], name="report", after=[f"{numbers['distil']}"], cpu=1.0, estimate_s=60.0
        )
        client.submit(command=["publish"], name="publish", hold=True, cpu=1.0, estimate_s=60.0)


def fill(client: Client, count: int) -> None:
    """So many jobs for `MANY_NODES`: some are over soon, some run, wait, are held, or wait for others."""
    from betimes.client import JobSpec

    while not client.health().ready:
        time.sleep(0.2)
    specs: list[JobSpec] = []
    for n in range(count):
        estimate_s = 4.0 if n % 7 == 1 else 600.0 + n * 37 % 9000
        units = 1 + n % 4
        env = {
            "VIRTUAL_WORK_S": f"{estimate_s * units * (0.5 + n % 5 / 4.0)}",
            "VIRTUAL_EXIT_CODE": f"{n % 3 % 2}",
        }
        specs.append(
            JobSpec(
                command=["python", "train.py", f"--seed={n}"],
                workdir="/data/projects/language-models/2026",
                name=NAMES[n % len(NAMES)] + ("" if n % 3 else f"-{n}"),
                estimate_s=estimate_s,
                gpu=1.0,
                cpu=4.0,
                memory_gib=16.0,
                min_units=units,
                max_units=units,
                labels={"team": ("vision", "language")[n % 2]},
                env=env,
            )
        )
    for first in range(0, count, BATCH):
        client.submit(specs[first : first + BATCH])
    if count >= FEW:
        sweep = client.submit(command=["sweep"], name="sweep", array="1-40%6", estimate_s=240.0, gpu=1.0)
        client.submit(command=["report"], name="report", after=[f"{sweep.job_id}"], estimate_s=60.0)
        client.submit(command=["publish"], name="publish", hold=True, estimate_s=60.0)


def paths(client: Client) -> dict[str, str]:
    """The pages that there are, by the name of their picture."""
    found = dict(PAGES)
    for name, status in JOBS.items():
        if jobs := client.jobs(limit=1, status=status).items:
            found[name] = f"job/{jobs[0].job_id}"
    return found


def every(folder: Path, counts: Sequence[int]) -> int:
    """Pictures of every page, and its faults: how many there are."""
    from betimes.client import Client

    told = 0
    folder.mkdir(parents=True, exist_ok=True)
    for count in counts:
        with tempfile.TemporaryDirectory(prefix="betimes-pictures-") as made:
            cluster, state = Path(made) / "cluster.toml", Path(made) / "state"
            cluster.write_text(MANY_NODES)
            with (
                service(state, "--cluster", str(cluster)) as ready,
                browser() as chrome,
                Client(state=state) as client,
            ):
                fill(client, count)
                time.sleep(SETTLES_S)
                chrome.get(ready["url"] + client.page_link().path)
                for name, path in paths(client).items():
                    for width, height in SIZES:
                        for mode in MODES:
                            look(chrome, width, height, mode)
                            chrome.get(f"{ready['url']}/{path}")
                            time.sleep(0.7)
                            shown = f"{count}-{width}-{mode}-{name}"
                            for fault in faults(chrome):
                                print(f"{shown}: {fault}", flush=True)
                                told += 1
                            tall = chrome.execute_script("return document.documentElement.scrollHeight")
                            look(chrome, width, min(max(int(tall), height), MOST_TALL), mode)
                            (folder / f"{shown}.png").write_bytes(chrome.get_screenshot_as_png())
    print(f"{told} faults")
    return told


def main() -> int:
    """Make the pictures; 1 where there is no Chromium, or a page of `--every` has a fault."""
    asked = argparse.ArgumentParser(prog="python -m tools.page_pictures", description=__doc__)
    asked.add_argument("--every", metavar="FOLDER", type=Path, help="every page, into this folder")
    asked.add_argument(
        "--jobs", default=",".join(map(str, COUNTS)), help="how many, for --every; default: %(default)s"
    )
    given = asked.parse_args()
    if CHROMIUM is None or DRIVER is None:
        print("Install chromium and chromium-driver: the pictures are taken with them.", file=sys.stderr)
        return 1
    os.environ.pop("BETIMES_STATE", None)
    if given.every is not None:
        return min(1, every(given.every, [int(count) for count in given.jobs.split(",")]))
    _of_documents()
    return 0


def _of_documents() -> None:
    from PIL import Image

    with tempfile.TemporaryDirectory(prefix="betimes-pictures-") as folder:
        cluster = Path(folder) / "cluster.toml"
        cluster.write_text(NODES)
        state = Path(folder) / "state"
        with service(state, "--cluster", str(cluster)) as ready, browser() as chrome:
            from betimes.client import Client

            _submit(state)
            time.sleep(RUNS_S)
            with Client(state=state) as client:
                chrome.get(ready["url"] + client.page_link().path)
            for name, path, width, height, mode in PICTURES:
                look(chrome, width, height, mode)
                chrome.get(f"{ready['url']}/{path}")
                time.sleep(3.0)
                shot = Image.open(io.BytesIO(chrome.get_screenshot_as_png())).convert("RGB")
                shot.quantize(COLOURS).save(IMAGES / f"{name}.png", optimize=True)
                print(f"{name}.png: {(IMAGES / f'{name}.png').stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    sys.exit(main())
