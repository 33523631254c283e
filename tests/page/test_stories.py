"""What people come for, each told from the first look to the end, in a real browser."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from crm.leaderboard.bank.config import BankConfig
from crm.leaderboard.bank.opening import open_bank
from crm.page.profile import Profile
from tests.page.browsing import add, complete, headline, names, serve_ranker, shot, view
from tests.page.conftest import opened
from tests.page.counting import counting_ranker

pytestmark = pytest.mark.slow
DATA = Path(os.environ.get("CRM_DATA_ROOT", Path(__file__).parents[3] / "shared" / "data"))


def test_in_a_hurry(page: Any) -> None:
    """One press, a name, a reason, two answers side by side."""
    assert page.locator(".chip").count() == 0 and page.locator("#rows .row").count() == 13
    page.get_by_role("button", name="In a hurry").click()
    complete(page)
    assert {"maple-nano", "dahlia-pro"} <= set(names(page)[:5])
    assert "criteria=Prefers+concise+answers" in page.url
    page.locator("#rows .row").first.click()
    why = page.get_by_role("complementary", name="Why")
    expect(why).to_contain_text("of 48 questions against birch-base")
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


def test_my_own_words_while_i_type(page: Any) -> None:
    """On an index the ranking follows each word, before Enter; Enter keeps it, and a reload shows the same."""
    page.get_by_label("Add a like or dislike").press_sequentially("please be brief", delay=20)
    headline(page, re.compile("^For you: maple-nano"))
    assert "criteria" not in page.url and page.locator(".chip").count() == 0
    page.keyboard.press("Enter")
    complete(page)
    assert "criteria=please+be+brief" in page.url
    before = names(page)
    page.get_by_role("button", name="please be brief counts 1 times. Change it").click()
    complete(page)
    assert "weights=2" in page.url and names(page)[0] == before[0]
    page.get_by_role("button", name="Like: please be brief. Turn it round").click()
    complete(page)
    assert "dislikes=please+be+brief" in page.url and names(page)[-1] == before[0]
    after = names(page)
    page.reload()
    complete(page)
    assert names(page) == after


def test_pick_then_edit(page: Any) -> None:
    """Who does not know picks between answers; what that says is a ranking, and chips to go on from."""
    page.evaluate("Math.random = () => 0.4")  # the seed of what is shown
    page.get_by_role("button", name="Not sure? Pick between answers").click()
    picking = page.locator("#picking")
    title = picking.get_by_role("heading")
    expect(title).to_have_text("Which answer do you prefer? Pick 1")
    assert not page.locator("#rows").is_visible()
    assert not any(name in picking.inner_text() for name in ("maple-nano", "elm-turbo")), "anonymous"
    for number in range(1, 26):
        left, right = (len(text.inner_text().split()) for text in picking.locator(".answer").all())
        page.keyboard.press("ArrowDown" if abs(left - right) < 3 else "ArrowLeft" if left < right else "ArrowRight")
        short = picking.get_by_role("button", name="Prefers concise answers")
        if abs(left - right) >= 3:
            (short if short.count() else picking.get_by_role("button", name="Nothing of these")).click()
        expect(title).not_to_have_text(f"Which answer do you prefer? Pick {number}")
        if not title.inner_text().startswith("Which"):
            break
        if number == 8:
            expect(picking).to_contain_text("You seem to like: Prefers concise answers")
    expect(title).to_have_text("Your ranking is settled")
    expect(picking.locator("li").first).to_have_text(
        re.compile(r"^Prefers concise answers: weight \d\.\d \[-?\d\.\d, \d\.\d\]")
    )
    shot(page, "picked")
    picking.get_by_role("button", name="Show my ranking").click()
    complete(page)
    assert names(page)[0] == "maple-nano" and "Prefers concise answers" in page.locator(".chip").first.inner_text()
    assert re.search(r"240 questions|48 questions", page.locator("#progress").inner_text())
    picked, link = names(page), page.url
    page.goto(link)
    complete(page)
    assert names(page) == picked, "the link holds the picks"
    page.get_by_role("button", name="Like: Prefers concise answers. Turn it round").click()
    complete(page)
    assert "picks=" not in page.url and names(page)[-1] == "maple-nano"


def test_my_own_words_on_a_real_bank(browser: Any, tmp_path: Path) -> None:
    """30 real models, real answers: words that somebody types, a refusal of what says nothing, evidence to read."""
    if not (DATA / "bank_alpacaeval").is_dir():
        pytest.skip(f"no {DATA / 'bank_alpacaeval'}; set CRM_DATA_ROOT")
    bank = open_bank(BankConfig(name="alpacaeval", root=str(DATA), queries=60, max_words=200))
    ranker, words = counting_ranker(bank, tmp_path), ("bank=alpacaeval", f"bank.root={DATA}")
    with serve_ranker(ranker, tmp_path, *words) as address, opened(browser, address) as page:
        assert len(names(page)) == len(bank.authors) and not page.locator("#notice").is_visible()
        add(page, "xcvb qwrt plk")
        headline(page, "No ranking")
        expect(page.locator("#because")).to_contain_text("The judge does not react to these words")
        page.get_by_role("button", name="Take away: xcvb qwrt plk").click()
        add(page, "please be brief", "no lists")
        first = names(page)[0]
        page.locator("#rows .row").first.click()
        why = page.get_by_role("complementary", name="Why")
        expect(why).to_contain_text("of 60 questions against")
        expect(why.locator("article")).to_have_count(2)
        words = {who: sum(len(text.split()) for text in texts.values()) for who, texts in bank.responses.items()}
        assert sorted(words, key=words.__getitem__).index(first) < 5, "brief by count, too"
        shot(page, "real_bank")


def test_what_the_page_shows_is_what_the_ranker_says(page: Any, address: str) -> None:
    add(page, "concise", "no lists")
    shown = [label.split(", ")[1] for label in _labels(page)]
    said = page.request.post(f"{address}/api/rank", data=json.dumps({"criteria": ["concise"], "dislikes": ["lists"]}))
    rows = said.json()["leaderboard"]
    assert names(page) == [row["model"] for row in rows]
    assert shown == [f"preferred {round(100 * row['win_rate'])} %" for row in rows]
    assert Profile(("concise",), ("lists",)).to_query() in page.url


def _labels(page: Any) -> list[str]:
    return [str(row.get_attribute("aria-label")) for row in page.locator("#rows .row").all()]
