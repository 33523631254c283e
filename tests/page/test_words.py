"""The page by own words: what a line was read as, what was not understood, presets, and whose "most people" are."""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect

from crm.criteria.counting import MEASURES
from crm.io.words import count_words
from crm.judges.config import JudgeConfig
from crm.judges.sentence_reader import bundled_reader
from crm.leaderboard.bank.opening import PublishedRanking
from crm.leaderboard.config import BankConfig
from crm.leaderboard.matrix import Column, CriteriaMatrix
from crm.leaderboard.own_words import OwnWords, pool
from crm.page import run
from crm.page.ranker import Ranker
from crm.page.scorers import WordsScorer
from crm.picking.criteria import read_pool
from crm.schema import Message
from tests.leaderboard.test_own_words import made_bank
from tests.made_files import bank_of
from tests.page.conftest import add, client_of, complete, names, opened, serve_ranker

PUBLISHED = PublishedRanking("a class's of 2024", {"short": 0.7, "lister": 0.5, "long": 0.5}, {"long": "The Long One"})
MANY = (
    "short, no emoji, examples, numbers, sources, polite, headings, no tables, code, humor, simple words, no jargon, "
    "no hedging, summaries, questions, quotes, links, bold text, vivid, cautious, no slang, no jokes, steps"
)
"""More clauses than a profile has lines."""


@pytest.fixture(scope="module")
def ranker(tmp_path_factory: pytest.TempPathFactory) -> Ranker:
    matrix = CriteriaMatrix(made_bank(), tmp_path_factory.mktemp("matrix") / "criteria.parquet")
    matrix.count(list(MEASURES))
    return Ranker(WordsScorer(OwnWords(bundled_reader(), matrix)))


def test_the_answer_says_what_every_line_was_read_as(ranker: Ranker) -> None:
    client = client_of(ranker, published=PUBLISHED)
    asked = {"criteria": ["short answers, no lists", "candle"], "dislikes": ["examples"]}
    reply = client.post("/api/v1/rank", json=asked).json()
    assert [(each["line"], each["meaning"], each["why"]) for each in reply["understood"]] == [
        ("short answers, no lists", "shorter answers", ""),
        ("short answers, no lists", "prose instead of lists", ""),
        ("candle", "", "not understood"),
        ("examples", "no examples", ""),
    ]
    assert reply["not_understood"] == ["candle"] and reply["refusal"] == ""
    assert reply["leaderboard"][0]["model"] == "short"
    table = pd.read_csv(io.BytesIO(client.get("/api/v1/export/csv", params=asked | {"weights": [2, 1, 1]}).content))
    assert set(table["criteria"]) == {
        "2 x short answers (shorter answers); 2 x no lists (prose instead of lists); 0 x candle (not understood); "
        "1 x examples (no examples)"
    }
    given = {"profile": {"criteria": ["no lists, short answers", "numbers", "candle"]}, "model": "short"}
    for duel in client.post("/api/v1/why", json=given).json()["duels"]:
        own, other = duel["response"], duel["baseline_response"]
        assert duel["counts"] == {
            "Lists": pytest.approx([0, other.count("- point")]),
            "Figures in 100 words": pytest.approx([len(re.findall(r"\d+", text)) for text in (own, other)]),
            "Length": pytest.approx([count_words(own), count_words(other)]),
        }
    assert client.get("/api/v1/bank").json()["published"] == {
        "title": "a class's of 2024",
        "rows": [
            {"model": "short", "rank": 1, "win_rate": 0.7},
            {"model": "lister", "rank": 2, "win_rate": 0.5},
            {"model": "long", "rank": 2, "win_rate": 0.5},
        ],
    }


def terse_ranker(terse: int, file: Path) -> Ranker:
    """One of the models answers so many of 24 questions with nothing, of which no sentence length can be counted."""
    words = "it is an answer of so many words, and one more. "
    texts = {"base": words * 2, "other": lambda n: "" if n < terse else words * (1 + n % 3), "long": words[:-2] + words}
    matrix = CriteriaMatrix(bank_of(texts, ["all"] * 24), file)
    return Ranker(WordsScorer(OwnWords(bundled_reader(), matrix)))


def test_questions_without_a_score_of_every_model_are_not_counted(tmp_path: Path) -> None:
    for terse, refusal in ((4, ""), (5, "Only 19 of 24 questions have a score of every model, and a ranking needs 20")):
        client = client_of(terse_ranker(terse, tmp_path / f"{terse}.parquet"))
        reply = client.post("/api/v1/rank", json={"criteria": ["short sentences"]}).json()
        assert (reply["queries"], reply["left_out"]) == (24 - terse, terse)
        assert {(row["n"], row["flawed"]) for row in reply["leaderboard"]} == {(24 - terse, 0)}
        assert reply["refusal"].split(":")[0] == refusal
    assert client.post("/api/v1/rank", json={"criteria": ["short answers"]}).json()["queries"] == 24


