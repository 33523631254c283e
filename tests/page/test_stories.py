"""What people come for, each told from the first look to the end, in a real browser."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from crm.judges.controls import LengthJudge
from crm.leaderboard import open_bank
from crm.leaderboard.bank.config import BankConfig
from crm.leaderboard.bank.simulated import simulate_bank
from crm.page.profile import Profile
from tests.page.browsing import add, complete, headline, names, serve, serve_ranker, shot, view
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
        with opened(browser, address) as other:  # the token stays in the browser of whoever added the model
            assert "my own model" in names(other)
            assert view(other, "Add a model").get_by_role("button", name="Remove").count() == 0
        panel.get_by_role("button", name="Remove my own model").click()
        expect(page.locator("#add-said")).to_contain_text("Removed: the bank has 13 models now.")
        complete(page)
        assert "my own model" not in names(page) and len(names(page)) == 13
        page.get_by_text("Questions and models").click()
        expect(page.locator("#filters").get_by_text("my own model")).to_have_count(0)


def test_pick_then_edit(quick: Any) -> None:
    """Who does not know picks between answers; what that says is a ranking, and chips to go on from."""
    quick.evaluate("Math.random = () => 0.4")  # the seed of what is shown
    quick.get_by_role("button", name="Not sure? Pick between answers").click()
    picking = quick.locator("#picking")
    title = picking.get_by_role("heading")
    expect(title).to_have_text("Which answer do you prefer? Pick 1")
    assert not quick.locator("#rows").is_visible()
    assert not any(name in picking.inner_text() for name in ("maple-nano", "elm-turbo")), "anonymous"
    for number in range(1, 26):
        left, right = (len(text.inner_text().split()) for text in picking.locator(".answer").all())
        quick.keyboard.press("ArrowDown" if abs(left - right) < 3 else "ArrowLeft" if left < right else "ArrowRight")
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
    shot(quick, "picked")
    picking.get_by_role("button", name="Show my ranking").click()
    complete(quick)
    assert names(quick)[0] == "maple-nano" and "Prefers concise answers" in quick.locator(".chip").first.inner_text()
    assert re.search(r"240 questions|48 questions", quick.locator("#progress").inner_text())
    picked, link = names(quick), quick.url
    quick.goto(link)
    complete(quick)
    assert names(quick) == picked, "the link holds the picks"
    quick.get_by_role("button", name="Like: Prefers concise answers. Turn it round").click()
    complete(quick)
    assert "picks=" not in quick.url and names(quick)[-1] == "maple-nano"


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
