"""Every view of the page, and how somebody gets there. In: a browser's page, an address. Out: the view, complete."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlencode

LIKES = urlencode([("criteria", "Prefers detailed answers"), ("criteria", "Prefers evidence and data")])
FRIEND = "Prefers concise answers"


def complete(page: Any) -> None:
    """Wait until nothing is being ranked any more."""
    page.locator("#ranking[aria-busy=false]").wait_for(timeout=60_000)


def start(page: Any, address: str, query: str = "") -> None:
    """What somebody sees who comes for the first time, or by a link."""
    page.goto(f"{address}/?{query}" if query else address)
    complete(page)
    page.locator("#rows .row:visible").first.wait_for()


def refused(page: Any, address: str) -> None:
    """Too few questions."""
    page.goto(f"{address}/?{LIKES}&queries=6")
    complete(page)


def why(page: Any, address: str) -> None:
    """Of the first model."""
    start(page, address, LIKES)
    page.locator("#rows .row:not([disabled])").first.click()
    page.locator("#why article").first.wait_for()
    page.locator("#why .bar").nth(1).wait_for()


def picking(page: Any, address: str) -> None:
    """A pair, a side of it picked, reasons offered."""
    start(page, address)
    page.evaluate("Math.random = () => 0.4")
    page.locator("#pick-open").click()
    page.locator("#picking h2").wait_for()
    page.keyboard.press("ArrowLeft")
    page.locator("#reasons button").first.wait_for()


def filters(page: Any, address: str) -> None:
    """Which questions and models take part."""
    start(page, address, LIKES)
    page.locator("#filters summary").click()
    page.locator("#filters fieldset").first.wait_for()


def panel(name: str, page: Any, address: str) -> None:
    """What a button below the ranking opens."""
    start(page, address, LIKES)
    page.get_by_role("button", name=name, exact=True).click()
    page.locator("#panel h2").wait_for()
    if name == "Compare":
        page.locator("#other").fill(FRIEND)
        page.locator("#panel form button").click()
        page.locator("#panel svg").wait_for()


VIEWS: dict[str, Callable[[Any, str], None]] = {
    "start": start,
    "likes": partial(start, query=LIKES),
    "refused": refused,
    "why": why,
    "picking": picking,
    "filters": filters,
    "topics": partial(panel, "By topic"),
    "cost": partial(panel, "Cost"),
    "compare": partial(panel, "Compare"),
    "share": partial(panel, "Share and keep"),
    "researchers": partial(panel, "For researchers"),
}