def test_opposite_lines_are_not_called_unreadable(ranker: Ranker) -> None:
    client = client_of(ranker)
    for asked in (
        {"criteria": ["short answers", "long answers", "candle"]},
        {"criteria": ["short answers"], "dislikes": ["shorter answers"]},
    ):
        reply = client.post("/api/v1/rank", json=asked).json()
        assert reply["refusal"].startswith("Your lines ask for a thing and its opposite") and not reply["leaderboard"]


def test_examples_the_pool_of_picks_and_proposals_are_understood(ranker: Ranker) -> None:
    """A proposal that is clicked is read as itself."""
    scorer: Any = ranker.scorer
    lines = [*scorer.examples, *(side for entry in read_pool() for side in (entry.like, entry.opposite))]
    assert scorer.not_understood(lines) == () and len(lines) > 28
    assert not [each for each in scorer.understood(scorer.examples) if each.why]
    for entry in read_pool():
        like, opposite = scorer.words.weights([entry.like]), scorer.words.weights([entry.opposite])
        assert like.keys() == opposite.keys() and all(like[name] * opposite[name] < 0 for name in like), entry.name
    for each in scorer.understood(["vibes", "good flow"]):
        assert each.nearest
    like, turned = (scorer.understood(["no waffle"], [by])[0] for by in (1.0, -1.0))
    assert (like.meaning, turned.meaning) == ("shorter answers", "longer answers")
    assert like.nearest == turned.nearest and turned.nearest[0] == "longer answers", "what it is read as is no other"
    for entry in pool().values():
        for meaning in (entry.more, entry.less):
            (again,) = scorer.words.understood([meaning])
            assert again.meaning == meaning


def test_votes_are_scored_as_the_bank_is(ranker: Ranker) -> None:
    scorer: Any = ranker.scorer
    lines, bank = ["short answers", "no lists", "candle"], ranker.bank
    texts = [
        (query.prompt, (Message("assistant", bank.responses[name][query.id]),))
        for query in bank.queries
        for name in bank.authors
    ]
    assert scorer.score_texts(lines, texts) == pytest.approx(scorer.scores(lines).reshape(3, -1), abs=1e-4)


def test_the_command_counts_before_it_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made_bank().save(tmp_path / "bank")
    bank = BankConfig("folder", path=str(tmp_path / "bank"))
    config = run.AppConfig(judge=JudgeConfig(name="traits"), bank=bank, progress=False)
    made, name = run.make_ranker(config)
    assert name == "counting what your words ask for" and (tmp_path / "bank/criteria.parquet").is_file()
    assert isinstance(made.scorer, WordsScorer)


