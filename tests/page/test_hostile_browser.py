"""Injections through every displayed field, in a real browser: none runs."""

from __future__ import annotations

import json
import re
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from playwright.sync_api import expect

from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.page.ranker import Ranker
from crm.schema import Message
from tests.page.browsing import complete, new_page, serve_ranker, view
from tests.page.conftest import WordScorer
from tests.page.counting import counting_ranker

pytestmark = pytest.mark.slow

EVENTS = (
    ("img", "onerror"),
    ("svg", "onload"),
    ("body", "onload"),
    ("details open", "ontoggle"),
    ("video", "onerror"),
    ("input autofocus", "onfocus"),
    ("iframe", "onload"),
    ("marquee", "onstart"),
)
TEXTS = (
    *(f'<{tag} {event}="window.hit=1" src=x>' for tag, event in EVENTS),
    "<script>window.hit=1</script>",
    "<scr<script>ipt>window.hit=1</script>",
    "[x](javascript:window.hit=1)",
    '![x](x" onerror="window.hit=1)',
    '<a href="javascript:window.hit=1">x</a>',
    '<object data="javascript:window.hit=1">',
    '<embed src="javascript:window.hit=1">',
    "<math><mtext></form><form><mglyph><style></math><img src onerror=window.hit=1>",
    "<style>@import 'javascript:window.hit=1';</style>",
    '<base href="javascript:window.hit=1//">',
    '<form action="javascript:window.hit=1"><button>x</button></form>',
    '<meta http-equiv=refresh content="0;url=javascript:window.hit=1">',
    "{{constructor.constructor('window.hit=1')()}}",
    "${window.hit=1}",
    '<svg><a xlink:href="javascript:window.hit=1"><text>x</text></a></svg>',
    "<template><script>window.hit=1</script></template>",
    "$$\\href{javascript:window.hit=1}{x}$$",
    "<img src=x:x onerror\n=window.hit=1>",
    "\u202e<script>window.hit=1</script>",
    "<xss style=animation-name:x onanimationstart=window.hit=1>",
    '<link rel=stylesheet href="javascript:window.hit=1">',
    '<div onmouseover=window.hit=1 style="position:fixed;inset:0">x</div>',
    "<isindex type=image src=1 onerror=window.hit=1>",
    '<noscript><p title="</noscript><img src=x onerror=window.hit=1>">',
    "<button popovertarget=x>x</button><xss onbeforetoggle=window.hit=1 popover id=x>",
    "<select autofocus onfocus=window.hit=1>",
    "<textarea autofocus onfocus=window.hit=1>",
    "<audio src onloadstart=window.hit=1>",
    "<source onerror=window.hit=1>",
    "<track default src=x onload=window.hit=1>",
    '=HYPERLINK("javascript:window.hit=1")',
    "<img src=\"data:image/svg+xml,<svg onload='window.hit=1'>\" onload=window.hit=1>",
)
STARTS = ("", "'\">", "</textarea>", "# ", "| a |\n|--|\n| ", "-->", "]]>")
HOSTILE = [start + text for start, text in zip(cycle(STARTS), TEXTS, strict=False)]


VIEWS = ("By topic", "Cost", "Share and keep", "For researchers", "Compare")


def test_no_text_is_ever_run(browser: Any, tmp_path: Path) -> None:
    """40 injections as names of models, topics, queries, responses, criteria and in links: none runs."""
    assert len(HOSTILE) == 40
    rows = tuple(BankQuery(f"q{n}", (Message("user", text),), text.strip()) for n, text in enumerate(HOSTILE[::4]))
    names = ["base", *HOSTILE[1::8]]
    answers = {
        name: {q.id: HOSTILE[(7 * at + 13 * n) % 40] + " word" * at for n, q in enumerate(rows)}
        for at, name in enumerate(names)
    }
    facts = {name: {"display": HOSTILE[-at - 1], "usd_out": at, "open_weights": True} for at, name in enumerate(names)}
    ranker = Ranker(WordScorer(Bank("hostile", "base", rows, answers)))
    with serve_ranker(ranker, tmp_path, "requests_per_minute=100000") as address, new_page(browser) as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        page.route("**/api/bank", lambda route: route.fulfill(json=route.fetch().json() | {"facts": facts}))
        page.goto(address)
        for start in range(0, 40, 10):
            lines = [" ".join(text.split()) for text in HOSTILE[start : start + 10]]
            page.goto(f"{address}/?{urlencode([('criteria', text) for text in lines[1:]] + [('dislikes', lines[0])])}")
            complete(page)
            page.get_by_label("Add a like or dislike").fill(lines[0] + " again")
            page.keyboard.press("Enter")
            complete(page)
            assert page.evaluate("window.hit") is None, start
        for name in VIEWS:
            view(page, name)
            assert page.evaluate("window.hit") is None, name
        page.locator("#other").fill("\n".join(lines))
        page.get_by_role("button", name="Compare", exact=True).last.click()
        page.locator("#panel svg").wait_for()
        for row in page.locator("#rows .row:not([disabled])").all():
            row.click()
            page.locator("#why article").first.wait_for()
            assert page.evaluate("window.hit") is None


