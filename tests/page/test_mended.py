"""What people once met on the page, and should not meet again; a test each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from tests.page.browsing import add, complete, headline, names, view

pytestmark = pytest.mark.slow

DETAILED, CONCISE = "Prefers detailed answers", "Prefers concise answers"


def test_the_ranking_is_on_the_first_screen(page: Any) -> None:
    """There is no button to find: the winner and the first rows are above the fold, on a phone too."""
    add(page, CONCISE)
    assert (
        page.locator("#rows .row").nth(2).bounding_box()["y"] < 900
        and page.get_by_role("button", name="Rank").count() == 0
    )
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.get_by_role("region", name="Ranking", exact=True).bounding_box()["y"] <= 600
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_link_and_a_reload_are_the_same_page(page: Any) -> None:
    add(page, CONCISE, "no humour")
    before = names(page)
    page.reload()
    complete(page)
    assert names(page) == before and page.locator(".chip").count() == 2


def test_it_refuses_few_questions(page: Any) -> None:
    page.get_by_text("Questions and models").click()
    topics = page.get_by_role("group", name="Questions on").get_by_role("checkbox")
    expect(topics).to_have_count(12)
    for box in topics.all()[3:]:
        box.uncheck()
    headline(page, "No ranking")
    expect(page.locator("#because")).to_contain_text("Only 12 questions of the bank match")
    assert not page.locator("#rows").is_visible()
    page.get_by_role("button", name="Show it anyway").click()
    assert page.locator("#rows").is_visible()


def test_it_refuses_words_that_mean_nothing_to_the_judge(page: Any) -> None:
    add(page, "asdf qwer zxcv")
    headline(page, "No ranking")
    expect(page.locator("#because")).to_contain_text("does not react to these words")
    expect(page.locator(".chip")).to_contain_text("not understood")
    add(page, CONCISE)
    headline(page, re.compile("^For you: maple-nano"))
    expect(page.locator(".chip").first).to_contain_text("not understood")


def test_why_follows_the_criteria(page: Any) -> None:
    add(page, DETAILED)
    page.locator("#rows .row").first.click()
    best = names(page)[0]
    why = page.locator("#why")
    expect(why.locator(".bar")).to_contain_text(DETAILED)
    first = why.locator("article").first.inner_text()
    page.get_by_role("button", name=f"Take away: {DETAILED}").click()
    add(page, CONCISE)
    expect(why.get_by_role("heading", name=f"Why {best}?")).to_be_visible()
    expect(why.locator(".bar")).to_contain_text(CONCISE)
    assert why.locator("article").first.inner_text() != first


def test_a_preset_adds_to_what_was_typed(page: Any) -> None:
    add(page, "Wants sources")
    button = page.get_by_role("button", name="In a hurry")
    button.click()
    complete(page)
    assert "Wants sources" in page.locator(".chip").first.inner_text()
    assert page.locator(".chip").count() == 3 and button.get_attribute("aria-pressed") == "true"
    button.click()
    complete(page)
    assert page.locator(".chip").count() == 1


def test_a_sentence_clears_topics_and_settings_need_a_name(page: Any) -> None:
    page.get_by_text("Questions and models").click()
    topics = page.get_by_role("group", name="Questions on").get_by_role("checkbox")
    topics.first.uncheck()
    complete(page)
    assert "topics=" in page.url
    page.get_by_label("Or what you do, in a sentence").fill("I write about games")
    page.keyboard.press("Tab")
    complete(page)
    assert "topics=" not in page.url and "about=I+write+about+games" in page.url
    panel = view(page, "Share and keep")
    panel.get_by_role("button", name="Save").click()
    expect(panel).to_contain_text("Give it a name first.")
    panel.get_by_label("Save these settings").fill("at work")
    panel.get_by_role("button", name="Save").click()
    page.goto(page.url.partition("?")[0])
    complete(page)
    view(page, "Share and keep").get_by_role("link", name="at work").click()
    page.wait_for_url("**about=I+write+about+games*")


def test_files_of_the_machine_are_closed(address: str) -> None:
    """Whatever way a path is written."""
    own = Path(__file__).resolve()
    paths = ["/etc/passwd", "../../etc/passwd", "..%2f..%2fetc%2fpasswd", str(own), "pyproject.toml", "../run.py"]
    for path in paths:
        for route in ("/static/", "/file=", "/assets/", "/", "/static/%2e%2e/"):
            assert httpx.get(f"{address}{route}{path}").status_code in (403, 404), (route, path)
    assert httpx.post(f"{address}/api/rank", content=b'{"a": "' + b"x" * 1_000_000 + b'"}').status_code == 413
