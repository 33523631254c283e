"""The page in Chromium: a ranking from the first look on, every view for everybody, hostile texts."""

import json
import re
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from crm.criteria.pool import Criterion
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.page.profile import Profile
from crm.schema import Message
from tests.made_files import bank_of
from tests.page.conftest import add, complete, names, opened, serve_ranker
from tests.page.counting import counting_ranker

pytestmark = pytest.mark.slow

DETAILED, CONCISE = "Prefers detailed answers", "Prefers concise answers"
VIEWS = ("By topic", "Share and keep", "For researchers", "Compare")


def headline(page: Any, text: str | re.Pattern[str]) -> None:
    expect(page.locator("#headline")).to_have_text(text)


def view(page: Any, name: str) -> Any:
    page.get_by_role("button", name=name, exact=True).click()
    page.locator("#panel h2").wait_for()
    return page.locator("#panel")


def compare(page: Any, other: str) -> Any:
    page.locator("#other").fill(other)
    page.locator("#panel form button").click()
    page.locator("#panel table").wait_for()
    return page.locator("#panel")


def test_from_the_first_look_to_a_comparison(browser: Any, address: str) -> None:
    with opened(browser, address) as page:
        page.wait_for_load_state("networkidle")
        assert len(page.asked) <= 11, page.asked
        headline(page, re.compile("in this example$"))
        assert len(names(page)) == 13 and page.locator(".chip").count() == 1 and "criteria" not in page.url
        add(page, "please be brief")
        headline(page, re.compile("^maple-nano.* tied for you$"))
        page.get_by_role("button", name="please be brief counts 1 times. Change it").click()
        complete(page)
        expect(page.get_by_role("button", name="please be brief counts 2 times. Change it")).to_be_focused()
        assert "criteria=please+be+brief&weights=2" in page.url
        page.get_by_role("button", name="Like: please be brief. Turn it round").click()
        headline(page, re.compile("^(?!maple)"))
        assert "dislikes=please+be+brief" in page.url and names(page)[-1] == "maple-nano"
        page.get_by_role("button", name="Take away: please be brief").click()
        headline(page, "No ranking")
        page.get_by_role("button", name=CONCISE).click()
        add(page, "no lists", "Prefers data", "NO lists")
        expect(page.locator("#mistake")).to_have_text("This is there already.")
        mine = Profile(criteria=(CONCISE, "no lists", "Prefers data"))
        assert page.url.endswith(urlencode({"criteria": mine.criteria}, doseq=True))
        before = names(page)
        page.reload()
        complete(page)
        rows = page.request.post(f"{address}/api/v1/rank", data=mine.model_dump(mode="json")).json()["leaderboard"]
        assert names(page) == before == [row["model"] for row in rows]
        shown = [str(row.get_attribute("aria-label")).split(", ")[1] for row in page.locator("#rows .row").all()]
        assert shown == [f"win rate {round(100 * row['win_rate'])} %" for row in rows]
        page.locator("#rows .row").first.click()
        why = page.get_by_role("region", name="Why")
        expect(why.locator(".bar")).to_have_count(3)
        shares = [
            float(text.replace("−", "-").replace("±", ""))
            for text in why.locator(".bar > :last-child").all_inner_texts()
        ]
        assert abs(sum(shares) - rows[0]["log_odds"]) < 0.02
        view(page, "Compare")
        other = urlencode({"criteria": (DETAILED, "asdf"), "weights": (2, 1)}, doseq=True)
        panel = compare(page, f"{address}/?{other}&queries=20")
        expect(panel).to_contain_text("The other person, on your questions:")
        read = [f"+ {DETAILED} ×2, counts", "+ asdf ×1, does not count: not understood"]
        expect(panel.get_by_role("listitem")).to_have_text(read)
        expect(panel).to_contain_text("opposite rankings: Kendall’s tau −")
        milder = {"tau": -0.4, "low": -0.5, "high": -0.3, "models": [], "understood": []}
        page.route("**/api/v1/compare", lambda route: route.fulfill(json=milder), times=1)
        panel.locator("form button").click()
        expect(panel).to_contain_text("rankings that rather disagree: Kendall’s tau −0.40")
        page.route("**/api/v1/compare", lambda route: None, times=1)
        panel.locator("form button").click()
        expect(panel.get_by_text("Comparing …")).to_be_visible()
        expect(panel.locator("table")).to_have_count(0)  # it answers another question
        with page.expect_event("requestfailed"):  # an older answer replaces no newer one
            panel.locator("form button").click()
        panel.locator("#other").fill(f"{address}/")
        panel.locator("form button").click()
        expect(panel.locator(".wrong")).to_contain_text("This has no criteria: paste another link")


