"""Banks and scorers without a model, servers of them, and a browser."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from fastapi.testclient import TestClient

from crm.config import compose
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.leaderboard.bank.opening import simulate_bank
from crm.leaderboard.outcomes import BankNumbers, Outcomes
from crm.page.api import About, make_api
from crm.page.picks import Picking
from crm.page.ranker import Ranker
from crm.page.run import make_app
from crm.picking.criteria import read_pool
from crm.schema import Message
from tests.page.counting import counting_ranker
from tests.running_app import running

AUTHORS = ("base", "brief", "middle", "wordy")
PATIENCE = 60_000
"""Milliseconds that a browser may take for anything: a busy machine fails no test."""


def small_bank(queries: int = 8) -> Bank:
    """Models whose responses have 1 to 4 words; two topics."""
    rows = tuple(
        BankQuery(f"q{n}", (Message("user", f"question number {n} about {'tea' if n % 2 else 'trains'}"),), "TS"[n % 2])
        for n in range(queries)
    )
    words = {"brief": 1, "base": 2, "middle": 3, "wordy": 4}
    return Bank("small", "base", rows, {who: {q.id: " ".join([who] * words[who]) for q in rows} for who in AUTHORS})


class WordScorer:
    """Prefers long responses, or short ones where a criterion says so; a response that says "huge" cannot be read."""

    sees = win_rate = "words"
    examples = ("concise",)

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    def scores(self, criteria: Sequence[str]) -> Any:
        rows = [[self.bank.responses[name][query.id] for name in self.bank.authors] for query in self.bank.queries]
        return np.array([[[_words(text, (line,)) for text in row] for row in rows] for line in criteria], np.float32)

    def outcomes(self, criteria: Sequence[str], weights: Sequence[float], part: Bank) -> Outcomes:
        return BankNumbers(self.bank).outcomes(np.tensordot(np.array(weights), self.scores(criteria), 1), part)

    def score_texts(self, criteria: Sequence[str], texts: Sequence[Any]) -> Any:
        return np.array([[_words(answer[-1].content, (line,)) for _, answer in texts] for line in criteria])

    def understood(self, lines: Sequence[str], weights: Sequence[float] = ()) -> list[Any]:
        return []

    def not_understood(self, lines: Sequence[str]) -> tuple[str, ...]:
        return ()


def _words(text: str, criteria: Sequence[str]) -> float:
    sign = -1 if any("concise" in line for line in criteria) else 1
    return float("nan") if "huge" in text else float(sign * len(text.split()))


@pytest.fixture
def make_ranker() -> Callable[..., Ranker]:
    """A ranker of a bank, by words."""
    return lambda bank=None: Ranker(cast(Any, WordScorer(bank or small_bank())))


@pytest.fixture(scope="session")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Ranker:
    """The simulated bank with 48 questions, by the traits that its responses show."""
    bank = simulate_bank(seed=1, queries_per_topic=4).bank
    return counting_ranker(bank, tmp_path_factory.mktemp("index"))


def client_of(ranker: Ranker, **about: Any) -> TestClient:
    """Of the API alone."""
    return TestClient(make_api(ranker, Picking(ranker, read_pool()), About(judge="words", version="9", **about)))


@contextmanager
def serve_ranker(ranker: Ranker, folder: Path, *words: str) -> Iterator[str]:
    """The whole application on a port of its own; ``words`` are overrides of ``app.py``."""
    config = compose("app", ["checkpoint=none", *words], folder)
    with running(make_app(ranker, config.judge.name, config)) as address:
        yield address


@pytest.fixture(scope="session")
def address(indexed: Ranker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of `indexed`."""
    with serve_ranker(indexed, tmp_path_factory.mktemp("served")) as address:
        yield address


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The system's chromium, headless."""
    from playwright.sync_api import expect, sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on this machine (Debian: apt install chromium)")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as started:
        made = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield made
        made.close()


@contextmanager
def opened(browser: Any, address: str, **given: Any) -> Iterator[Any]:
    """A page that ends with no error in the console (``page.wrong``); ``page.asked`` are the URLs it asked for."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, **given)
    page.set_default_timeout(PATIENCE)
    page.wrong, page.asked = [], []
    page.on("console", lambda note: page.wrong.append(note.text) if note.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(address)
    complete(page)
    yield page
    assert [url for url in page.asked if not url.startswith((address, "data:", "blob:"))] == []
    assert [text for text in page.wrong if "422" not in text] == []  # the browser logs errors of the API too
    page.close()


def complete(page: Any) -> None:
    """Wait until the ranking is complete."""
    page.locator("#ranking[aria-busy=false]").wait_for()


def add(page: Any, *lines: str) -> None:
    """Type likes and dislikes, with Enter after each, and wait for the ranking."""
    for text in lines:
        page.get_by_label("What you prefer in an answer").fill(text)
        page.keyboard.press("Enter")
    complete(page)


def names(page: Any) -> list[str]:
    """The models of the ranking, best first, as a screen reader reads them."""
    labels = [str(row.get_attribute("aria-label")) for row in page.locator("#rows .row").all()]
    return [label.split(". ", 1)[1].split(", ")[0] for label in labels]
