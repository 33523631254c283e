"""The page in a real browser (the system's chromium): what a person sees in every flow, on the simulated bank.

Screenshots of the flows lie in ``results/screenshots`` afterwards.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from crm.judges.controls import LengthJudge
from crm.judges.judge import Asked, Reading
from crm.leaderboard.bank.simulated import simulate_bank
from tests.page.browsing import cells, eventually, rank, serve, shot, shown, tab, until

pytestmark = pytest.mark.slow

DETAILED, CONCISE = "Prefers detailed answers", "Prefers concise answers"


def test_the_default_leaderboard(page: Any) -> None:
    assert until(page, "default-status", "Complete").startswith("Complete: 24 of 24 queries, 13 models against birch")
    rows = cells(page, "default-table")
    assert len(rows) == 13 and [row[0] for row in rows] == [str(n) for n in range(1, 14)]
    page.get_by_label("Mean words").first.uncheck()
    eventually(page, lambda: len(cells(page, "default-table")[0]) == len(rows[0]) - 1)
    shot(page, "default")


def test_contradictory_users_and_the_same_numbers_as_the_ranker(page: Any) -> None:
    rank(page, DETAILED)
    first = cells(page, "my-table")
    shot(page, "my_leaderboard")
    rank(page, CONCISE)
    second = cells(page, "my-table")
    names = [row[1] for row in first]
    assert names == [row[1] for row in reversed(second)] and len(set(names)) == 13
    assert "criteria=Prefers+concise+answers" in shown(page, "link")


def test_topics_and_what_is_chosen_wrongly(page: Any) -> None:
    tab(page, "My leaderboard")
    page.get_by_role("button", name="Clear topics").click()
    page.wait_for_function("!document.querySelector('#topics input:checked')")
    page.locator("#rank").click()
    until(page, "my-status", "topics: none is chosen")
    page.get_by_label("Puzzles & Logic (2)").check()
    page.locator("#criteria textarea").fill(DETAILED)
    page.locator("#rank").click()
    assert "2 of 2 queries" in until(page, "my-status", "Complete")
    page.locator("#criteria textarea").fill("\n".join(f"line {n}" for n in range(21)))
    page.locator("#rank").click()
    until(page, "my-status", "criteria: 21 lines")


def test_a_link_opens_the_same_leaderboard(browser: Any, page: Any, address: str) -> None:
    rank(page, CONCISE)
    link, rows = shown(page, "link"), cells(page, "my-table")
    assert link.startswith(address)
    other = browser.new_page()
    other.goto(link)
    tab(other, "My leaderboard")
    until(other, "my-status", "Complete")
    assert other.locator("#criteria textarea").input_value() == CONCISE
    assert cells(other, "my-table") == rows
    with other.expect_download() as download:
        other.get_by_role("link", name="CSV").click()
    assert "birch-base" in Path(download.value.path()).read_text(encoding="utf-8-sig")
    other.close()


def test_settings_are_kept_in_the_browser(page: Any, address: str) -> None:
    tab(page, "My leaderboard")
    page.locator("#criteria textarea").fill(DETAILED)
    page.locator("#profile-name input, #profile-name textarea").fill("at work")
    before = page.evaluate("localStorage.getItem('profiles')")
    page.locator("#save").click()
    eventually(page, lambda: page.evaluate("localStorage.getItem('profiles')") not in (None, before))
    page.goto(address)
    tab(page, "My leaderboard")

    def offered() -> bool:
        page.locator("#criteria textarea").click()
        page.locator("#saved input").click()
        return bool(page.get_by_role("option", name="at work").count())

    eventually(page, offered)
    page.get_by_role("option", name="at work").click()
    page.locator("#take").click()
    eventually(page, lambda: page.locator("#criteria textarea").input_value() == DETAILED)


def test_why_shows_both_responses(page: Any) -> None:
    rank(page, DETAILED)
    best = cells(page, "my-table")[0][1]
    tab(page, "Why")
    page.locator("#why-model input").click()
    page.get_by_role("option", name=best).click()
    assert until(page, "why-status", "24 queries")
    page.locator("#why-table [role=gridcell]").first.click()
    page.wait_for_function("document.querySelector('#why-response').innerText.length > 20")
    texts = [page.locator(f"#{name}").inner_text() for name in ("why-query", "why-response", "why-baseline")]
    assert all(texts) and texts[1] != texts[2]
    shot(page, "why")


def test_compare_and_what_decides(page: Any) -> None:
    rank(page, DETAILED, "Prefers humorous answers")
    tab(page, "Compare")
    page.locator("#other-criteria textarea").fill(CONCISE)
    page.locator("#compare").click()
    assert "24 queries" in until(page, "compare-status", "Kendall's tau -")
    page.locator("#bump img").wait_for()
    assert len(cells(page, "changes")) == 13
    page.locator("#decide").click()
    until(page, "decide-status", "Done")
    assert [row[0] for row in cells(page, "effects")] == [DETAILED, "Prefers humorous answers"]
    shot(page, "compare")


def test_a_narrow_and_a_dark_screen(browser: Any, address: str) -> None:
    narrow = browser.new_page(viewport={"width": 380, "height": 800}, color_scheme="dark")
    narrow.goto(address)
    until(narrow, "default-status", "Complete")
    assert narrow.evaluate("document.documentElement.scrollWidth") <= 380
    assert narrow.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    shot(narrow, "narrow_dark")
    narrow.close()


class SlowJudge(LengthJudge):
    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        for asked in comparisons:
            time.sleep(0.03)
            yield from super().read([asked])


def test_stop_keeps_what_is_there_and_frees_the_place(browser: Any, tmp_path: Path) -> None:
    bank = simulate_bank(seed=1, queries_per_topic=4).bank
    with serve(bank, SlowJudge(), tmp_path) as address:
        page = browser.new_page()
        page.goto(address)
        tab(page, "My leaderboard")
        page.locator("#criteria textarea").fill(CONCISE)
        page.locator("#rank").click()
        until(page, "my-status", "So far")
        page.locator("#stop").click()
        left = time.monotonic()
        assert " of 48 queries" in until(page, "my-status", "Stopped. So far")
        rows = cells(page, "my-table")
        # The default leaderboard goes on, since nobody stopped it.
        while httpx.get(f"{address}/api/health").json()["in_line"] > 1:
            assert time.monotonic() - left < 10, "all of it would take half a minute"
        assert len(rows) == 13 and page.get_by_role("link", name="CSV").count() == 1
        page.wait_for_timeout(1000)
        assert cells(page, "my-table") == rows
        page.close()


def test_a_model_is_added_by_a_file(browser: Any, tmp_path: Path) -> None:
    bank = simulate_bank(seed=1, queries_per_topic=1).bank
    with serve(bank, LengthJudge(), tmp_path) as address:
        page = browser.new_page()
        page.goto(address)
        tab(page, "Add a model")
        with page.expect_download() as download:
            page.get_by_role("link", name="The queries with their ids").click()
        asked = [json.loads(line) for line in Path(download.value.path()).read_text(encoding="utf-8").splitlines()]
        assert [row["query_id"] for row in asked] == [query.id for query in bank.queries]
        for name, rows, says in (
            ("part", asked[:5], "part.jsonl: 7 of 12"),
            ("whole", asked, "Added: the bank has 14"),
        ):
            page.goto(address)
            tab(page, "Add a model")
            file = tmp_path / f"{name}.jsonl"
            file.write_text("".join(json.dumps(row | {"text": "Yes. " * 300}) + "\n" for row in rows), encoding="utf-8")
            page.locator("#add-name input, #add-name textarea").fill("my own model")
            page.locator("#add-file input[type=file]").set_input_files(file)
            page.locator("#add-file").get_by_text(name).first.wait_for()
            page.locator("#add").click()
            until(page, "add-status", says)
        shot(page, "add_a_model")
        rank(page, CONCISE)
        assert cells(page, "my-table")[0][1] == "my own model"
        page.close()


def test_files_of_the_machine_are_closed(address: str) -> None:
    """Whatever way a path is written."""
    own = Path(__file__).resolve()
    paths = ["/etc/passwd", "../../etc/passwd", "..%2f..%2fetc%2fpasswd", str(own), "pyproject.toml", "crm/page/run.py"]
    for path in paths:
        for route in ("/gradio_api/file=", "/file=", "/gradio_api/static/", "/static/", "/assets/", "/"):
            answer = httpx.get(f"{address}{route}{path}")
            assert answer.status_code in (403, 404), (route, path)
    too_large = httpx.post(f"{address}/gradio_api/queue/join", content=b'{"data": ["' + b"x" * 1_000_000 + b'"]}')
    assert too_large.status_code == 413