@pytest.fixture(scope="module")
def address(ranker: Ranker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve_ranker(ranker, tmp_path_factory.mktemp("served")) as address:
        yield address


@pytest.mark.slow
def test_a_person_types_and_sees_what_was_read(browser: Any, address: str) -> None:
    with opened(browser, address) as page:
        expect(page.locator("#headline")).to_contain_text("in this example")
        add(page, "no lists, please be brief")
        chips = page.locator(".chip")
        expect(chips).to_have_count(2)  # a chip for each clause
        expect(chips.first).to_contain_text("read as: prose instead of lists (")
        assert names(page)[-1] == "lister"
        expect(page.locator("#legend")).to_contain_text("Win rate against lister: 50 % has as much of what you ask for")
        expect(page.locator("#legend")).to_contain_text("not measured on people’s votes")
        page.locator("#rows .row").first.click()
        expect(page.locator(".why")).to_contain_text("2.2 on every question is a win rate of 90 %")
        page.get_by_role("button", name="Take away: please be brief").click()
        add(page, "vibes")
        expect(chips.nth(1)).to_contain_text("does not count: not understood")
        proposal = chips.nth(1).locator("details button").first
        meaning = proposal.inner_text()
        proposal.click()
        expect(chips.nth(1)).to_contain_text(f"read as: {meaning} (")
        add(page, "vibes")
        expect(chips.nth(2)).to_contain_text("does not count: not understood")
        offered = chips.nth(2).locator("details button").all_inner_texts()
        assert meaning not in offered, "it is there already"
        chips.nth(2).get_by_role("button", name="Take away").click()
        chips.nth(1).get_by_role("button", name="Take away").click()
        page.get_by_role("button", name="Like: no lists. Turn it round").click()
        expect(chips.first).to_contain_text("read as: bullet points (")
        expect(page.locator("#rows .row").first).to_contain_text("lister")
        add(page, MANY)
        expect(chips.nth(1)).to_contain_text("; read as: ")
        expect(page.locator("#ranking.old")).to_have_count(0)
        expect(chips).to_have_count(2)
        page.goto(f"{address}/?criteria=I+hate+lists+and+headings,+above+all+be+brief")
        expect(page.get_by_role("button", name="Dislike: headings. Turn it round")).to_be_visible()
        expect(page.get_by_role("button", name="above all be brief counts 2 times.")).to_have_text("×2")
        assert page.url.endswith("?criteria=I+hate+lists&dislikes=headings&criteria=above+all+be+brief"), page.url


@pytest.mark.slow
def test_scores_that_are_not_counted_have_their_source(browser: Any, tmp_path: Path) -> None:
    matrix = CriteriaMatrix(made_bank(), tmp_path / "criteria.parquet")
    matrix.add([Column("Humour", "llm fake")], np.tile([3.0, 1.0, 2.0], 24))
    matrix.add([Column("Empathy", "people")], np.tile([3.0, 1.0, np.nan], 24))
    scored = Ranker(WordsScorer(OwnWords(bundled_reader(), matrix)))
    with serve_ranker(scored, tmp_path) as address, opened(browser, address) as page:
        add(page, "funny answers")
        expect(page.locator(".chip").last).to_contain_text(re.compile(r"read as: .* \(.*\), by llm fake"))
        expect(page.locator("#progress")).to_contain_text("Scores by llm fake count in your ranking.")
        assert "not truth" not in page.locator("#progress").inner_text()
        add(page, "warm and empathetic")
        chip = expect(page.locator(".chip.lost"))
        chip.to_contain_text(
            " is scored for 2 of 3 models, by people; missing: short; to score it: python bank.py score bank="
        )
        assert ", by llm fake)" in page.request.get(f"{address}/api/v1/export/csv?criteria=funny+answers").text()


@pytest.mark.slow
def test_the_published_ranking_comes_first_and_stands_beside_ones_own(browser: Any, address: str) -> None:
    published = {
        "title": "a class's of 2024",
        "rows": [{"model": n, "rank": k + 1, "win_rate": r} for k, (n, r) in enumerate(PUBLISHED.rates.items())],
    }
    facts = {"lister": {"display": "The Lister", "maker": "A Lab", "released": "2024-05", "usd_out": 2}}
    with opened(browser, address) as page:
        page.route(
            "**/api/v1/bank",
            lambda route: route.fulfill(json=route.fetch().json() | {"published": published, "facts": facts}),
        )
        page.asked.clear()
        page.goto(address)
        complete(page)
        page.wait_for_load_state("networkidle")
        assert len(page.asked) <= 10 and not any("/api/v1/rank" in url for url in page.asked), page.asked
        expect(page.locator("#headline")).to_have_text("General ranking: short leads")
        expect(page.locator("#because")).to_contain_text("It is a class's of 2024")
        expect(page.locator("#progress")).to_contain_text(
            "3 models of 2024, 24 questions. Your ranking counts form and style"
        )
        assert names(page) == ["short", "The Lister", "long"]
        page.get_by_role("button", name="step by step, with examples").click()
        expect(page.locator(".chip")).to_have_count(2)
        page.get_by_role("button", name="Take away").first.click()
        add(page, "bullet points")
        page.get_by_role("button", name="Take away").first.click()
        expect(page.locator("#headline")).to_have_text("The Lister leads for you")
        expect(page.locator("#because")).to_contain_text(
            "It is ahead of short, the general first, mostly by “bullet points”."
        )
        add(page, "short answers", "long answers")
        expect(page.locator("#because")).to_contain_text(
            "“short answers” and “long answers” cancel each other. It is ahead of short, the general first, mostly by “"
        )
        page.get_by_role("button", name="Take away: long answers").click()
        expect(page.locator("#because")).to_contain_text("“shorter answers”. It is behind in “bullet points”.")
        page.get_by_role("button", name="Take away: short answers").click()
        expect(page.locator(".chip")).to_have_count(1)
        expect(page.locator("#rows .row").first).to_have_attribute(
            "aria-label", re.compile("^1. The Lister, .*in general 2")
        )
        page.locator("#rows .row", has_text="short").click()
        page.locator(".why article").first.wait_for()
        page.get_by_text("Questions and models").click()
        page.get_by_role("combobox", name="Compared with").select_option("short")
        expect(page.locator("#legend")).to_contain_text("Win rate against short")
        expect(page.locator(".why")).to_have_count(0)  # the baseline has no comparison with itself
        page.locator("#rows .row", has_text="long").click()
        page.locator(".why article").first.wait_for()
        page.get_by_role("button", name="Take away").click()
        expect(page.locator("#headline")).to_have_text("General ranking: short leads")
        expect(page.locator("#because")).to_contain_text("your questions and baseline count only there")
        expect(page.locator("#legend")).to_contain_text("Win rate against The Lister.")
        expect(page.locator("#rows .row", has_text="baseline")).to_contain_text("The Lister")
        expect(page.locator(".why")).to_have_count(0)