def test_words_that_nobody_understands_are_not_ranked(browser: Any, address: str) -> None:
    with opened(browser, address) as page:
        add(page, "cheap")
        headline(page, "No ranking")
        expect(page.locator("#because")).to_have_text(
            "“cheap”: prices are beside the models on the page, not in their answers"
        )
        expect(page.locator(".chip.lost")).to_contain_text("does not count: prices are beside the models")
        assert not page.locator("#rows .row").count() and not page.get_by_role("button", name="Show it anyway").count()
        assert "could not be read" not in page.locator("#progress").inner_text()
        expect(view(page, "For researchers")).to_contain_text("0 of 576")
        add(page, "short answers")
        headline(page, re.compile("by 1 of your 2 criteria$"))
        expect(page.locator("#because")).to_contain_text("“cheap” does not count.")
        expect(page.locator(".chip.lost")).to_have_count(1)


def test_back_undoes_a_change(browser: Any, address: str) -> None:
    with opened(browser, address) as page:
        add(page, CONCISE, "no lists")
        both = names(page)
        page.evaluate("window.same = true")
        page.get_by_role("button", name="Take away: no lists").click()
        expect(page.locator(".chip")).to_have_count(1)
        page.go_back()
        expect(page.locator(".chip")).to_have_count(2)
        complete(page)
        assert names(page) == both and page.evaluate("window.same"), "without a reload"
        page.get_by_text("Questions and models").click()
        topics = page.get_by_role("group", name="Only questions on").get_by_role("checkbox")
        topics.first.check()
        page.go_back()
        expect(topics.first).not_to_be_checked()
        page.get_by_label("leave out flawed responses").check()
        assert "topics=" not in page.url and "drop_flawed" in page.url
        page.go_back()
        page.go_back()
        page.go_back()
        headline(page, re.compile("in this example$"))


def test_without_a_network_the_old_ranking_says_so(browser: Any, address: str) -> None:
    with opened(browser, address) as page:
        page.route("**/api/v1/bank", lambda route: route.abort(), times=1)
        page.goto(address)
        headline(page, "No ranking")
        add(page, CONCISE)  # tries again
        expect(page.locator("#examples")).to_be_hidden()
        complete(page)
        page.context.set_offline(True)
        page.get_by_role("button", name=f"Like: {CONCISE}. Turn it round").click()
        headline(page, "This ranking is the one from before")
        view(page, "Share and keep")
        page.get_by_text("Not sure?").click()
        expect(page.locator("#picking")).to_contain_text("The server cannot be reached")
        page.context.set_offline(False)
        page.locator("#picking").get_by_role("button", name="Try again").click()
        expect(page.locator("#picking h2")).to_have_text("Which answer do you prefer? Pick 1")
        page.context.set_offline(True)
        page.locator("[data-choice=same]").click()
        expect(page.locator("#picking")).to_contain_text("The server cannot be reached")
        page.context.set_offline(False)
        page.locator("#picking").get_by_role("button", name="Start again").click()
        expect(page.locator("#picking h2")).to_have_text("Which answer do you prefer? Pick 1")
        page.locator("#picking").get_by_role("button", name="Leave").click()
        headline(page, re.compile("for you$|^Not enough signal"))
        assert names(page)[-1] == "maple-nano"
        page.wrong.clear()


