"""The page costs nothing until it is asked for, and little then.

Memory of the service before and after its first page; the queue's first page beside 50,000 jobs; from a change to the
fragment that shows it; and the processor time of ten open pages beside 5,000 jobs of which one changes every two
seconds, less that of the same service without pages. The pages are clients that do what `page.js` does.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import httpx
import psutil
from bench_service import job, up
from measuring import Table, arguments, introduce

from betimes.client import Client

PAGES = 10
BATCH = 5000
NODES = '[[nodes]]\ntype = "n"\ncount = 4\ncpu = 8\nmemory_gib = 64\n'


def fill(client: Client, count: int) -> None:
    """Submit so many jobs."""
    for first in range(0, count, BATCH):
        client.submit([job(number) for number in range(first, min(first + BATCH, count))])


def signed_in(url: str, client: Client) -> httpx.Cookies:
    """The cookie of a browser that follows a link."""
    with httpx.Client() as browser:
        browser.get(url + client.page_link().path)
        return browser.cookies


async def open_page(url: str, cookies: httpx.Cookies, path: str, seen: list[str]) -> None:
    """Do as a page does: listen, and fetch the fragment at every event."""
    etag = ""
    async with (
        httpx.AsyncClient(cookies=cookies, timeout=60.0) as browser,
        browser.stream("GET", f"{url}/events") as stream,
    ):
        async for line in stream.aiter_lines():
            if line.startswith("data:"):
                headers = {"X-Fragment": "main", "If-None-Match": etag}
                answer = await browser.get(f"{url}{path}", headers=headers)
                etag = answer.headers["etag"]
                if answer.status_code == 200:
                    seen[0] = answer.text


async def watched(url: str, client: Client, pages: int, for_s: float, changes: int) -> list[float]:
    """Open pages while a job is held and released; seconds from each change until a page shows it."""
    cookies, seen = signed_in(url, client), [""]
    until_s = time.monotonic() + for_s
    opened = [asyncio.ensure_future(open_page(url, cookies, "/queue?state=held", seen)) for _ in range(pages)]
    delays: list[float] = []
    last = await asyncio.to_thread(lambda: client.jobs(limit=changes + 1, status=["queued"]).items)
    for number in range(changes):
        await asyncio.sleep(max(0.0, until_s - time.monotonic()) / (changes - number + 1))
        held, began = last[number].job_id, time.perf_counter()
        await asyncio.to_thread(client.hold, held)
        while pages and f'id="row-{held}"' not in seen[0]:
            await asyncio.sleep(0.005)
        delays.append(time.perf_counter() - began)
    await asyncio.sleep(max(0.0, until_s - time.monotonic()))
    for page in opened:
        page.cancel()
    await asyncio.gather(*opened, return_exceptions=True)
    return delays


def costs(
    url: str, client: Client, process: psutil.Process, pages: int, for_s: float
) -> tuple[float, list[float]]:
    """Processor time of the service a second, and the delays."""
    before = sum(process.cpu_times()[:2])
    began = time.monotonic()
    delays = asyncio.run(watched(url, client, pages, for_s, int(for_s / 2)))
    return (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - began), delays


def main() -> None:
    asked = arguments(__doc__)
    introduce(__doc__)
    table = Table("", "measured", "aim")
    few, many, for_s = (500, 5000, 10.0) if asked.quick else (5000, 50_000, 30.0)
    with tempfile.TemporaryDirectory(prefix="betimes-bench-") as folder:
        at = Path(folder)
        (at / "nodes.toml").write_text(NODES)
        with up(at / "few", "--cluster", str(at / "nodes.toml")) as (client, pid):
            url, process = _url(at / "few"), psutil.Process(pid)
            fill(client, few)
            time.sleep(3.0)
            without_mib = process.memory_info().rss / 2**20
            idle, _ = costs(url, client, process, 0, for_s)
            with httpx.Client(cookies=signed_in(url, client)) as browser:
                browser.get(f"{url}/queue")
            table.line("first page, MiB more", process.memory_info().rss / 2**20 - without_mib, "")
            one = costs(url, client, process, 1, for_s)
            ten = costs(url, client, process, PAGES, for_s)
            table.line(f"{PAGES} pages, {few:,} jobs: % of a core", 100 * (ten[0] - idle), "2")
            table.line("without pages: % of a core", 100 * idle, "")
            table.line("one page: % of a core", 100 * (one[0] - idle), "")
            table.line("change to fragment, s", statistics.median(ten[1]), "1")
        with up(at / "many", "--cluster", str(at / "nodes.toml")) as (client, pid):
            fill(client, many)
            url, cookies = _url(at / "many"), signed_in(_url(at / "many"), client)
            times: list[float] = []
            size = 0
            with httpx.Client(cookies=cookies, timeout=60.0) as browser:
                for number in range(1 + asked.repeats):
                    time.sleep(1.1)
                    client.hold(client.jobs(limit=1, status=["queued"]).items[0].job_id)
                    began = time.perf_counter()
                    answer = browser.get(f"{url}/queue?x={number}")
                    times.append(time.perf_counter() - began)
                    size = len(answer.content)
            table.line(f"first page, {many:,} jobs: s", statistics.median(times[1:]), "0.2")
            table.line("the same, KB", size / 1000, "50")


def _url(state: Path) -> str:
    from betimes.service.access.address import find_service

    return find_service(state=state).url


if __name__ == "__main__":
    main()
