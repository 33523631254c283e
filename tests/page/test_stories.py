"""What people come for, each told from the first look to the end, in a real browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from crm.judges.controls import LengthJudge
from crm.leaderboard.bank.simulated import simulate_bank
from crm.page.profile import Profile
from tests.page.browsing import add, complete, headline, names, serve, shot, view
from tests.page.conftest import opened

pytestmark = pytest.mark.slow


def test_in_a_hurry(page: Any) -> None:
    """One press, a name, a reason, two answers side by side."""
    assert page.locator(".chip").count() == 0 and page.locator("#rows .row").count() == 13
    page.get_by_role("button", name="In a hurry").click()
    complete(page)
    assert {"maple-nano", "dahlia-pro"} <= set(names(page)[:5])
    assert "criteria=Prefers+concise+answers" in page.url
    page.locator("#rows .row").first.click()
    why = page.get_by_role("complementary", name="Why")
    expect(why).to_contain_text("of 24 questions against birch-base")
    expect(why.locator(".bar")).to_have_count(2)
    assert why.locator(".bar").first.inner_text().startswith("Prefers concise answers")
    assert len(why.locator("article .answer").first.inner_text()) > 20
    why.get_by_role("button", name="Which sentence matters?").first.click()
    expect(why).to_contain_text("points that the sentence adds")
    shot(page, "in_a_hurry")


def test_compare_with_a_friends_link(browser: Any, page: Any, address: str) -> None:
    """A friend sends a link: it opens the friend's ranking, and beside mine it is the opposite."""
    add(page, "Prefers detailed answers")
    link, first = page.url, names(page)
    with opened(browser, address) as mine:
        mine.goto(link)
        complete(mine)
        assert (
            names(mine) == first and mine.get_by_role("list", name="Your criteria").inner_text().count("detailed") == 1
        )
        mine.get_by_role("button", name="Take away: Prefers detailed answers").click()
        add(mine, "Prefers concise answers")
        panel = view(mine, "Compare")
        panel.get_by_label("The link of a friend").fill(link)
        panel.get_by_role("button", name="Compare").click()
        expect(panel).to_contain_text("opposite rankings: Kendall’s tau -")
        expect(panel.get_by_role("img")).to_have_attribute(
            "aria-label", f"Two rankings. First for you: {first[-1]}. First for them: {first[0]}."
        )
        shot(mine, "compare")


def test_my_own_words_while_i_type(quick: Any) -> None:
    """On an index the ranking follows each word, before Enter; Enter keeps it, and a reload shows the same."""
    quick.get_by_label("Add a like or dislike").press_sequentially("please be brief", delay=20)
    headline(quick, re.compile("^For you: maple-nano"))
    assert "criteria" not in quick.url and quick.locator(".chip").count() == 0
    quick.keyboard.press("Enter")
    complete(quick)
    assert "criteria=please+be+brief" in quick.url
    before = names(quick)
    quick.get_by_role("button", name="please be brief counts 1 times. Change it").click()
    complete(quick)
    assert "weights=2" in quick.url and names(quick)[0] == before[0]
    quick.get_by_role("button", name="Like: please be brief. Turn it round").click()
    complete(quick)
    assert "dislikes=please+be+brief" in quick.url and names(quick)[-1] == before[0]
    after = names(quick)
    quick.reload()
    complete(quick)
    assert names(quick) == after


def test_add_my_model_see_it_ranked_remove_it(browser: Any, tmp_path: Path) -> None:
    bank = simulate_bank(seed=1, queries_per_topic=2).bank
    with serve(bank, LengthJudge(), tmp_path) as address, opened(browser, address) as page:
        panel = view(page, "Add a model")
        with page.expect_download() as download:
            panel.get_by_role("link", name="The questions with their ids").click()
        asked = [json.loads(line) for line in Path(download.value.path()).read_text(encoding="utf-8").splitlines()]
        assert [row["query_id"] for row in asked] == [query.id for query in bank.queries]
        for rows, says in ((asked[:5], "mine.jsonl: 19 of 24"), (asked, "Added: the bank has 14 models now.")):
            file = tmp_path / "mine.jsonl"
            file.write_text("".join(json.dumps(row | {"text": "Yes. " * 300}) + "\n" for row in rows), encoding="utf-8")
            panel.get_by_label("Name of the model").fill("my own model")
            panel.get_by_label("File of its responses").set_input_files(file)
            panel.get_by_role("button", name="Add the file").click()
            expect(page.locator("#add-said")).to_contain_text(says)
        complete(page)
        assert names(page)[0] == "my own model"
        shot(page, "add_a_model")


def test_what_the_page_shows_is_what_the_ranker_says(quick: Any, indexed: str) -> None:
    add(quick, "concise", "no lists")
    shown = [label.split(", ")[1] for label in _labels(quick)]
    said = quick.request.post(f"{indexed}/api/rank", data=json.dumps({"criteria": ["concise"], "dislikes": ["lists"]}))
    rows = json.loads(said.text().strip().splitlines()[-1])["leaderboard"]
    assert names(quick) == [row["model"] for row in rows]
    assert shown == [f"preferred {round(100 * row['win_rate'])} %" for row in rows]
    assert Profile(("concise",), ("lists",)).to_query() in quick.url


def _labels(page: Any) -> list[str]:
    return [str(row.get_attribute("aria-label")) for row in page.locator("#rows .row").all()]
