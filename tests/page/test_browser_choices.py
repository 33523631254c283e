"""What a person can choose on the page, in a real browser: order of a table, queries, models, files, an endpoint."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest

from crm.judges.controls import LengthJudge
from crm.leaderboard.bank.simulated import simulate_bank
from tests.page.browsing import cells, eventually, rank, serve, shot, shown, tab, until
from tests.repeating_endpoint import repeating_endpoint

pytestmark = pytest.mark.slow

CONCISE = "Prefers concise answers"
CONTROL = re.compile(r"- '?(textbox|button|checkbox|combobox|spinbutton|grid)\b")
"""A line of Playwright's snapshot of what a screen reader is told."""


def test_a_table_is_sorted_and_searched(page: Any) -> None:
    until(page, "default-status", "Complete")
    table = page.locator("#default-table")
    heading = table.get_by_role("columnheader", name="Rank").first
    heading.hover()
    heading.get_by_label("Open cell menu").click()
    page.get_by_role("menuitem", name="Sort descending").click()
    descending = [str(rank) for rank in range(13, 0, -1)]  # as numbers: as text 9 would come first
    eventually(page, lambda: [row[0] for row in cells(page, "default-table")] == descending)
    table.get_by_placeholder("Filter...").fill("aster")
    eventually(page, lambda: sorted(row[1] for row in cells(page, "default-table")) == ["aster-large", "aster-mini"])


def choose(page: Any, label: str, *options: str) -> None:
    for option in options:
        page.get_by_label(label).click()
        page.get_by_role("option", name=option, exact=True).last.click()  # a list that closes fades out


def test_queries_by_what_i_do_a_baseline_and_models(page: Any) -> None:
    tab(page, "My leaderboard")
    page.get_by_role("button", name=CONCISE).first.click()
    eventually(page, lambda: page.locator("#criteria textarea").input_value() == CONCISE)
    page.locator("#dislikes textarea").fill("formal language")
    page.locator("#about textarea, #about input").fill("I teach evening classes and play board games and riddles")
    page.get_by_role("button", name="Baseline, models, number of queries").click()
    choose(page, "Baseline", "aster-mini")
    choose(page, "Only these models (empty: all)", "birch-base", "iris-open")
    page.get_by_label("Queries, drawn in turns over topics (0: all)").fill("3")
    page.locator("#rank").click()
    assert ", 3 models against aster-mini" in until(page, "my-status", "Complete: 3 of 3 queries")
    rows = cells(page, "my-table")
    assert {row[1] for row in rows} == {"aster-mini", "birch-base", "iris-open"}
    assert parse_qs(urlsplit(shown(page, "link")).query) == {
        "criteria": [CONCISE],
        "dislikes": ["formal language"],
        "about": ["I teach evening classes and play board games and riddles"],
        "baseline": ["aster-mini"],
        "models": ["birch-base", "iris-open"],
        "queries": ["3"],
    }
    shot(page, "choices")


def test_every_control_says_what_it_is(page: Any) -> None:
    """To screen readers, on every tab; empty tables have headings too."""
    for name in ("Leaderboard", "My leaderboard", "Why", "Compare", "Add a model"):
        tab(page, name)
        page.wait_for_timeout(500)
        lines = [line.strip() for line in page.locator("body").aria_snapshot().splitlines()]
        controls = [line for line in lines if CONTROL.match(line)]
        assert len(controls) > 3 and [line for line in controls if '"' not in line] == [], name
        assert '- columnheader "1"' not in lines and '- columnheader "1":' not in lines


def test_every_kind_of_file(browser: Any, page: Any, tmp_path: Path) -> None:
    rank(page, CONCISE)
    best = cells(page, "my-table")[0]
    kept = {}
    for ending in ("csv", "json", "png", "html"):
        with page.expect_download() as download:
            page.locator("#files").get_by_role("link", name=ending.upper(), exact=True).click()
        kept[ending] = tmp_path / f"leaderboard.{ending}"
        download.value.save_as(kept[ending])
    table = pd.read_csv(kept["csv"])
    assert table.loc[0, "model"] == best[1] and round(100 * table.loc[0, "win_rate"], 1) == float(best[2])
    document = json.loads(kept["json"].read_text(encoding="utf-8"))
    assert document["facts"]["criteria"] == [CONCISE] and document["leaderboard"][0]["model"] == best[1]
    assert kept["png"].read_bytes().startswith(b"\x89PNG")
    asked: list[str] = []
    saved = browser.new_page()
    saved.on("request", lambda request: asked.append(request.url))
    saved.goto(kept["html"].as_uri())
    assert best[1] in saved.locator("body").inner_text()
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == [], "it opens without a server"
    saved.close()


def test_an_endpoint_is_asked_for_its_responses_and_goes_on_where_it_failed(browser: Any, tmp_path: Path) -> None:
    bank = simulate_bank(seed=1, queries_per_topic=1).bank
    refused = bank.queries[3].prompt[0].content
    with repeating_endpoint(refused) as (url, asked):
        words = (f"endpoint.base_url={url}", "endpoint.model=new-model", "endpoint.attempts=1")
        with serve(bank, LengthJudge(), tmp_path, *words) as address:
            page = browser.new_page()
            page.goto(address)
            tab(page, "Add a model")
            page.locator("#add-name input, #add-name textarea").fill("the new one")
            page.get_by_role("button", name="Ask new-model for its responses").click()
            until(page, "add-status", "endpoint: 1 of 12 queries have no response")
            page.locator("#ask").click()
            until(page, "add-status", "Added: the bank has 14 models now.")
            assert sorted(asked.values()) == [1] * 11 + [2], "what was answered is not asked again"
            rank(page, CONCISE)
            assert "the new one" in {row[1] for row in cells(page, "my-table")}
            page.close()
