"""What browser tests share: a server of the whole application, and what a person does and sees."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from crm.config import compose
from crm.page.ranker import Ranker
from crm.page.run import make_app
from tests.running_app import running

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE = 200_000
"""Milliseconds that a browser may take for anything: a busy machine fails no test."""
SHOTS = Path(__file__).parents[2] / "results" / "screenshots"

expect.set_options(timeout=PATIENCE)


@contextmanager
def new_page(browser: Any, **given: Any) -> Iterator[Any]:
    made = browser.new_page(**given)
    made.set_default_timeout(PATIENCE)
    yield made
    made.close()


@contextmanager
def serve_ranker(ranker: Ranker, folder: Path, *words: str) -> Iterator[str]:
    """The whole application on a port of its own; ``words`` are overrides of ``app.py``."""
    config = compose("app", ["checkpoint=none", *words], folder)
    with running(make_app(ranker, config.judge.name, config)) as address:
        yield address


def headline(page: Any, text: str | re.Pattern[str]) -> None:
    """Wait until the headline says so."""
    expect(page.locator("#headline")).to_have_text(text)


def complete(page: Any) -> None:
    """Wait until nothing is being ranked any more."""
    expect(page.get_by_role("region", name="Ranking", exact=True)).to_have_attribute("aria-busy", "false")


def add(page: Any, *lines: str) -> None:
    """Type likes and dislikes, with Enter after each; ends when they are ranked."""
    for text in lines:
        page.get_by_label("Add a like or dislike").fill(text)
        page.keyboard.press("Enter")
    complete(page)


def names(page: Any) -> list[str]:
    """The models of the ranking, best first, as a screen reader tells them."""
    told = [row.get_attribute("aria-label") for row in page.locator("#rows .row").all()]
    return [str(label).split(". ", 1)[1].split(", ")[0] for label in told]


def view(page: Any, name: str) -> Any:
    """Open what stands below the ranking; the panel."""
    page.get_by_role("button", name=name, exact=True).click()
    return page.locator("#panel")


def shot(page: Any, name: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png", full_page=True)
