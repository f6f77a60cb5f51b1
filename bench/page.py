"""The page of the log with 10,000 events: what the server takes to make it, and a browser to draw it.

usage: python bench/page.py

The events are commits that clients made over HTTP. Chromium is the one on the path, driven by Playwright; without them
the server alone is measured. Results go to results/page.json.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from http_load import Load, put_on
from measure import save
from planning_server import cpu_of, serving
from server import CLIENTS, TABLES, committing, make_tables

if TYPE_CHECKING:
    from playwright.sync_api import Browser

EVENTS = 10_000
REPEAT = 10
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
DRAWN = "() => new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))"


def page(port: int) -> bytes:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("GET", "/")
        reply = connection.getresponse()
        found = reply.read()
        assert reply.status == 200, found[:500]
        return found


def made(port: int, pid: int) -> dict[str, float]:
    """The page as a client without a browser gets it."""
    times, cpu = [], cpu_of(pid)
    for _ in range(REPEAT):
        began = time.perf_counter()
        found = page(port)
        times.append(time.perf_counter() - began)
    return {
        "median_s": statistics.median(times),
        "best_s": min(times),
        "server_cpu_s": (cpu_of(pid) - cpu) / REPEAT,
        "megabytes": len(found) / 1e6,
    }


def drawn(browser: Browser, port: int) -> dict[str, float]:
    """The time from the address to the frame that shows all events, and the time that the page's thread was busy."""
    times, busy = [], []
    for _ in range(REPEAT):
        shown = browser.new_page(viewport={"width": 1280, "height": 800})
        session = shown.context.new_cdp_session(shown)
        session.send("Performance.enable")
        began = time.perf_counter()
        shown.goto(f"http://127.0.0.1:{port}/")
        shown.evaluate(DRAWN)
        times.append(time.perf_counter() - began)
        metrics = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
        busy.append(metrics["TaskDuration"])
        assert shown.locator("#events tbody tr").count() == EVENTS
        shown.close()
    return {"median_s": statistics.median(times), "best_s": min(times), "thread_s": statistics.median(busy)}


def in_browser(port: int) -> dict[str, Any] | None:
    """The times of `drawn` in Chromium; None where Chromium or Playwright is missing."""
    path = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        path = None
    if path is None:
        print("the browser is left out: there is no Chromium, or no Playwright", file=sys.stderr)
        return None
    with sync_playwright() as browsers, browsers.chromium.launch(executable_path=path, args=FLAGS) as browser:
        return {"version": browser.version, **drawn(browser, port)}


def main() -> None:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, serving(Path(folder)) as (port, pid):
        make_tables(port)
        commits = 0
        while commits < EVENTS:
            commits += put_on(Load(port, CLIENTS, 5, committing, (TABLES,)))[0].statuses[200]
        results = {"events": EVENTS, "made": made(port, pid), "drawn": in_browser(port)}
    print(json.dumps(results, indent=1))
    save("page", results)


if __name__ == "__main__":
    main()