def test_rankings_that_are_not_shown(browser: Any, address: str) -> None:
    with opened(browser, address) as page:
        add(page, CONCISE)
        page.get_by_text("Questions and models").click()
        page.get_by_label("Number of questions").fill("12")
        page.keyboard.press("Enter")
        headline(page, "No ranking")
        expect(page.locator("#because")).to_contain_text("Only 12 questions are chosen")
        assert not page.locator("#rows .row").count()
        expect(view(page, "By topic")).to_contain_text("Make a ranking first")
        page.reload()
        expect(page.locator("#filters-caption")).to_have_text("all; 12 questions")
        page.get_by_role("button", name="Show it anyway").click()
        assert page.locator("#rows .row").count() == 13
        expect(page.locator("#ranking")).to_be_focused()
        heads = view(page, "By topic").locator("thead th").all_inner_texts()[1:]
        assert len(heads) == 12 and all(head.endswith(" (1)") for head in heads), "of these 12 questions"
        assert page.locator(".heat td").count() == page.locator(".heat td.quiet").count() == 12 * 13
        page.get_by_text("Questions and models").click()
        page.get_by_label("Number of questions").fill("-3")
        page.keyboard.press("Enter")
        expect(page.locator("#mistake")).to_have_text(
            "Number of questions: a whole number from 0, which is all, to 48."
        )
        assert "queries=12" in page.url
        page.goto(f"{address}/?criteria=short+answers&topics=nope&under=7")  # what this bank lacks can be taken away
        expect(page.locator("#because")).to_contain_text("topics: 'nope' is not in the bank")
        page.get_by_text("Questions and models").click()
        expect(page.get_by_label("answers under")).to_have_value("7")
        page.get_by_label("nope (0)").uncheck()
        headline(page, "No model is left")
        page.get_by_label("answers under").select_option("")
        headline(page, re.compile("for you$"))


def test_the_general_ranking_stays_until_there_is_another(browser: Any, address: str) -> None:
    rows = [{"model": f"m{n}", "rank": n + 1, "win_rate": 0.9 - n / 50} for n in range(17)]
    published = {"published": {"title": "Votes of 2024", "rows": rows}, "baseline": "m3"}
    with opened(browser, address) as page:
        page.route("**/api/v1/bank", lambda route: route.fulfill(json=route.fetch().json() | published))
        page.goto(address)
        headline(page, "General ranking: m0 leads")
        page.route("**/api/v1/rank", lambda route: None, times=1)
        page.get_by_label("What you prefer in an answer").fill("lists")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Show all 17").click()
        expect(page.locator("#ranking")).to_be_focused()
        assert len(names(page)) == 17
        page.context.set_offline(True)
        page.get_by_role("button", name="Like: lists. Turn it round").click()
        headline(page, "This ranking is the one from before")
        page.route("**/api/v1/rank", lambda route: route.fulfill(json={"refusal": "Once more.", "leaderboard": []}))
        page.context.set_offline(False)
        expect(page.locator("#because")).to_have_text("Once more.")
        page.wrong.clear()


def ranked_as(board: list[dict[str, Any]]) -> Any:
    return lambda route: route.fulfill(json=route.fetch().json() | {"leaderboard": board})


