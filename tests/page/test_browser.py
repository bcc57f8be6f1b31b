"""The pages in a real browser: Debian's Chromium, driven by selenium, on a real service."""

from __future__ import annotations

import calendar
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from betimes.client import Client
from betimes.service.tuning.drift import Range
from betimes.service.tuning.kept import FILE, Tuned
from betimes.service.views.models import Reason, TuneSpec
from tests.service.tuning.fronts import front
from tools.page_faults import faults
from tools.page_pictures import CHROMIUM, DRIVER, MANY_NODES, browser, fill, look, paths, service

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None, reason="chromium and chromium-driver are not installed"
    ),
]
PATIENCE_S = 60.0
COMPILED_S = 400.0  # by when a policy is
POLICIES = ("srsf", "las", "max-min")
HOSTILE = "<script>document.title='taken'</script>"


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chrome]:
    with browser() as found:
        look(found, 1280, 900, "light")
        yield found


class House:
    """A service whose state outlives it."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.nodes = folder / "nodes.toml"
        self.nodes.write_text('[[nodes]]\ntype = "n"\ncount = 1\ncpu = 2\nmemory_gib = 8\n')
        self.url = ""

    def open(self, *words: str) -> Any:
        return service(self.state, *words)

    def sign_in(self, chrome: Chrome, url: str) -> None:
        self.url = url
        with self.client() as client:
            until(lambda: client.health().ready)
            chrome.get(url + client.page_link().path)
        until(lambda: chrome.title.startswith("Now"))
        chrome.get(f"{url}/queue")
        chrome.get_log("browser")  # those of the service before

    def client(self) -> Client:
        return Client(state=self.state)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def until(condition: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """What the condition gives once it is true; elements may be replaced while it looks."""
    from selenium.common.exceptions import WebDriverException

    give_up_s = time.monotonic() + patience_s
    while True:
        try:
            if found := condition():
                return found
        except WebDriverException:
            if time.monotonic() > give_up_s:
                raise
        if time.monotonic() > give_up_s:
            pytest.fail("what is waited for has not happened")
        time.sleep(0.05)


def text(chrome: Chrome, selector: str) -> str:
    return " ".join(each.text for each in chrome.find_elements("css selector", selector))


def mark(chrome: Chrome) -> None:
    """A page that was loaded again has lost this."""
    chrome.execute_script("window.unchanged = true")


def is_unchanged(chrome: Chrome) -> bool:
    return bool(chrome.execute_script("return window.unchanged === true"))


def errors(chrome: Chrome) -> list[str]:
    """What the browser complained about, such as sources that the policy of contents forbids."""
    return [entry["message"] for entry in chrome.get_log("browser") if entry["level"] == "SEVERE"]


def test_a_job_is_seen_to_come_run_and_end_without_a_reload(chrome: Chrome, house: House) -> None:
    with house.open("--usual", "5s") as ready, house.client() as client:
        chrome.get(f"{ready['url']}/queue")
        chrome.find_element("css selector", "input[name=token]").send_keys("guess\n")
        until(lambda: "This token is unknown" in text(chrome, "main"))
        chrome.find_element("css selector", "input[name=token]").send_keys(
            (house.state / "token").read_text().strip() + "\n"
        )
        until(lambda: "No job is here" in text(chrome, "main"))
        chrome.get_log("browser")  # the refused token is one
        mark(chrome)
        go = house.state / "go"
        command = ["sh", "-c", f"echo begun; while [ ! -e {go} ]; do sleep 0.1; done; echo over"]
        number = client.submit(command=command, name=HOSTILE, estimate_s=2.0).job_id
        until(lambda: "running" in text(chrome, f"#row-{number}"))
        assert HOSTILE in text(chrome, f"#row-{number}")
        promised_at = client.job(number).job.promised_finish_at
        assert promised_at is not None
        until(lambda: time.time() > promised_at + 2.0)  # the promise is broken by then
        go.touch()
        until(lambda: "No job is here" in text(chrome, "main"))
        assert is_unchanged(chrome)
        chrome.get(f"{ready['url']}/job/{number}")
        until(lambda: "begun\nover" in text(chrome, "pre"))
        assert "finished" in text(chrome, ".lead")
        assert "later than promised" in text(chrome, ".lead")
        assert chrome.title.startswith(f"Job {number}, <script>")
        assert errors(chrome) == []


def test_output_follows_and_what_is_open_ticked_and_scrolled_stays(chrome: Chrome, house: House) -> None:
    with house.open("--usual", "60s") as ready, house.client() as client:
        number = client.submit(
            command=["sh", "-c", "for i in 1 2 3 4 5 6; do echo line $i; sleep 0.5; done"]
        ).job_id
        others = client.submit(command=["true"], name="later", hold=True, array="1-3").job_ids
        house.sign_in(chrome, ready["url"])
        chrome.get(f"{ready['url']}/queue?array={others[0]}")
        box = chrome.find_element("css selector", f"#row-{others[1]} input")
        box.click()
        chrome.execute_script("window.scrollTo(0, 40)")
        mark(chrome)
        client.release(others[0])
        until(lambda: not text(chrome, f"#row-{others[0]}"))
        assert box.is_selected()
        assert chrome.switch_to.active_element == box
        assert is_unchanged(chrome)
        chrome.get(f"{ready['url']}/job/{number}")
        until(lambda: "line 6" in text(chrome, "pre"))
        assert [f"line {n}" for n in range(1, 7)] == text(chrome, "pre").splitlines()
        find = chrome.find_element("css selector", "input[data-find]")
        find.send_keys("LINE 3")
        until(lambda: text(chrome, "pre") == "line 3")
        assert text(chrome, ".find [role=status]") == "1 of 7 lines"
        find.send_keys("\b" * len("LINE 3"))
        until(lambda: "line 6" in text(chrome, "pre"))


def test_a_job_is_submitted_with_its_quote_and_cancelled(chrome: Chrome, house: House) -> None:
    with house.open() as ready, house.client() as client:
        house.sign_in(chrome, ready["url"])
        chrome.get(f"{ready['url']}/submit")
        chrome.find_element("css selector", "textarea").send_keys("sleep 600")
        chrome.find_element("css selector", "input[name=estimate]").send_keys("10m")
        until(lambda: "10 min" in text(chrome, "#quote"))
        chrome.find_element("css selector", "#job button").click()
        until(lambda: "job/1" in chrome.current_url and "running" in text(chrome, ".lead"))
        mark(chrome)
        chrome.find_element("css selector", "button[value=cancel]").click()
        until(lambda: chrome.switch_to.alert).accept()
        until(lambda: "⊘ cancelled" in text(chrome, ".lead"))
        assert is_unchanged(chrome)
        assert client.job(1).job.status == "cancelled"
        assert errors(chrome) == []


def test_a_service_that_goes_away_is_named_and_followed_when_it_is_back(chrome: Chrome, house: House) -> None:
    with house.open("--usual", "5s") as ready:
        house.sign_in(chrome, ready["url"])
        mark(chrome)
    until(lambda: "The service does not answer" in text(chrome, "#notice"))
    with house.open("--usual", "5s") as again, house.client() as client:
        assert again["url"] == ready["url"]
        number = client.submit(command=["sleep", "600"], name="after").job_id
        until(lambda: "after" in text(chrome, f"#row-{number}"))
        until(lambda: not text(chrome, "#notice"))
        assert is_unchanged(chrome)
        client.cancel(number)


def test_five_thousand_jobs_are_pages_of_fifty(chrome: Chrome, house: House) -> None:
    with house.open("--cluster", str(house.nodes)) as ready, house.client() as client:
        spec = client.submit(command=["x"], name="first", estimate_s=60.0)
        assert spec.job_id == 1
        for _ in range(5):
            client.submit(_thousand())
        house.sign_in(chrome, ready["url"])
        assert len(chrome.find_elements("css selector", "tbody tr")) == 50
        assert "5,0" in text(chrome, ".counts") or "4,9" in text(chrome, ".counts")
        chrome.find_element("link text", "Next page").click()
        until(lambda: "First page" in text(chrome, ".pages"))
        assert len(chrome.find_elements("css selector", "tbody tr")) == 50
        chrome.get(f"{ready['url']}/time?span=1w")
        assert 0 < len(chrome.find_elements("css selector", ".piece")) < 500
        assert errors(chrome) == []


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_axe_finds_nothing_on_any_page(house: House, mode: str) -> None:
    """Labels, contrast, order of headings, landmarks, and whatever else a screen reader needs."""
    from axe_core_python.selenium import Axe

    with house.open("--cluster", str(house.nodes)) as ready, house.client() as client, browser() as chrome:
        look(chrome, 1280, 900, mode)
        chrome.get(ready["url"])
        found = {"sign-in": Axe().run(chrome)["violations"]}
        client.submit(command=["x"], name="runs", estimate_s=60.0)
        client.submit(command=["x"], name="sweep", array="1-9%2", estimate_s=60.0, after=["1"])
        client.submit(command=["x"], name="held", hold=True)
        house.sign_in(chrome, ready["url"])
        for path in (
            "",
            "queue",
            "queue?array=2",
            "queue?group=name&sort=-name",
            "queue?state=over",
            "time",
            "machines",
            "promises",
            "policy",
            "what-if",
            "what-if?add:n=1",
            "submit",
            "job/1",
            "job/2",
            "job/77",
        ):
            chrome.get(f"{ready['url']}/{path}")
            until(lambda: text(chrome, "h1"))
            found[path] = Axe().run(chrome)["violations"]
    told = {
        page: [(v["id"], v["nodes"][0]["html"]) for v in violations] for page, violations in found.items()
    }
    assert {page: violations for page, violations in told.items() if violations} == {}


def test_times_are_those_of_the_browsers_zone_or_utc(chrome: Chrome, house: House) -> None:
    with house.open() as ready, house.client() as client:
        chrome.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Tokyo"})
        house.sign_in(chrome, ready["url"])
        number = client.submit(command=["sleep", "600"], estimate_s=600.0).job_id
        chrome.get(f"{ready['url']}/job/{number}")
        first = chrome.find_element("css selector", ".story time")
        utc = time.strptime(str(first.get_attribute("datetime")), "%Y-%m-%dT%H:%M:%SZ")
        tokyo = time.gmtime(calendar.timegm(utc) + 9 * 3600)
        until(lambda: time.strftime("%H:%M", tokyo) in text(chrome, ".story"))
        assert "Asia/Tokyo" in text(chrome, "footer")
        chrome.find_element("id", "zone").click()
        until(lambda: time.strftime("%H:%M", utc) in text(chrome, ".story"))
        chrome.refresh()
        until(lambda: "Times are in UTC" in text(chrome, "footer"))
        chrome.find_element("id", "zone").click()
        client.cancel(number)
        chrome.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})


def test_a_point_of_the_front_is_put_in_force_after_its_effect_was_seen(chrome: Chrome, house: House) -> None:
    found = front()
    points = tuple(
        p.model_copy(update={"policy": name}) for p, name in zip(found.points, POLICIES, strict=True)
    )
    tuned = Tuned(
        at=time.time(),
        event=1,
        spec=TuneSpec(),
        reason=Reason(code="asked", text="asked for"),
        policy="fifo",
        range=Range(size_s=(1.0,), wanted_unit_s=(1.0,), submit_s=(0.0,), units=2),
        front=found.model_copy(update={"points": points}),
    )
    house.state.mkdir()
    tuned.write(house.state / FILE)
    with house.open("--cluster", str(house.nodes)) as ready, house.client() as client:
        house.sign_in(chrome, ready["url"])
        client.submit(command=["x"], name="long", cpu=2.0, estimate_s=900.0)
        client.submit(command=["x"], name="second", cpu=2.0, estimate_s=600.0)
        client.submit(command=["x"], name="third", cpu=2.0, estimate_s=60.0)
        chrome.get(f"{ready['url']}/policy")
        chrome.find_element("css selector", 'a[aria-label^="Point 0"]').click()
        until(lambda: "Point 0" in text(chrome, "h3"))
        until(lambda: "Before and after" in text(chrome, "#picked"), COMPILED_S)
        assert "2 end earlier, 1 later" in text(chrome, "#effect")
        assert client.policy().policy == "fifo"
        chrome.find_element("css selector", "#picked form button").click()
        until(lambda: chrome.switch_to.alert).accept()
        until(lambda: text(chrome, ".lead strong") == POLICIES[0], COMPILED_S)
        assert client.policy().policy == POLICIES[0]
        assert errors(chrome) == []


class _Behind(BaseHTTPRequestHandler):
    """A proxy that shows a service under `/betimes/`, as in the documentation."""

    service = ("", 0)

    def do_GET(self) -> None:
        self._pass_on(None)

    def do_POST(self) -> None:
        self._pass_on(self.rfile.read(int(self.headers["Content-Length"])))

    def _pass_on(self, body: bytes | None) -> None:
        if not self.path.startswith("/betimes/"):
            self.send_error(404)
            return
        kept = {
            name: value
            for name, value in self.headers.items()
            if name not in ("Host", "Origin", "Connection")
        }
        there = HTTPConnection(*self.service)
        there.request(self.command, self.path.removeprefix("/betimes"), body, kept)
        answer = there.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        self.end_headers()
        with suppress(ConnectionError):  # the browser has left the page
            while piece := answer.read1():
                self.wfile.write(piece)
        there.close()

    def log_message(self, *_: object, **__: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Nothing is told."""


