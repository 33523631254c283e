"""Published banks: what their files hold comes back, what is left out is counted; smaller banks are drawn evenly."""

from __future__ import annotations

import logging
import os
from collections import Counter
from pathlib import Path

import pytest

from crm.config import compose
from crm.data.public.banks import FOLDERS, UNTAGGED
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.leaderboard.bank.opening import BASELINES, read_public_bank, smaller_bank
from crm.leaderboard.config import BankConfig
from crm.leaderboard.run import open_bank
from crm.schema import Message, query_of
from tests.made_files import write_banks

ROOT = Path(os.environ.get("CRM_DATA_ROOT", Path(__file__).parents[4] / "shared" / "data"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    asked = {"gpt4_1106_preview.json.gz": ["Why?", "Who?", "When?"], "llama-2.1.json": ["Who?", "Why?", "why?  "]}
    write_banks(tmp_path, justeval=("gpt-3.5-turbo-0301", "other"), alpacaeval=asked)
    return tmp_path


def test_justeval_has_the_first_topic_and_the_first_answer_of_each_query(root: Path) -> None:
    bank = read_public_bank("justeval", str(root))
    assert {query_of(query.prompt): query.topic for query in bank.queries} == {
        "Why?": "stem",
        "How?": "lifestyle",
        "Where?": UNTAGGED,
    }
    answers = {query_of(query.prompt): bank.responses["other"][query.id] for query in bank.queries}
    assert answers == {"Why?": "other 0", "How?": "other 1", "Where?": "other 3"}
    assert bank.baseline == "gpt-3.5-turbo-0301" and bank.authors == ("gpt-3.5-turbo-0301", "other")


def test_alpacaeval_has_what_all_models_answered(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        bank = read_public_bank("alpacaeval", str(root))
    assert sorted((query_of(query.prompt), query.topic) for query in bank.queries) == [
        ("Who?", UNTAGGED),
        ("Why?", "stem"),
    ]
    assert bank.authors == ("gpt4_1106_preview", "llama-2.1")
    assert "2 queries, left out: {'not_answered_by_all': 2, 'equal_queries': 0}" in caplog.text


def bank_of(topics: str) -> Bank:
    queries = tuple(
        BankQuery(f"q{n:02d}", (Message("user", f"question {n}"),), topic) for n, topic in enumerate(topics)
    )
    return Bank("b", "x", queries, {who: {q.id: "one two three four" for q in queries} for who in ("x", "y")})


def test_a_smaller_bank_takes_topics_in_turns_and_keeps_the_order(root: Path) -> None:
    bank = bank_of("aaaaaaaaaabbbc")
    drawn = smaller_bank(bank, BankConfig(queries=7, seed=3))
    assert Counter(query.topic for query in drawn.queries) == {"a": 3, "b": 3, "c": 1}
    assert [query.id for query in drawn.queries] == sorted(query.id for query in drawn.queries)
    assert drawn == smaller_bank(bank, BankConfig(queries=7, seed=3))
    assert len({smaller_bank(bank, BankConfig(queries=7, seed=seed)).queries for seed in range(6)}) > 1
    assert smaller_bank(bank, BankConfig(queries=99)) == smaller_bank(bank, BankConfig()) == bank
    assert smaller_bank(bank, BankConfig(max_words=2)).responses["y"]["q00"] == "one two ..."
    unwanted = BankConfig(without=["justeval"], root=str(root))
    with pytest.raises(ValueError, match="all queries of bank 'justeval' are left out"):
        smaller_bank(read_public_bank("justeval", str(root)), unwanted)


def test_the_settings_of_leaderboard_choose_and_shrink_a_bank(root: Path) -> None:
    words = ["checkpoint=x", "bank=justeval", f"bank.root='{root}'", "bank.without=[alpacaeval]", "bank.max_words=1"]
    bank = open_bank(compose("leaderboard", words, root).bank)
    assert sorted(query_of(query.prompt) for query in bank.queries) == ["How?", "Where?"]
    assert set(bank.responses["other"].values()) == {"other ..."}
    assert len(open_bank(compose("leaderboard", [*words, "bank.queries=1"], root).bank).queries) == 1


@pytest.mark.parametrize(
    ("name", "queries", "authors", "tagged"), [("alpacaeval", 804, 30, 442), ("justeval", 781, 13, 781)]
)
def test_the_published_files(name: str, queries: int, authors: int, tagged: int) -> None:
    """The sizes that the sets' authors give; 19 of just-eval's 800 rows repeat a query."""
    if not (ROOT / FOLDERS[name]).is_dir():
        pytest.skip(f"no {FOLDERS[name]} under {ROOT}; set CRM_DATA_ROOT")
    bank = read_public_bank(name, str(ROOT))
    assert (len(bank.queries), len(bank.authors)) == (queries, authors)
    assert sum(query.topic != UNTAGGED for query in bank.queries) == tagged
    assert bank.baseline == BASELINES[name]
