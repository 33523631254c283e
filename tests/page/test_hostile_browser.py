"""Injections through every displayed field, in a real browser: none runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from crm.judges.controls import LengthJudge
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.schema import Message
from tests.page.browsing import serve, shown, tab, until

pytestmark = pytest.mark.slow

HOSTILE = [
    f'{start}<{tag} {event}="window.hit=1" src=x>{end}'
    for start, end in (("", ""), ("'\">", ""), ("</textarea>", ""), ("# ", "\n\n"), ("| a |\n|--|\n| ", " |"))
    for tag, event in (
        ("img", "onerror"),
        ("svg", "onload"),
        ("body", "onload"),
        ("details open", "ontoggle"),
        ("video", "onerror"),
        ("input autofocus", "onfocus"),
        ("iframe", "onload"),
        ("marquee", "onstart"),
    )
] + [
    f"{start}{text}"
    for start in ("", "\n", "\"'>", "-->", "]]>")
    for text in (
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
]


def test_no_text_is_ever_run(browser: Any, tmp_path: Path) -> None:
    """200 injections as names of models, topics, queries, responses, criteria and in links: none runs."""
    assert len(HOSTILE) == 200
    rows = tuple(BankQuery(f"q{n}", (Message("user", text),), text.strip()) for n, text in enumerate(HOSTILE[::10]))
    names = ["base", *HOSTILE[1::20]]
    answers = {
        name: {q.id: HOSTILE[(7 * at + 13 * n) % 200] + " word" * at for n, q in enumerate(rows)}
        for at, name in enumerate(names)
    }
    with serve(Bank("hostile", "base", rows, answers), LengthJudge(), tmp_path) as address:
        page = browser.new_page()
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        page.goto(address)
        until(page, "default-status", "Complete")
        for start in range(0, 200, 10):
            tab(page, "My leaderboard")
            page.locator("#criteria textarea").fill("\n".join(" ".join(t.split()) for t in HOSTILE[start : start + 10]))
            page.locator("#dislikes textarea").fill(" ".join(HOSTILE[start].split()))
            before = shown(page, "link")
            page.locator("#rank").click()
            page.wait_for_function(
                "old => document.querySelector('#link textarea, #link input').value != old", arg=before
            )
            until(page, "my-status", "Complete")
            assert page.evaluate("window.hit") is None, start
        tab(page, "Why")
        for name in names[1:]:
            page.locator("#why-model input").click()
            page.get_by_role("option", name=name, exact=True).first.click()
            until(page, "why-status", "20 queries")
            for row in range(0, 20, 4):
                page.locator("#why-table [aria-colindex='1'][role=gridcell]").nth(row % 8).click()
                page.wait_for_timeout(120)
            assert page.evaluate("window.hit") is None, name
        page.goto(f"{address}/?{urlencode([('criteria', text) for text in HOSTILE[:9]])}")
        page.wait_for_timeout(1500)
        assert page.evaluate("window.hit") is None
        page.close()