def test_what_filters_leave_is_a_part(browser: Any, address: str) -> None:
    """Places are among all; who is the best of a part is tied with who is not clearly worse."""
    rows = [("a", 1, 1, ["b"]), ("b", 1, 2, ["a"]), ("c", 3, 4, ["d"]), ("d", 3, 4, ["c"]), ("e", 5, 5, [])]
    board = [
        {"model": model, "rank": at, "rank_low": low, "rank_high": high, "win_rate": 0.5, "low": None, "high": None}
        | {"may_be_first": low == 1, "tied_with": ties, "mean_words": 10 * at}
        for at, (model, low, high, ties) in enumerate(rows, start=1)
    ]
    facts = {model: {"open_weights": model in "cde", "usd_out": {"a": 2, "e": 9}.get(model)} for model, *_ in rows}
    by_picks = [{name: value for name, value in row.items() if name != "tied_with"} for row in board]
    with opened(browser, address) as page:
        change = {"models": list("abcde"), "baseline": "e", "facts": facts}
        page.route("**/api/v1/bank", lambda route: route.fulfill(json=route.fetch().json() | change))
        for shown in (board, by_picks):
            page.route("**/api/v1/rank", ranked_as(shown))
            page.goto(f"{address}/?criteria=short+answers&weights=0.04&open")
            expect(page.locator("#weigh-0")).to_have_text("×0.04")
            headline(page, "c and d are tied, best of the 3 shown, for you")
            assert page.locator("#rows .number:first-child").all_inner_texts() == ["3–4", "3–4", "5"]
            expect(page.locator("#because")).to_contain_text("c writes 30 words an answer, all models 30.")
            page.get_by_text("Questions and models").click()
            price = page.get_by_label("answers under")
            price.select_option("5")
            headline(page, "No model is left")
            why = "No model with open weights has a list price under $5, and 2 have none: choose a higher one, or “any"
            expect(page.locator("#because")).to_contain_text(why)
            price.select_option("20")
            headline(page, "e is the only one left, place 5 of 5 for you")
            expect(page.locator("#progress")).to_contain_text("1 of 5 models shown, 2 without a list price are not")
            file = view(page, "Share and keep").get_by_role("link", name="Ranking as CSV")
            expect(file).to_have_attribute("href", re.compile("criteria=short.*&models=e$"))


def test_topics_that_are_too_small_are_offered_together(browser: Any, tmp_path: Path) -> None:
    texts = {"base": "one two", "brief": "one", "wordy": "one two three four"}
    for sizes, offered in (
        ((22, 12, 10), ["large (22)", "small and no topic given (22)"]),
        ((30, 8, 6), ["large (30)"]),
    ):
        topics = [name for name, size in zip(("large", "small", "untagged"), sizes, strict=True) for _ in range(size)]
        folder = tmp_path / str(sizes[0])
        with (
            serve_ranker(counting_ranker(bank_of(texts, topics), folder), folder) as address,
            opened(browser, address) as page,
        ):
            add(page, "short answers")
            page.get_by_text("Questions and models").click()
            box = page.get_by_role("group", name="Only questions on")
            expect(box.locator("label")).to_have_text(offered)
            box.get_by_role("checkbox").last.check()
            headline(page, re.compile("for you$"))
            expect(page.locator("#filters-caption")).to_have_text(
                "small, no topic given" if len(offered) == 2 else "large"
            )


def test_flawed_responses_are_shown_and_left_out(browser: Any, tmp_path: Path) -> None:
    flawed = ("", "```\ncut", "```\ncut")
    texts = {"a": "a answers.", "b": "b answers." * 2, "c": lambda n: flawed[n] if n < 3 else "c answers." * 3}
    ranker = counting_ranker(bank_of(texts, ["all"] * 30, baseline="b"), tmp_path)
    with serve_ranker(ranker, tmp_path) as address, opened(browser, address) as page:
        add(page, "short answers")
        cell = page.get_by_title("3 of 30 responses flawed: ")
        expect(cell).to_have_text("10 %")
        assert cell.get_attribute("title") in [
            f"3 of 30 responses flawed: {kinds}" for kinds in ("1 empty and 2 cut off", "2 cut off and 1 empty")
        ]
        page.locator("#rows .row", has=cell).click()
        expect(page.get_by_role("region", name="Why c")).to_contain_text("3 of 30 responses flawed")
        page.get_by_text("Questions and models").click()
        page.get_by_label("leave out flawed responses").check()
        expect(page.locator("#progress")).to_contain_text("27 questions")
        expect(page.get_by_title("0 of 27 responses flawed")).to_have_count(3)
        assert page.url.endswith("&drop_flawed=true")
        page.reload()
        expect(page.locator("#progress")).to_contain_text("27 questions")
        expect(page.locator("#filters-caption")).to_have_text("all; without flawed responses")


