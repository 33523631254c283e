"""The page on an indexed bank, in a real browser: from the click to the whole ranking, for words nobody has asked."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from crm.judges.crm_judge import CrmJudge
from crm.leaderboard.bank.simulated import simulate_bank
from crm.leaderboard.bank_judge import index_bank
from crm.page.index_ranker import IndexRanker
from tests.page.browsing import cells, rank, serve_ranker, shown, tab, until

pytestmark = pytest.mark.slow


def seconds_to_rank(page: Any, words: str) -> float:
    """From the click on Rank until the link of these words and a complete ranking are there; looked for every 50 ms."""
    page.locator("#criteria textarea").fill(words)
    started = time.monotonic()
    page.locator("#rank").click()
    until(page, "link", "", ending=words.replace(" ", "+"))
    until(page, "my-status", "Complete")
    return time.monotonic() - started


def test_a_ranking_is_whole_at_once(browser: Any, make_model: Any, make_encoder: Any, tmp_path: Path) -> None:
    bank = simulate_bank(seed=1, queries_per_topic=2).bank
    judge = CrmJudge(make_model("late"), make_encoder("late"), batch_size=8, model_digest="m")
    indexed = index_bank(judge, bank, tmp_path, progress=False)
    assert indexed is not None
    with serve_ranker(IndexRanker(indexed), tmp_path) as address:
        page = browser.new_page()
        page.goto(address)
        until(page, "default-status", "Complete: 24 of 24 queries, 13 models")
        rank(page, "Prefers concise answers")
        first = cells(page, "my-table")
        assert len(first) == 13 and shown(page, "my-status").startswith("Complete: 24 of 24")
        taken = [seconds_to_rank(page, f"Prefers answers of kind {place}") for place in range(5)]
        print(f"from click to whole ranking: {sorted(taken)} s")
        assert min(taken) < 5
        tab(page, "Why")
        page.locator("#why-model input").click()
        page.get_by_role("option", name=first[0][1]).click()
        until(page, "why-status", "24 queries")
        page.close()
