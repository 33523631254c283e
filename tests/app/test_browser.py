"""The page in a real browser (the system's chromium): what a person sees in every flow, on the simulated bank.

Screenshots of the flows lie in ``results/screenshots`` afterwards.
"""

from __future__ import annotations

import json
import shutil
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
import uvicorn

from crm.app.ranker import Ranker
from crm.app.run import make_additions, make_app
from crm.app.score_store import ScoreStore
from crm.app.scoring_queue import ScoringQueue
from crm.config import compose
from crm.data.comparisons import GENERIC_CRITERION
from crm.judges.controls import LengthJudge
from crm.judges.judge import Asked, Reading
from crm.judges.oracle import OracleJudge
from crm.leaderboard.bank import Bank, BankQuery
from crm.schema import Message
from crm.simulation.bank import simulate_bank

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (Debian: apt install chromium)")
SHOTS = Path(__file__).parents[2] / "results" / "screenshots"
ROWS = """table => [...table.querySelectorAll('[role=row]')].map(
    row => [...row.querySelectorAll('[role=gridcell]')].map(cell => cell.innerText.trim()))"""
"""What a screen reader is told of a table; only rows on the screen are there."""
DETAILED, CONCISE = "Prefers detailed answers", "Prefers concise answers"


class KnowingJudge(OracleJudge):
    """The truth of the simulation; for nobody in particular, longer wins: the truth is silent there."""

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        for row, order in comparisons:
            generic = row.criteria == (GENERIC_CRITERION,)
            yield from (LengthJudge() if generic else super()).read([(row, order)])


@contextmanager
def serve(bank: Bank, judge: Any, folder: Path) -> Iterator[str]:
    """The whole application on a port of its own."""
    queue = ScoringQueue(judge, ScoreStore(folder / "scores.sqlite"), places=20)
    ranker, config = Ranker(bank, queue), compose("app", ["checkpoint=none"], folder)
    app = make_app(ranker, "oracle", config, make_additions(ranker, config))
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)
        queue.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    bank = simulate_bank(seed=1, queries_per_topic=2).bank
    with serve(bank, KnowingJudge(), tmp_path_factory.mktemp("app")) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        made = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """A page that has been opened; it ends with no error in the console and no request to anywhere else."""
    made = browser.new_page(viewport={"width": 1280, "height": 900})
    wrong: list[str] = []
    made.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    made.on("pageerror", lambda error: wrong.append(str(error)))
    made.on("request", lambda request: wrong.append(request.url) if _elsewhere(request.url, address) else None)
    made.goto(address)
    yield made
    made.close()
    assert wrong == []


def _elsewhere(url: str, address: str) -> bool:
    return not url.startswith((address, "data:", "blob:"))


def shown(page: Any, name: str) -> str:
    """The text of a field."""
    value: str = page.locator(f"#{name} textarea, #{name} input").first.input_value()
    return value


def until(page: Any, name: str, start: str, ending: str = "", seconds: float = 30) -> str:
    """Wait until a field begins and ends with a text; the field."""
    end = time.monotonic() + seconds
    while not ((text := shown(page, name)).startswith(start) and text.endswith(ending)):
        assert time.monotonic() < end, f"{name} still says {text!r}"
        page.wait_for_timeout(50)
    return text


def cells(page: Any, name: str) -> list[list[str]]:
    """The rows of a table as a person reads them."""
    rows: list[list[str]] = page.locator(f"#{name}").evaluate(ROWS)
    return [row for row in rows if any(row)]


def tab(page: Any, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()


def shot(page: Any, name: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png", full_page=True)


def rank(page: Any, *criteria: str) -> None:
    tab(page, "My leaderboard")
    page.locator("#criteria textarea").fill("\n".join(criteria))
    page.locator("#rank").click()
    until(page, "link", "", ending=urlencode([("criteria", line) for line in criteria]))
    until(page, "my-status", "Complete")
    page.wait_for_timeout(300)


def test_the_default_leaderboard(page: Any) -> None:
    assert until(page, "default-status", "Complete").startswith("Complete: 24 of 24 queries, 13 models against birch")
    rows = cells(page, "default-table")
    assert len(rows) == 13 and [row[0] for row in rows] == [str(n) for n in range(1, 14)]
    page.get_by_label("Mean words").first.uncheck()
    page.wait_for_timeout(500)
    assert len(cells(page, "default-table")[0]) == len(rows[0]) - 1
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
    page.locator("#save").click()
    page.wait_for_timeout(800)
    page.goto(address)
    tab(page, "My leaderboard")
    page.wait_for_timeout(800)
    page.locator("#saved input").click()
    page.get_by_role("option", name="at work").click()
    page.locator("#take").click()
    page.wait_for_timeout(800)
    assert page.locator("#criteria textarea").input_value() == DETAILED


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
    paths = ["/etc/passwd", "../../etc/passwd", "..%2f..%2fetc%2fpasswd", str(own), "pyproject.toml", "crm/app/run.py"]
    for path in paths:
        for route in ("/gradio_api/file=", "/file=", "/gradio_api/static/", "/static/", "/assets/", "/"):
            answer = httpx.get(f"{address}{route}{path}")
            assert answer.status_code in (403, 404), (route, path)


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