SHIFTS = """() => { window.moved = 0; new PerformanceObserver((list) => { for (const one of list.getEntries())
    if (!one.hadRecentInput) window.moved += one.value; }).observe({ type: 'layout-shift', buffered: true }); }"""


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_moves_while_the_page_loads(browser: Any, address: str, width: int) -> None:
    with opened(browser, address) as page:
        page.set_viewport_size({"width": width, "height": 850})
        page.add_init_script(f"({SHIFTS})()")
        for link in ("", "?criteria=short+answers&criteria=candle"):
            page.goto(f"{address}/{link}")
            complete(page)
            page.wait_for_load_state("networkidle")
            assert page.evaluate("window.moved") < 0.02, "a good page has less than 0.1"


LONG = "a-long-name-" * 6
FACTS = {"maple-nano": {"display": LONG, "usd_out": 0.4, "open_weights": True}, "elm-turbo": {"usd_out": 9.0}}


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_view_is_accessible(browser: Any, address: str, width: int, scheme: str) -> None:
    """By axe, and by keyboard: a line, why, close, picking; nothing is wider than the window or a letter a line."""
    with opened(browser, address, color_scheme=scheme, bypass_csp=True) as page:
        press = page.keyboard.press
        page.set_viewport_size({"width": width, "height": 850})
        page.route("**/api/v1/bank", lambda route: route.fulfill(json=route.fetch().json() | {"facts": FACTS}))
        page.goto(f"{address}/?criteria=asdf+qwer&dislikes=lists")
        complete(page)
        page.get_by_label("What you prefer in an answer").focus()
        page.keyboard.type("concise")
        press("Enter")
        expect(page.locator(".chip")).to_have_count(3)
        complete(page)
        expect(page.get_by_label("What you prefer in an answer")).to_be_focused()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.get_by_role("region", name="Ranking", exact=True).bounding_box()["y"] <= 600
        expect(page.get_by_role("status").filter(has=page.locator("#headline"))).to_contain_text("by 2 of your 3")
        assert page.locator("#rows .narrow").first.is_visible() == (width == 390), "the price"
        expect(page.locator("#heads .own:not(.wide)")).to_have_css("display", "none")  # no general ranking, no column
        assert ("Flawed:" in page.locator("#legend").inner_text()) == (width == 1280)
        page.get_by_text("Questions and models").click()
        expect(page.get_by_label("Compared with").and_(page.locator("select"))).to_contain_text(LONG)
        for narrow in (320, 690, width):
            page.set_viewport_size({"width": narrow, "height": 850})
            assert page.evaluate("document.documentElement.scrollWidth") <= narrow
        page.locator("#rows .row").first.focus()
        press("Enter")
        page.locator(".why article").first.wait_for()
        expect(page.locator(".why .bar")).to_have_count(2)  # what is not understood adds nothing
        expect(page.locator("#rows .row").first).to_be_focused()
        assert page.locator(".why").bounding_box()["y"] < page.locator("#rows .row").nth(1).bounding_box()["y"]
        check(page, "why")
        for name in VIEWS:
            view(page, name)
            if name == "Compare":
                compare(page, "Likes detailed answers")
            assert page.locator("svg:not([aria-hidden=true]):not([aria-label])").count() == 0, name
            check(page, name)
            if name == "By topic":
                assert page.locator(".heat").bounding_box()["height"] < 1100
        page.locator("#rows .row").first.focus()
        press("Escape")
        expect(page.locator(".why")).to_have_count(0)
        page.get_by_role("button", name="Not sure? Pick between answers").focus()
        press("Enter")
        page.locator("#picking h2").wait_for()
        press("ArrowLeft")
        page.locator("#reasons button").first.wait_for()
        assert not page.locator("#wanted").is_visible(), "nothing else can be changed meanwhile"
        expect(page.locator("#reasons")).to_be_focused()
        press("ArrowRight")
        expect(page.locator("[data-choice=right]")).to_have_attribute("aria-pressed", "true")
        check(page, "picking")
        page.set_viewport_size({"width": 390, "height": 850})
        assert page.locator(".pair > div").nth(1).inner_text().startswith("The second\n"), "whose button it is"


