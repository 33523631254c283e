"""Picking over HTTP: stateless, the same as a session by hand."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from crm.page.picks import MOST_VOTES
from crm.page.profile import Profile
from crm.page.ranker import Ranker
from crm.picking.criteria import contrasts, read_pool
from crm.picking.posterior import weighted_criteria
from crm.picking.session import Pair, Pick, Session
from crm.schema import query_of
from tests.made_files import bank_of
from tests.page.conftest import client_of, small_bank
from tests.page.counting import counting_ranker
from tests.page.test_words import terse_ranker

POOL = read_pool()
NAMES = [entry.name for entry in POOL]


@pytest.fixture
def http(indexed: Ranker) -> TestClient:
    return client_of(indexed)


def ask(http: TestClient, picks: list[Any], profile: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    answer = http.post("/api/v1/picks", json={"profile": profile or {}, "picks": picks, "seed": 1} | more)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def shorter(pair: dict[str, Any]) -> str:
    """What somebody picks who likes short answers, and nothing else."""
    gap = len(pair["right_text"].split()) - len(pair["left_text"].split())
    return "same" if abs(gap) < 3 else "left" if gap > 0 else "right"


def picked(pair: dict[str, Any], choice: str) -> dict[str, Any]:
    offered = [] if choice == "same" else [reason["place"] for reason in pair["reasons"]]
    reason = NAMES.index("short") if NAMES.index("short") in offered else None
    own = {name: pair[name] for name in ("query", "left", "right", "random")}
    return own | {"choice": choice, "offered": offered, "reason": reason}


def course(http: TestClient, profile: dict[str, Any] | None = None, most: int = 25) -> tuple[list[Any], dict[str, Any]]:
    picks: list[Any] = []
    reply = ask(http, picks, profile)
    while not reply["ended"] and len(picks) < most:
        picks.append(picked(reply["next"], shorter(reply["next"])))
        reply = ask(http, picks, profile, bank=reply["bank"])
    return picks, reply


def test_who_picks_the_shorter_likes_short_answers(http: TestClient) -> None:
    """And the ranking is by words of answers, the fewest first."""
    picks, reply = course(http)
    assert 8 <= len(picks) <= 25 and reply["next"] is None
    assert (reply["criteria"][0]["text"], reply["criteria"][0]["kind"]) == ("Short answers", "like")
    plain = http.post("/api/v1/rank", json={"criteria": ["Short answers"]}).json()["leaderboard"]
    order = [row["model"] for row in reply["leaderboard"]]
    assert {row["model"] for row in plain[:3]} == set(order[:3]) and plain[-1]["model"] in order[-2:]
    for row in reply["leaderboard"]:
        assert row["rank_low"] <= row["rank"] <= row["rank_high"] and row["low"] <= row["win_rate"] <= row["high"]


def test_it_is_the_session_of_the_whole_bank(http: TestClient, indexed: Ranker) -> None:
    """Built here from scores that are asked for on their own."""
    picks, reply = course(http, most=6)
    scorer = indexed.scorer
    seen = contrasts(*(scorer.scores([getattr(entry, side) for entry in POOL]) for side in ("like", "opposite")))
    place = {query.id: row for row, query in enumerate(indexed.bank.queries)}
    order = [place[query.id] for query in indexed.select(Profile()).queries]
    seen = replace(seen, values=seen.values[order])
    own = tuple(
        Pick(Pair(p["query"], p["left"], p["right"], p["random"]), p["choice"], tuple(p["offered"]), p["reason"])
        for p in picks
    )
    baseline = indexed.bank.authors.index(indexed.bank.baseline)
    session = Session(seen, baseline, (0.0,) * len(POOL), own, 1)
    units = dict(
        zip([side for entry in POOL for side in (entry.like, entry.opposite)], seen.units.repeat(2), strict=True)
    )
    assert [one["weight"] for one in reply["criteria"]] == pytest.approx(
        [one.weight / units[one.text] for one in weighted_criteria(session.posterior, POOL)]
    )
    rates = {row["model"]: row["win_rate"] for row in reply["leaderboard"]}
    assert [rates[name] for name in indexed.bank.authors] == pytest.approx(session.ranking.mean.tolist())
    pair = session.next_pair()
    assert [reply["next"][side] for side in ("query", "left", "right")] == [pair.query, pair.left, pair.right]
    query = indexed.bank.queries[order[pair.query]]
    assert reply["next"]["left_text"] == indexed.bank.responses[indexed.bank.authors[pair.left]][query.id]


def test_what_was_typed_counts_before_any_pick(http: TestClient, indexed: Ranker) -> None:
    """A dislike of short answers ranks as a like of long ones; nothing is settled by that alone."""
    liked, disliked = (ask(http, [], {kind: ["Short answers"]}) for kind in ("criteria", "dislikes"))
    orders = [[row["model"] for row in reply["leaderboard"]] for reply in (liked, disliked)]
    assert np.corrcoef([orders[1].index(name) for name in orders[0]], range(13))[0, 1] < -0.9
    for reply, kind in ((liked, "like"), (disliked, "dislike")):
        assert [(one["text"], one["kind"]) for one in reply["criteria"]] == [("Short answers", kind)]
        assert not reply["ended"] and not reply["decided"]
    weighed = ask(http, [], {"criteria": ["Short answers", "Concrete examples"], "weights": [2.0, 0.5]})
    scores = indexed.scorer.scores(["Short answers", "Concrete examples"])
    units = contrasts(scores, -scores).units
    assert [one["weight"] for one in weighed["criteria"]] == pytest.approx([3.0, 0.75] / units, rel=1e-5)


def test_a_line_that_is_not_understood_is_no_like(http: TestClient) -> None:
    reply = ask(http, [], {"criteria": ["asdf qwer", "Short answers"], "dislikes": ["candle"]})
    assert [one["text"] for one in reply["criteria"]] == ["Short answers"]


@pytest.mark.parametrize(("typed", "most"), [({}, 25), ({"criteria": ["Short answers"]}, 0)])
def test_the_chips_of_picks_rank_as_the_picks(typed: dict[str, Any], most: int, http: TestClient) -> None:
    """So that a change of a chip, which drops the picks, changes nothing else."""
    _, reply = course(http, typed, most)
    profile = {
        "criteria": [one["text"] for one in reply["criteria"]],
        "weights": [one["weight"] for one in reply["criteria"]],
    }
    rates = {row["model"]: row["win_rate"] for row in http.post("/api/v1/rank", json=profile).json()["leaderboard"]}
    by_picks = {row["model"]: row["win_rate"] for row in reply["leaderboard"]}
    gaps = [rates[name] - rate for name, rate in by_picks.items()]
    assert np.abs(gaps).mean() < 0.015, "in size as in order: units of picks are not those of lines"


def test_picks_come_back_as_votes(http: TestClient, indexed: Ranker) -> None:
    """What is downloaded is read again, with the texts that were shown, and shows the same."""
    picks, reply = course(http)
    file = http.post("/api/v1/picks/csv", json={"profile": {}, "picks": picks, "seed": 1, "bank": reply["bank"]})
    rows = list(csv.DictReader(io.StringIO(file.content.decode("utf-8-sig"))))
    assert len(rows) == len(picks) and set(rows[0]) == {"query", "a", "b", "winner"}
    for row in rows:
        gap = len(row["b"].split()) - len(row["a"].split())
        assert row["winner"] == ("tie" if abs(gap) < 3 else "a" if gap > 0 else "b")
    shown = {text for own in indexed.bank.responses.values() for text in own.values()}
    assert {row[side] for row in rows for side in "ab"} <= shown and any("\n" in row["a"] + row["b"] for row in rows)
    more = rows + [row | {"query": f"again {row['query']}"} for row in rows]  # reasons are in no vote: it takes more
    found = http.post("/api/v1/votes", json={"file": "\n".join(map(json.dumps, more))}).json()
    assert found["votes"] == len(more) and found["criteria"][0]["text"] == "Short answers"
    assert found["agreement"]["agreed"] > 0.7 * found["agreement"]["asked"]
    whole = http.post("/api/v1/votes", json={"file": file.content.decode("utf-8-sig")}).json()
    assert whole["votes"] == len(picks)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("", "file: "),
        ("query,a,b\nx,y,z\n", "file: votes.csv: its columns are query, a, b, which"),
        ("query,a,b,winner\nx,y,z,maybe\n", "file: votes.csv:2: winner: 'maybe': not known (the file needs no columns"),
        ("id,query,a,b,winner\n1,x,y,z,a\n1,v,y,z,a\n", "'1' is already at votes.csv:2; ids must be unique (the"),
        ("query,a,b,winner,criteria\nx,y,z,a,w\n", "which response does its column criteria speak for? (the file"),
        ("query,a,b,winner\nx,y\n", "file: votes.csv:2: "),
        ("fruit,taste\napple,sour\n", "file: votes.csv: its columns are fruit, taste"),
        ('{"query": 1', "file: votes.jsonl"),
        ("query,a,b,winner\n" + "x,y,z,a\n" * (MOST_VOTES + 1), "expected 1 to 2,000 votes"),
        ("query,a,b,winner\n", "file: "),
        ("\x00\ud800", "file: "),
    ],
)
def test_votes_that_cannot_be_read_are_a_sentence(http: TestClient, file: str, message: str) -> None:
    answer = http.post(
        "/api/v1/votes", content=json.dumps({"file": file}), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 422 and message in answer.json()["error"], answer.text
    assert not any(word in answer.text for word in ("tmp/", "data."))


def test_noise_is_undecided_and_random_pairs_are_counted(http: TestClient) -> None:
    rng = np.random.default_rng(3)
    picks: list[Any] = []
    reply = ask(http, picks)
    while not reply["ended"]:
        picks.append(picked(reply["next"], str(rng.choice(["left", "right"]))) | {"reason": None})
        reply = ask(http, picks)
    assert len(picks) == 25 and not reply["decided"] and len(reply["undecided"]) > 1
    assert reply["agreement"]["asked"] == sum(pick["random"] for pick in picks)


def test_a_part_of_the_bank_has_its_own_places(http: TestClient, indexed: Ranker) -> None:
    reply = ask(http, [], {"topics": ["Puzzles & Logic"], "baseline": "elm-turbo"})
    texts = [query_of(query.prompt) for query in indexed.bank.queries if query.topic == "Puzzles & Logic"]
    assert reply["next"]["text"] in texts and reply["next"]["query"] < 4
    rate = next(row["win_rate"] for row in reply["leaderboard"] if row["model"] == "elm-turbo")
    assert rate == pytest.approx(0.5)


def test_a_ranking_by_picks_is_refused_as_any_other(http: TestClient) -> None:
    names = ("queries", "left_out", "failed", "refusal")
    for asked in ({"queries": 5}, {"topics": ["Puzzles & Logic"]}, {}):
        by_words = http.post("/api/v1/rank", json={"criteria": ["Short answers"], **asked}).json()
        by_picks = ask(http, [], asked)
        assert [by_picks[name] for name in names] == [by_words[name] for name in names]
        assert bool(by_picks["refusal"]) is bool(asked)


def test_a_response_that_lacks_a_score_has_not_lost(tmp_path: Path) -> None:
    """After "short sentences" the questions to which a model says nothing are left out, as in a ranking by words."""
    http, asked = client_of(terse_ranker(4, tmp_path / "c.parquet")), {"criteria": ["short sentences"]}
    reply = ask(http, [], asked)
    assert (reply["queries"], reply["left_out"], reply["failed"]) == (20, 4, 0)
    terse = next(row["win_rate"] for row in reply["leaderboard"] if row["model"] == "other")
    assert terse > 0.45, "of the other questions it has won half"
    answer = client_of(terse_ranker(24, tmp_path / "d.parquet")).post("/api/v1/picks", json={"profile": asked})
    assert answer.status_code == 422 and "cannot read one of your lines" not in answer.json()["error"]


PICK = {"query": 0, "left": 0, "right": 1, "choice": "left"}


@pytest.mark.parametrize(
    "given, message",
    [
        ({"picks": [PICK | {"right": 99}]}, "picks: number 1 is of an answer"),
        ({"picks": [PICK | {"choice": "up"}]}, r"picks\[0\].choice: expected 'left'"),
        ({"picks": [PICK | {"offered": [1, 2], "reason": 3}]}, "picks: number 1 is of an answer or a"),
        ({"picks": [PICK | {"offered": [12]}]}, "a criterion that is not"),
        ({"bank": "0123"}, "bank: these picks were made on other answers or models; pick again"),
        ({"more": 1}, "more: unknown field"),
        ({"profile": {"baseline": "gpt"}}, "baseline: 'gpt' has no responses in bank"),
    ],
)
def test_what_cannot_be_is_a_sentence(http: TestClient, given: dict[str, Any], message: str) -> None:
    answer = http.post("/api/v1/picks", json={"profile": {}} | given)
    assert answer.status_code == 422
    assert re.search(message, answer.json()["error"]), answer.json()


def test_a_small_bank_ends_when_all_was_shown(tmp_path: Path) -> None:
    """Of pairs at random, a first pick is predicted by nothing."""
    texts = {"base": lambda n: "one two three " * (1 + n % 4), "other": lambda n: "one two - a\n- b " * (1 + n % 3)}
    http = client_of(counting_ranker(bank_of(texts, ["all"] * 20), tmp_path))
    picks, reply = [], ask(http, [])
    while not reply["ended"]:
        random = {"choice": ("right", "left")[len(picks) % 2], "reason": None, "random": True}
        picks.append(picked(reply["next"], "left") | random)
        reply = ask(http, picks)
        assert len(picks) > 1 or reply["agreement"] == {"agreed": 0, "asked": 1}
    assert len(picks) in range(8, 21) and reply["next"] is None and not reply["decided"]


def test_answers_that_never_differ_are_a_sentence(tmp_path: Path) -> None:
    bank = small_bank()
    bank = replace(bank, responses={who: dict.fromkeys(texts, "the same") for who, texts in bank.responses.items()})
    answer = client_of(counting_ranker(bank, tmp_path)).post("/api/v1/picks", json={"profile": {}})
    why = "no two responses of this bank differ in any of its criteria"
    assert answer.status_code == 422 and why in answer.json()["error"]