def test_behind_a_path_prefix_of_a_proxy_everything_works(chrome: Chrome, house: House) -> None:
    with house.open("--usual", "5s") as ready, house.client() as client:
        until(lambda: client.health().ready)
        where = urlsplit(ready["url"])
        handler = type("Behind", (_Behind,), {"service": (where.hostname, where.port)})
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as proxy:
            proxy.daemon_threads = True
            Thread(target=proxy.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{proxy.server_port}/betimes"
            chrome.get(f"{url}{client.page_link().path}")
            until(lambda: chrome.title.startswith("Now"))
            chrome.get_log("browser")
            assert chrome.current_url == f"{url}/"
            chrome.find_element("link text", "Queue").click()
            until(lambda: chrome.title.startswith("Queue"))
            mark(chrome)
            number = client.submit(command=["sh", "-c", "echo begun; sleep 600"], name="seen").job_id
            until(lambda: "seen" in text(chrome, f"#row-{number}"))
            assert is_unchanged(chrome)
            chrome.find_element("link text", "seen").click()
            until(lambda: "begun" in text(chrome, "pre"))
            assert chrome.current_url == f"{url}/job/{number}"
            chrome.find_element("css selector", "button[value=cancel]").click()
            until(lambda: chrome.switch_to.alert).accept()
            until(lambda: "⊘ cancelled" in text(chrome, ".lead"))
            for word in ("Time", "Machines", "Promises", "Policy", "What if", "Submit", "Queue", "Now"):
                chrome.find_element("link text", word).click()
                until(lambda word=word: word in text(chrome, "h1"))
            assert errors(chrome) == []
            chrome.find_element("css selector", ".out button").click()
            until(lambda: "Sign in" in chrome.title)
            assert chrome.current_url == f"{url}/sign-in"
            chrome.get("about:blank")  # which ends its streams
            proxy.shutdown()


def _thousand() -> Any:
    from betimes.service.spec.job_spec import JobSpec

    return [JobSpec(command=["x"], name=f"job-{n}", workdir="/", estimate_s=60.0 + n) for n in range(1000)]


def test_the_window_of_time_is_dragged_and_zoomed_and_back_goes_back(chrome: Chrome, house: House) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    def window() -> tuple[float, float]:
        at = chrome.find_element("id", "window")
        return float(at.get_attribute("data-from") or 0.0), float(at.get_attribute("data-to") or 0.0)

    with house.open("--cluster", str(house.nodes)) as ready:
        house.sign_in(chrome, ready["url"])
        chrome.get(f"{ready['url']}/time?span=1h")
        first = window()
        row = chrome.find_elements("css selector", "#window .line svg")[1]
        ActionChains(chrome).move_to_element(row).click_and_hold().move_by_offset(-100, 0).release().perform()
        until(lambda: window()[0] > first[0] + 60.0)
        dragged = window()
        assert dragged[1] - dragged[0] == pytest.approx(3600.0, abs=1.0)
        assert f"from={dragged[0]}" in chrome.current_url
        times = chrome.find_element("css selector", "#window svg.axis")
        ActionChains(chrome).scroll_from_origin(ScrollOrigin.from_element(times), 0, -200).perform()
        until(lambda: window()[1] - window()[0] < 3000.0)
        chrome.back()
        until(lambda: window() == dragged)
        assert errors(chrome) == []


def test_two_tokens_at_once_are_two_browsers(chrome: Chrome, house: House) -> None:
    with house.open() as ready, house.client() as client, browser() as other:
        house.sign_in(chrome, ready["url"])
        other.get(ready["url"])
        assert "Sign in" in other.title
        other.get(ready["url"] + client.page_link().path)
        until(lambda: other.title.startswith("Now"))
        other.find_element("css selector", ".out button").click()
        until(lambda: "Sign in" in other.title)
        chrome.refresh()
        assert chrome.title.startswith("Queue")


# Leaves each axis one mark, with a long label. Argument: its place, percent.
WORST_MARK = """
for (const axis of document.querySelectorAll("svg.axis")) {
  const [mark, ...others] = axis.querySelectorAll("text");
  others.forEach((other) => other.remove());
  mark.removeAttribute("data-at");
  mark.setAttribute("x", `${arguments[0]}%`);
  mark.textContent = "Wed 18:00";
}
"""


def test_no_page_is_cut_or_overlaps_at_any_width(house: House) -> None:
    house.nodes.write_text(MANY_NODES)
    with house.open("--cluster", str(house.nodes)) as ready, browser() as chrome, house.client() as client:
        fill(client, 30)
        house.sign_in(chrome, ready["url"])
        until(lambda: client.jobs(limit=1, status=["finished"]).items)
        found: dict[str, list[str]] = {}
        for width, mode in ((1400, "light"), (800, "dark"), (390, "light")):
            look(chrome, width, 900, mode)
            for name, path in paths(client).items():
                chrome.get(f"{ready['url']}/{path}")
                found[f"{name}, {width} px"] = faults(chrome)
        # Where the marks of an axis stand depends on the hour: here as far out as they may.
        for width in (390, 800):
            look(chrome, width, 900, "light")
            chrome.get(f"{ready['url']}/machines")
            for x in (5.0, 94.0):
                chrome.execute_script(WORST_MARK, x)
                found[f"machines, {width} px, a mark at {x} %"] = faults(chrome)
        assert {name: told for name, told in found.items() if told} == {}
