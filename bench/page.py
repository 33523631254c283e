"""``python -m bench.page checkpoint=<run>/model``: the page in Chromium. Out: ``results/page.json``, or pictures.

The server runs in a process of its own, as a user would start it; browser and server share the machine. Times are
medians over visits with an empty cache. ``--pictures FOLDER`` takes a picture of every view at three widths in both
themes instead.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import httpx
import psutil
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright
from rich.progress import track

from bench.machine import versions
from bench.page_views import VIEWS, complete
from bench.run import RESULTS
from crm.io.files import replace_file
from crm.io.installed import commit

WIDTHS = (390, 820, 1280)
SCHEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
PHONE: ViewportSize = {"width": 390, "height": 844}
DESK: ViewportSize = {"width": 1280, "height": 900}
WAITED = """() => {
  const region = document.getElementById('ranking');
  window.waited = new Promise((done) => {
    let key = 0;
    document.addEventListener('keydown', () => { key = performance.now(); });
    new MutationObserver(() => {
      const ready = region.getAttribute('aria-busy') === 'false' && key;
      if (ready) done((performance.now() - key) / 1000);
    }).observe(region, { attributes: true });
  });
}"""
"""Seconds from the last key to the ranking that it brings."""


def main(arguments: list[str] | None = None) -> int:
    """Command line: overrides of ``app.py``."""
    parser = argparse.ArgumentParser(prog="python -m bench.page", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("overrides", nargs="+", help="of app.py, such as checkpoint=<run>/model")
    parser.add_argument("--port", type=int, default=7898)
    parser.add_argument("--visits", type=int, default=7)
    parser.add_argument("--pictures", type=Path, help="take pictures into this folder, and measure nothing")
    parser.add_argument("--out", type=Path, default=RESULTS / "page.json")
    given = parser.parse_args(arguments)
    with served(given.overrides, given.port) as (address, process), sync_playwright() as started:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        if given.pictures:
            pictures(browser, address, given.pictures)
            return 0
        found = {**landing(browser, address, given.visits), **typing(browser, address, given.visits)}
        found |= checked(browser, address)
        browser.close()
        found |= {**crowd(address, process, 40), **crowd(address, process, 200)}
    head = {"bank": " ".join(given.overrides), "visits": given.visits, "cores": os.cpu_count(), "commit": commit()}
    replace_file(given.out, json.dumps({**found, **head, "versions": versions()}, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return 0


@contextmanager
def served(overrides: list[str], port: int) -> Iterator[tuple[str, psutil.Process]]:
    """The address and the process of ``app.py``, once it answers."""
    with tempfile.TemporaryDirectory() as folder:
        own = [f"port={port}", f"predictions={folder}", "requests_per_minute=100000", f"hydra.run.dir={folder}/run"]
        process = subprocess.Popen([sys.executable, "app.py", *own, *overrides])  # noqa: S603 - our own script
        try:
            address = f"http://127.0.0.1:{port}"
            while process.poll() is None:
                try:
                    httpx.get(f"{address}/api/health").raise_for_status()
                    break
                except httpx.HTTPError:
                    time.sleep(0.2)
            else:
                raise SystemExit("bench.page: the server did not start")
            yield address, psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait()


def landing(browser: Browser, address: str, visits: int) -> dict[str, Any]:
    """What a first look costs: requests, kilobytes as they are sent, seconds until the ranking is there."""
    seconds, requests, sent = [], 0, 0.0
    for _ in track(range(visits + 1), "landing"):
        page = browser.new_context(viewport=DESK).new_page()
        sizes: list[float] = []
        network = page.context.new_cdp_session(page)
        network.send("Network.enable")
        network.on("Network.loadingFinished", lambda event, kept=sizes: kept.append(event["encodedDataLength"]))
        started = time.perf_counter()
        page.goto(address)
        complete(page)
        seconds.append(time.perf_counter() - started)
        page.wait_for_timeout(300)
        requests, sent = len(sizes), sum(sizes) / 1000
        page.context.close()
    known = statistics.median(seconds[1:])  # the first visit makes the ranking known
    return {"requests": requests, "kilobytes": round(sent, 1), "landing_known_s": round(known, 3)}


def typing(browser: Browser, address: str, visits: int) -> dict[str, Any]:
    """Seconds from the last key to the whole ranking, of words that nobody has asked before."""
    seconds = []
    for visit in track(range(visits), "typing"):
        page = browser.new_context(viewport=DESK).new_page()
        page.goto(address)
        complete(page)
        page.get_by_label("Add a like or dislike").press_sequentially(f"Prefers concise answers and {visit} reasons")
        page.evaluate(WAITED)
        page.keyboard.press("Enter")
        seconds.append(float(page.evaluate("window.waited")))
        page.context.close()
    return {
        "last_key_to_complete_s": round(statistics.median(seconds), 3),
        "last_key_slowest_s": round(max(seconds), 3),
    }


def checked(browser: Browser, address: str) -> dict[str, Any]:
    """Where the ranking begins on a phone; what axe and the console say of every view."""
    violations, errors, first = 0, 0, 0.0
    for viewport in (PHONE, DESK):
        for scheme in SCHEMES:
            page = browser.new_context(viewport=viewport, color_scheme=scheme, bypass_csp=True).new_page()
            told: list[str] = []
            listen(page, told)
            for name, opened in VIEWS.items():
                opened(page, address)
                violations += len(Axe().run(page).response["violations"])
                if name == "start" and viewport is PHONE:
                    first = _y(page)
            errors += len(told)
            page.context.close()
    return {"phone_ranking_y": first, "axe_violations": violations, "console_errors": errors, "views": len(VIEWS)}


def listen(page: Page, told: list[str]) -> None:
    """Keep every error of the console and of scripts."""
    page.on("console", lambda said: told.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: told.append(str(error)))


def _y(page: Page) -> float:
    box = page.locator("#rows .row").first.bounding_box()
    return float(box["y"]) if box else float("inf")


def crowd(address: str, server: psutil.Process, people: int) -> dict[str, Any]:
    """Seconds until each of so many people at once has a ranking of their own, and how memory grew."""
    clients = [httpx.Client(base_url=address, timeout=120, verify=False) for _ in range(people)]  # noqa: S501 - no TLS

    def ask(number: int) -> tuple[float, bool]:
        told = [f"Prefers answers of {number} words for {people}"]
        started = time.perf_counter()
        with clients[number] as client:
            answer = client.post("/api/rank", json={"criteria": told})
        own = json.loads(answer.text.strip().splitlines()[-1])["criteria"] == told
        return time.perf_counter() - started, own

    before = server.memory_info().rss
    with ThreadPoolExecutor(people) as pool:
        found = list(pool.map(ask, range(people)))
    seconds = sorted(taken for taken, _ in found)
    grown = (server.memory_info().rss - before) / 1e6
    return {
        f"people_{people}_p95_s": round(seconds[int(0.95 * people)], 3),
        f"people_{people}_mixed": sum(not own for _, own in found),
        f"people_{people}_memory_mb": round(grown, 1),
    }


def pictures(browser: Browser, address: str, folder: Path) -> None:
    """``<view>_<width>_<theme>.png`` of everything."""
    folder.mkdir(parents=True, exist_ok=True)
    for width in WIDTHS:
        for scheme in SCHEMES:
            page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
            for name, opened in track(VIEWS.items(), f"{width} {scheme}"):
                opened(page, address)
                page.wait_for_timeout(400)
                page.screenshot(path=folder / f"{name}_{width}_{scheme}.png", full_page=True)
            page.context.close()


if __name__ == "__main__":
    sys.exit(main())
