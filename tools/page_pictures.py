"""Make the pictures of the page in the documentation from a real run: ``python -m tools.page_pictures``.

A fresh service with made-up nodes runs for two minutes; Debian's Chromium looks at it.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
COLOURS = 64  # of a picture, which keeps it small
RUNS_S = 75.0
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


def main() -> int:
    """Make the pictures; 1 where there is no Chromium."""
    if CHROMIUM is None or DRIVER is None:
        print("Install chromium and chromium-driver: the pictures are taken with them.", file=sys.stderr)
        return 1
    from PIL import Image

    os.environ.pop("BETIMES_STATE", None)
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
