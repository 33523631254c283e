"""A bank and a judge without a model, for tests of the server: the length of a response decides, by the criteria."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from crm.judges.crm_judge import CrmJudge
from crm.judges.judge import Asked, Reading
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.leaderboard.bank.simulated import simulate_bank
from crm.page.ranker import Ranker
from crm.page.score_store import ScoreStore
from crm.page.scoring_queue import ScoringQueue
from crm.schema import Message
from tests.page.browsing import CHROMIUM, KnowingJudge, complete, serve, serve_ranker
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


class WordJudge:
    """Prefers long responses, or short ones where a criterion says so; counts what it reads, and can be held up."""

    left_out = "too_long"
    together = 1
    digest = "words"

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.read_count = seconds, 0
        self.asked: list[tuple[str, ...]] = []
        self.go = threading.Event()
        self.go.set()

    def fits(self, asked: Asked) -> bool:
        return "huge" not in asked[0].response_a[0].content

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        for row, order in comparisons:
            assert self.go.wait(20)
            if self.seconds:
                time.sleep(self.seconds)
            if any("fail" in line for line in row.criteria):
                raise RuntimeError("the judge broke")
            if not self.fits((row, order)):
                continue
            self.read_count += 1
            self.asked.append(row.criteria)
            difference = len(row.response_a[0].content.split()) - len(row.response_b[0].content.split())
            sign = -1 if any("concise" in line for line in row.criteria) else 1
            logit = sign * difference + (0.1 if order == "ab" else -0.1)
            yield [Reading(row, order, logit)]


@pytest.fixture
def bank() -> Bank:
    return small_bank()


@pytest.fixture
def judge() -> WordJudge:
    return WordJudge()


@pytest.fixture
def make_ranker(tmp_path: Path) -> Iterator[Callable[..., Ranker]]:
    """A ranker of a judge (and a bank), closed in the end."""
    queues: list[ScoringQueue] = []

    def make(judge: WordJudge, bank: Bank | None = None, places: int = 10) -> Ranker:
        queues.append(ScoringQueue(judge, ScoreStore(tmp_path / "scores.sqlite"), places=places))
        return Ranker(bank or small_bank(), queues[-1])

    yield make
    for queue in queues:
        queue.judge.go.set()  # type: ignore[attr-defined]
        queue.close()


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
    bank = simulate_bank(seed=1, queries_per_topic=2).bank
    with serve(bank, KnowingJudge(), tmp_path_factory.mktemp("app")) as address:
        yield address


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same bank with an index: rankings, picks and weights at once."""
    folder = tmp_path_factory.mktemp("indexed")
    with serve_ranker(counting_ranker(simulate_bank(seed=1, queries_per_topic=4).bank, folder), folder) as address:
        yield address


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """The page of a judge that streams."""
    with opened(browser, address) as made:
        yield made


@pytest.fixture
def quick(browser: Any, indexed: str) -> Iterator[Any]:
    """The page of an index."""
    with opened(browser, indexed) as made:
        yield made


@contextmanager
def opened(browser: Any, address: str, **given: Any) -> Iterator[Any]:
    """A page that ends with no error in the console (``page.wrong``) and no request to anywhere else."""
    made = browser.new_page(viewport={"width": 1280, "height": 900}, **given)
    wrong: list[str] = []
    made.wrong = wrong
    made.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    made.on("pageerror", lambda error: wrong.append(str(error)))
    made.on("request", lambda request: wrong.append(request.url) if _elsewhere(request.url, address) else None)
    made.goto(address)
    complete(made)
    yield made
    made.close()
    # What the server refuses with a sentence, the browser tells too.
    assert [text for text in wrong if "422" not in text and "403" not in text] == []


def _elsewhere(url: str, address: str) -> bool:
    return not url.startswith((address, "data:", "blob:"))
