"""A bank and a scorer without a model, for tests of the server: the length of a response decides, by the criteria."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from crm.judges.crm_judge import CrmJudge
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.leaderboard.bank.simulated import simulate_bank
from crm.leaderboard.outcomes import BankNumbers, Outcomes
from crm.page.oracle import OracleScorer
from crm.page.ranker import Ranker
from crm.schema import Message
from tests.page.browsing import CHROMIUM, complete, new_page, serve_ranker
from tests.page.counting import counting_ranker

AUTHORS = ("base", "brief", "middle", "wordy")


def small_bank(queries: int = 8, name: str = "small") -> Bank:
    """Models whose responses have 1 to 4 words; two topics."""
    rows = tuple(
        BankQuery(f"q{n}", (Message("user", f"question number {n} about {'tea' if n % 2 else 'trains'}"),), "TS"[n % 2])
        for n in range(queries)
    )
    words = {"brief": 1, "base": 2, "middle": 3, "wordy": 4}
    return Bank(name, "base", rows, {who: {q.id: " ".join([who] * words[who]) for q in rows} for who in AUTHORS})


@pytest.fixture
def late(make_model: Any, make_encoder: Any) -> CrmJudge:
    """Reads responses before anybody asks, so that a bank is indexed."""
    return CrmJudge(make_model("late"), make_encoder("late", max_length=600), batch_size=8, model_digest="m")


class WordScorer:
    """Prefers long responses, or short ones where a criterion says so; a response that says "huge" cannot be read."""

    example = ""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    def prepare(self, criteria: Sequence[str]) -> None:
        pass

    def scores(self, criteria: Sequence[str]) -> Any:
        rows = [[self.bank.responses[name][query.id] for name in self.bank.authors] for query in self.bank.queries]
        return np.array([[[_words(text, (line,)) for text in row] for row in rows] for line in criteria], np.float32)

    def outcomes(self, criteria: Sequence[str], weights: Sequence[float], part: Bank) -> Outcomes:
        return BankNumbers(self.bank).outcomes(np.tensordot(np.array(weights), self.scores(criteria), 1), part)

    def of_texts(self, criteria: Sequence[str], weights: Sequence[float], texts: Sequence[Any]) -> list[float]:
        return [_words(answer[-1].content, criteria) for _, answer in texts]

    def not_understood(self, lines: Sequence[str]) -> tuple[str, ...]:
        return ()

    def advice(self, lines: Sequence[str]) -> str:
        return ""


def _words(text: str, criteria: Sequence[str]) -> float:
    sign = -1 if any("concise" in line for line in criteria) else 1
    return float("nan") if "huge" in text else float(sign * len(text.split()))


@pytest.fixture
def bank() -> Bank:
    return small_bank()


@pytest.fixture
def make_ranker() -> Callable[..., Ranker]:
    """A ranker of a bank, by words."""
    return lambda bank=None: Ranker(WordScorer(bank or small_bank()))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's chromium, headless."""
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None:
        pytest.skip("no chromium on this machine (Debian: apt install chromium)")
    with sync_playwright() as started:
        made = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of a simulated bank of 48 questions, with an index."""
    folder = tmp_path_factory.mktemp("indexed")
    with serve_ranker(counting_ranker(simulate_bank(seed=1, queries_per_topic=4).bank, folder), folder) as address:
        yield address


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same bank by its truth."""
    bank = simulate_bank(seed=1, queries_per_topic=4).bank
    with serve_ranker(Ranker(OracleScorer(bank)), tmp_path_factory.mktemp("oracle"), "judge=oracle") as address:
        yield address


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """The page of `address`."""
    with opened(browser, address) as made:
        yield made


@contextmanager
def opened(browser: Any, address: str, **given: Any) -> Iterator[Any]:
    """A page that ends with no error in the console (``page.wrong``) and no request to anywhere else."""
    wrong: list[str] = []
    with new_page(browser, viewport={"width": 1280, "height": 900}, **given) as made:
        made.wrong = wrong
        made.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
        made.on("pageerror", lambda error: wrong.append(str(error)))
        made.on("request", lambda request: wrong.append(request.url) if _elsewhere(request.url, address) else None)
        made.goto(address)
        complete(made)
        yield made
    # What the server refuses with a sentence, the browser tells too.
    assert [text for text in wrong if "422" not in text and "403" not in text] == []


def _elsewhere(url: str, address: str) -> bool:
    return not url.startswith((address, "data:", "blob:"))