def check(page: Any, where: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    assert found == [], (where, [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in found])


def test_picks_become_chips(browser: Any, address: str) -> None:
    with opened(browser, address) as page:
        page.evaluate("Math.random = () => 0.4")  # the seed of what is shown
        page.get_by_role("button", name="Not sure? Pick between answers").click()
        picking = page.locator("#picking")
        title = picking.get_by_role("heading")
        expect(title).to_have_text("Which answer do you prefer? Pick 1")
        assert not any(name in picking.inner_text() for name in ("maple-nano", "elm-turbo")), "anonymous"
        while (before := title.inner_text()).startswith("Which"):
            left, right = (len(text.inner_text().split()) for text in picking.locator(".answer").all())
            page.keyboard.press("ArrowDown" if abs(left - right) < 3 else "ArrowLeft" if left < right else "ArrowRight")
            if abs(left - right) >= 3:
                short = picking.get_by_role("button", name=CONCISE)
                (short if short.count() else picking.get_by_role("button", name="Nothing of these")).click()
            expect(title).not_to_have_text(before)
        expect(title).to_have_text("Your ranking is settled")
        expect(picking.locator("li").first).to_have_text(
            re.compile(rf"^{CONCISE}: counts \d(\.\d+)? times \(95 %: −?\d(\.\d+)? to \d(\.\d+)?\)")
        )
        page.route("**/picks/csv", lambda route: route.fulfill(status=422, json={"error": "bank: pick again"}))
        picking.get_by_role("button", name="Your picks as CSV").click()
        expect(picking).to_contain_text("bank: pick again")
        page.unroute("**/picks/csv")
        with page.expect_download() as download:
            picking.get_by_role("button", name="Your picks as CSV").click()
        picks = download.value.path().read_text("utf-8-sig")
        assert picks.startswith('"query","a","b","winner"')
        picking.get_by_role("button", name="Show my ranking").click()
        complete(page)
        expect(page.locator(".chip").last).to_contain_text("picks")
        picked = names(page)
        assert picked[0] == "maple-nano" and CONCISE in page.locator(".chip").first.inner_text()
        page.goto(page.url)
        complete(page)
        assert names(page) == picked, "the link holds the picks"
        page.get_by_role("button", name=f"Like: {CONCISE}. Turn it round").click()
        complete(page)
        assert "picks=" not in page.url and names(page)[-1] == "maple-nano"
        head, _, rows = picks.partition("\n")
        votes = f"{head}\n{3 * rows}".encode()  # what so few picks show may be chance
        page.locator("#votes").set_input_files({"name": "votes.csv", "mimeType": "text/csv", "buffer": votes})
        expect(picking.get_by_role("heading")).to_have_text(re.compile(r"^What your \d+ votes show$"))
        (tmp := picking.get_by_role("button", name="Rank by these")).click()
        complete(page)
        assert names(page)[0] == "maple-nano" and not tmp.is_visible()


def test_a_pick_counts_once_and_for_what_it_was_made_on(browser: Any, address: str) -> None:
    """Neither a double click, nor a late answer, nor Back, nor a reload changes it; its link gives the same ranking."""
    with opened(browser, address) as page:
        page.goto(f"{address}/?criteria=short+answers&weights=0.5")
        page.get_by_text("Questions and models").click()
        page.get_by_label("Number of questions").fill("30")
        page.keyboard.press("Enter")
        expect(page.locator("#progress")).to_contain_text("30 questions")
        page.get_by_role("button", name="Not sure? Pick between answers").click()
        title = page.locator("#picking h2")
        for number, place in enumerate(("[data-choice=same]", "#reasons button"), start=2):
            page.locator("[data-choice=left]").click()
            page.locator("#reasons button").first.wait_for()
            page.evaluate("(of) => { const one = document.querySelector(of); one.click(); one.click(); }", place)
            expect(title).to_have_text(f"Which answer do you prefer? Pick {number}")
            assert sum(url.endswith("/picks") for url in page.asked) == number, "one request a pick"
        page.route("**/api/v1/picks", lambda route: None, times=1)
        page.locator("[data-choice=same]").click()
        with page.expect_event("requestfailed"):
            page.locator("#picking").get_by_role("button", name="Leave").click()
        page.get_by_role("button", name="Not sure? Pick between answers").click()
        expect(title).to_have_text("Which answer do you prefer? Pick 4")
        page.go_back()
        expect(page.locator("#ranking")).to_be_visible()
        page.reload()
        page.go_forward()
        expect(title).to_have_text("Which answer do you prefer? Pick 4")
        page.reload()
        expect(title).to_have_text("Which answer do you prefer? Pick 4")
        page.get_by_role("button", name="Stop here and rank").click()
        expect(page.locator(".chip").last).to_contain_text("from 3 picks")
        expect(page.locator(".chip > .reply:first-child")).to_have_css("padding-left", "12.8px")  # a round corner
        complete(page)
        headline(page, re.compile("for you$|^Not enough signal"))
        expect(page.locator("#filters-caption")).to_have_text("all; 30 questions")
        rates = "#rows .row .number:not(.own)"
        before = page.locator(rates).all_inner_texts()
        page.reload()
        complete(page)
        assert page.locator(rates).all_inner_texts() == before


def test_keys_pick_only_between_answers(browser: Any, address: str) -> None:
    """Neither Alt+left, which goes back, nor a key that is held, nor one pressed over votes picks anything."""
    with opened(browser, address) as page:
        page.get_by_role("button", name="Not sure? Pick between answers").click()
        page.locator("#picking h2").wait_for()
        keys = "(of) => document.dispatchEvent(new KeyboardEvent('keydown', of))"
        for more in ({"altKey": True}, {"ctrlKey": True}, {"metaKey": True}, {"repeat": True}):
            page.evaluate(keys, {"key": "ArrowLeft", **more})
            assert not page.locator("#reasons button").count(), more
        page.locator("#picking").get_by_role("button", name="Leave").click()
        votes = {"name": "v.csv", "mimeType": "text/csv", "buffer": b"query,a,b\nx,y,z"}
        page.route("**/votes", lambda _: None)  # of many votes it takes minutes
        page.locator("#votes").set_input_files(votes)
        page.locator("#picking").get_by_role("button", name="Close").click()
        page.unroute("**/votes")
        page.locator("#votes").set_input_files(votes)
        expect(page.locator("#picking")).to_contain_text(
            "v.csv: its columns are query, a, b, which no format has (the file needs"
        )
        for key in ("ArrowDown", "ArrowLeft"):
            page.evaluate(keys, {"key": key})
        page.locator("#picking").get_by_role("button", name="Close").click()
        page.get_by_role("button", name="Not sure? Pick between answers").click()
        expect(page.locator("#picking h2")).to_have_text("Which answer do you prefer? Pick 1")


def test_markdown_is_shown_as_it_is_meant(browser: Any, address: str) -> None:
    text = "# Head\n\n1. **Bold** and *soft*\n- `x < 1` in 1998.\n\n```py\n  <b>a</b> = 2 * 3\n```\n[a](http://b) 2 * 3"
    with opened(browser, address) as page:
        made = page.evaluate(
            "text => import('./static/dom.js').then(({el, markdown}) => el('div', {}, ...markdown(text)).innerHTML)",
            text,
        )
    assert made == (
        '<p class="h5">Head</p><p class="li">1. <strong>Bold</strong> and <em>soft</em></p>'
        '<p class="li">• <code>x &lt; 1</code> in 1998.</p><pre>  &lt;b&gt;a&lt;/b&gt; = 2 * 3</pre>'
        "<p>[a](http://b) 2 * 3</p>"
    )


TEXTS = (
    "<img src=x onerror=window.hit=1>", "<svg onload=window.hit=1>", "<details open ontoggle=window.hit=1>",
    "<iframe onload=window.hit=1>", "<input autofocus onfocus=window.hit=1>", "<script>window.hit=1</script>",
    "<scr<script>ipt>window.hit=1</script>", "[x](javascript:window.hit=1)", '![x](x" onerror="window.hit=1)',
    '<a href="javascript:window.hit=1">x</a>', '<object data="javascript:window.hit=1">',
    "<math><mtext></form><form><mglyph><style></math><img src onerror=window.hit=1>",
    '<base href="javascript:window.hit=1//">', '<meta http-equiv=refresh content="0;url=javascript:window.hit=1">',
    "{{constructor.constructor('window.hit=1')()}}", "${window.hit=1}", "\u202e<script>window.hit=1</script>",
    '<svg><a xlink:href="javascript:window.hit=1"><text>x</text></a></svg>', "<img src=x:x onerror\n=window.hit=1>",
    '<noscript><p title="</noscript><img src=x onerror=window.hit=1>">',
)  # fmt: skip
STARTS = ("", "'\">", "</textarea>", "# ", "-->", "]]>")
HOSTILE = [start + text for start, text in zip(cycle(STARTS), TEXTS, strict=False)]


def test_no_text_is_ever_run(browser: Any, tmp_path: Path) -> None:
    """Names and facts of models, topics, queries, responses, criteria, links and the pool hold injections."""
    rows = tuple(BankQuery(f"q{n}", (Message("user", text),), text.strip()) for n, text in enumerate(HOSTILE))
    models = ["base", *HOSTILE[::2]]
    answers = {
        name: {q.id: HOSTILE[(7 * at + 13 * n) % len(HOSTILE)] + " word" * (at * n % 7) for n, q in enumerate(rows)}
        for at, name in enumerate(models)
    }
    facts = {name: {"display": f"{name} shown", "usd_out": at, "open_weights": True} for at, name in enumerate(models)}
    entries = [{"name": f"n{n}", "like": f"short {HOSTILE[n]}", "opposite": f"long {HOSTILE[n]}"} for n in (0, 5, 9)]
    (tmp_path / "pool.yaml").write_text(json.dumps(entries), "utf-8")
    lines = [" ".join(text.split()) for text in HOSTILE]
    own = [Criterion(f"c{at}", text, f"not {text}", text) for at, text in enumerate(f"short {line}" for line in lines)]
    own += [Criterion(each["name"], each["like"], each["opposite"], each["like"]) for each in entries]
    ranker = counting_ranker(Bank("hostile", "base", rows, answers), tmp_path, *own)
    served = serve_ranker(ranker, tmp_path, f"pool={tmp_path / 'pool.yaml'}")
    with served as address, opened(browser, address) as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        page.route("**/api/v1/bank", lambda route: route.fulfill(json=route.fetch().json() | {"facts": facts}))
        for start in (1, 11):
            given = [("criteria", f"short {text}") for text in lines[start : start + 8]] + [("dislikes", lines[0])]
            page.goto(f"{address}/?{urlencode(given)}")
            complete(page)
            assert page.locator("#rows .row").count() == len(models)
            add(page, f"{lines[start]} again")
            assert page.evaluate("window.hit") is None, start
        page.get_by_text("Questions and models").click()
        for row in page.locator("#rows .row:not([disabled])").all()[:3]:
            row.click()
            page.locator(".why article").first.wait_for()
        for name in VIEWS:
            view(page, name)
            assert page.evaluate("window.hit") is None, name
        compare(page, "\n".join(f"short {text}" for text in lines))
        page.locator("#pick-open").click()
        for _ in range(3):
            title = page.locator("#picking h2").inner_text()
            page.locator("[data-choice=left]").click()
            page.locator("#reasons button").last.click()
            expect(page.locator("#picking h2")).not_to_have_text(title)
        assert page.evaluate("window.hit") is None
        markup = "() => { try { document.body.innerHTML = '<b>x</b>'; return '' } catch (error) { return error.name } }"
        assert page.evaluate(markup) == "TypeError", "trusted types would stop it too"
        page.wrong.clear()
