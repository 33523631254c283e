"""For everybody: axe finds nothing in any view, light or dark; keys reach all; no picture without words."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.page.browsing import add, complete, headline, names, shot
from tests.page.conftest import opened

pytestmark = pytest.mark.slow

FACTS = {
    "maple-nano": {"usd_out": 0.4, "open_weights": True},
    "elm-turbo": {"usd_out": 9.0},
    "iris-open": {"usd_out": 2},
}
VIEWS = ("By topic", "Cost", "Compare", "Share and keep", "For researchers")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_no_rule_is_broken_in_any_view(browser: Any, address: str, width: int, scheme: str) -> None:
    with opened(browser, address, color_scheme=scheme, bypass_csp=True) as page:
        page.set_viewport_size({"width": width, "height": 850})
        page.route("**/api/bank", lambda route: route.fulfill(json=route.fetch().json() | {"facts": FACTS}))
        page.goto(f"{address}/?criteria=concise+answers&criteria=asdf+qwer&dislikes=lists")
        complete(page)
        check(page, "start")
        page.get_by_text("Questions and models").click()
        page.locator("#rows .row").first.click()
        page.locator("#why article").first.wait_for()
        expect(page.locator("#why .bar")).to_have_count(3)
        check(page, "why")
        for name in VIEWS:
            page.get_by_role("button", name=name, exact=True).click()
            page.locator("#panel h2").wait_for()
            if name == "Compare":
                page.locator("#other").fill("Likes detailed answers")
                page.locator("#panel form button").click()
                page.locator("#panel svg").wait_for()
            check(page, name)
            shot(page, f"{name.replace(' ', '_').lower()}_{width}_{scheme}")
        page.get_by_role("button", name="Not sure? Pick between answers").click()
        page.locator("#picking h2").wait_for()
        page.keyboard.press("ArrowLeft")
        page.locator("#reasons button").first.wait_for()
        check(page, "picking")
        while page.locator("[data-choice]").count():
            title = page.locator("#picking h2").inner_text()
            page.locator("[data-choice=same]").click()
            expect(page.locator("#picking h2")).not_to_have_text(title)
        check(page, "picked")
        page.goto(f"{address}/static/api.html")
        page.locator("article").first.wait_for()
        check(page, "the API in words")


def check(page: Any, where: str) -> None:
    found = Axe().run(page).response["violations"]
    assert found == [], (
        f"{where}: {json.dumps([(rule['id'], [node['html'][:200] for node in rule['nodes']]) for rule in found])}"
    )


def test_all_of_it_by_keyboard(page: Any) -> None:
    """A like, a dislike, why, close, a view: without a mouse."""
    press = page.keyboard.press
    for _ in range(1 + 5 + 1):  # the way to the ranking, the presets, the field
        press("Tab")
    expect(page.get_by_label("Add a like or dislike")).to_be_focused()
    page.keyboard.type("concise")
    press("Enter")
    headline(page, re.compile("^For you: maple-nano"))
    expect(page.get_by_label("Add a like or dislike")).to_be_focused()
    page.keyboard.type("no lists")
    press("Enter")
    complete(page)
    assert page.locator(".chip.dislike").count() == 1
    page.locator("#rows .row").first.focus()
    press("Enter")
    expect(page.get_by_role("heading", name=f"Why {names(page)[0]}?")).to_be_focused()
    page.locator("#why").get_by_role("button", name="Close").focus()
    press("Enter")
    assert not page.locator("#why").is_visible()
    page.get_by_role("button", name="By topic").focus()
    press("Space")
    expect(page.get_by_role("region", name="Win rates by topic")).to_be_visible()


def test_a_screen_reader_is_told_what_the_pictures_show(page: Any) -> None:
    add(page, "concise")
    first = str(page.locator("#rows .row").first.get_attribute("aria-label"))
    assert re.match(r"1–\d. maple-nano, preferred \d+ %, \d+ to \d+ percent, up \d+ against most people$", first)
    assert page.locator("#progress").get_attribute("role") == "status"
    for picture in page.locator("svg").all():
        assert picture.get_attribute("aria-hidden") == "true" or picture.get_attribute("aria-label")