def test_no_name_is_run_in_any_view(browser: Any, tmp_path: Path) -> None:
    """All 40 as models in one bank, under their own names and as the names to show; the reasons of every fourth."""
    rows = tuple(BankQuery(f"q{n}", (Message("user", f"Why {n}?"),), HOSTILE[n].strip()) for n in range(20))
    names = ["base", *dict.fromkeys(f"{text} {at}" for at, text in enumerate(HOSTILE))]
    answers = {name: {q.id: "word " * (1 + at % 50) + name for q in rows} for at, name in enumerate(names)}
    facts = {name: {"display": f"{name} shown", "usd_out": at, "open_weights": True} for at, name in enumerate(names)}
    ranker = counting_ranker(Bank("hostile", "base", rows, answers), tmp_path)
    with serve_ranker(ranker, tmp_path, "requests_per_minute=100000") as address, new_page(browser) as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        page.goto(f"{address}/?criteria=concise")
        complete(page)
        shown = page.locator("#rows .row")
        assert shown.count() == len(names) == 41
        explained = [row for row in shown.all()[::4] if row.is_enabled()]
        for row in explained:
            row.click()
            page.locator("#why article").first.wait_for()
        assert page.evaluate("window.hit") is None, "in the reasons"
        page.route("**/api/bank", lambda route: route.fulfill(json=route.fetch().json() | {"facts": facts}))
        page.reload()
        complete(page)
        for name in VIEWS:
            view(page, name)
            assert page.evaluate("window.hit") is None, name
        page.locator("#other").fill("Prefers detailed answers")
        page.get_by_role("button", name="Compare", exact=True).last.click()
        page.locator("#panel svg").wait_for()
        assert page.evaluate("window.hit") is None, "compared"


def test_no_text_is_run_while_somebody_picks(browser: Any, tmp_path: Path) -> None:
    """In questions, answers, the criteria of the pool, and what was typed before."""
    rows = tuple(BankQuery(f"q{n}", (Message("user", text),), "any") for n, text in enumerate(HOSTILE))
    answers = {
        name: {q.id: HOSTILE[(7 * at + 13 * n) % 40] + " word" * (n % 7 * at) for n, q in enumerate(rows)}
        for at, name in enumerate(("base", "one", "two"))
    }
    entries = [
        {"name": f"n{at}", "like": f"short {text}", "opposite": f"long {text}"} for at, text in enumerate(HOSTILE)
    ]
    (tmp_path / "pool.yaml").write_text(json.dumps([entries[at] for at in (0, 11, 22, 33)]), "utf-8")
    ranker = counting_ranker(Bank("hostile", "base", rows, answers), tmp_path)
    with serve_ranker(ranker, tmp_path, f"pool={tmp_path / 'pool.yaml'}") as address, new_page(browser) as page:
        page.goto(f"{address}/?{urlencode({'criteria': ' '.join(HOSTILE[5].split())})}")
        complete(page)
        page.evaluate("Math.random = () => 0.4")  # the seed of what is shown
        page.locator("#pick-open").click()
        while (title := page.locator("#picking h2").inner_text()).startswith("Which"):
            left, right = (len(text.inner_text().split()) for text in page.locator("#picking .answer").all())
            page.locator("[data-choice=left]" if left < right else "[data-choice=right]").click()
            page.locator("#reasons button").filter(has_text=re.compile("^(short|Nothing)")).first.click()
            expect(page.locator("#picking h2")).not_to_have_text(title)
            assert page.evaluate("window.hit") is None, title
        page.get_by_role("button", name="Show my ranking").click()
        complete(page)
        assert page.evaluate("window.hit") is None and page.locator(".chip").count()


def test_the_browser_itself_would_refuse_markup(page: Any) -> None:
    """Trusted types and the content policy stand behind the page's own care."""
    refused = "() => { try { document.body.innerHTML = '<b>x</b>'; return '' } catch (error) { return error.name } }"
    assert page.evaluate(refused) == "TypeError"
    policy = httpx.get(page.url).headers["content-security-policy"]
    assert "unsafe" not in policy and "trusted-types 'none'" in policy
    page.wrong.clear()  # the browser tells of it in its console
