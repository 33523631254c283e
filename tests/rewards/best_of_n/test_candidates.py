"""Pools: of files row by row, of the simulation by seed, of banks; opposite wishes and countable gold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crm.criteria.trait_wordings import wording
from crm.judges.controls import LengthJudge
from crm.judges.oracle import OracleJudge, true_utility
from crm.leaderboard.bank.simulated import simulate_bank
from crm.rewards.best_of_n.candidates import Candidates, of_bank, read_file, read_prompts, simulated, table
from crm.rewards.best_of_n.gold import by_judge, by_trait, of_column, opposite_of, trait_named, wish_for
from crm.rewards.scoring import Rewards
from crm.votes.simulation.taste import pole_of
from tests.conftest import say

ROWS: list[dict[str, Any]] = [
    {"query": "Why?", "response": "So.", "criteria": "short; kind", "gold": 1.5},
    {"query": "why? ", "response": "Because it is so.", "criteria": ["short", "kind"], "gold": "2"},
    {"query": "Why?", "text": "Who knows?"},
    {"instruction": "How?", "output": "", "opposite": "long", "gold": None},
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_rows_of_one_query_and_one_user_belong_together(tmp_path: Path) -> None:
    found = read_file(write(tmp_path / "pool.jsonl", ROWS))
    assert found == [
        Candidates(say("user: Why?"), ("So.", "Because it is so."), ("short", "kind"), (), (1.5, 2.0)),
        Candidates(say("user: Why?"), ("Who knows?",)),
        Candidates(say("user: How?"), ("",), (), ("long",)),
    ]
    assert found[0].cluster == found[1].cluster != found[2].cluster
    gold = of_column(found)
    assert gold[0].tolist() == [1.5, 2.0] and np.isnan(gold[1:]).all() and gold.shape == (3, 2)
    assert len(read_prompts(tmp_path / "pool.jsonl")) == 2


def test_a_table_of_a_spreadsheet_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "pool.csv"
    path.write_text("query,response,gold\nWhy?,So.,1\nWhy?,Hm.,\n", encoding="utf-8")
    assert read_file(path) == [Candidates(say("user: Why?"), ("So.", "Hm."), gold=(1.0, None))]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"query": "Why?"}, "response or text or output: missing|text or output or response: missing"),
        ({"response": "So."}, "query or instruction or prompt: missing"),
        ({"query": " ", "response": "So."}, "query: blank"),
        ({"query": "Why?", "response": 3}, "response: expected text"),
        (
            {"query": "Why?", "response": "So.", "gold": "good"},
            "gold: expected a finite number, or nothing, got 'good'",
        ),
        ({"query": "Why?", "response": "So.", "gold": True}, "gold: expected a finite number"),
        ({"query": "Why?", "response": "So.", "gold": "inf"}, "gold: expected a finite number"),
        ({"query": "Why?", "response": "So.", "criteria": 3}, "criteria: expected a valid list"),
    ],
)
def test_a_bad_row_is_refused_by_file_line_and_field(row: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"pool\.jsonl:5: ({said})"):
        read_file(write(tmp_path / "pool.jsonl", [*ROWS, row]))


def test_an_instruction_and_its_input_are_one_prompt(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    rows = [
        {"instruction": "Name a rhyme.", "input": word, "output": f"{word} {n}", "text": f"Name a rhyme. {word} {n}"}
        for word in ("day", "night")
        for n in range(2)
    ]
    path = write(tmp_path / "pool.jsonl", [*rows, {"instruction": "Name a rhyme.", "input": "", "output": "May"}])
    assert read_file(path) == [
        Candidates(say("user: Name a rhyme.\n\nday"), ("day 0", "day 1")),
        Candidates(say("user: Name a rhyme.\n\nnight"), ("night 0", "night 1")),
        Candidates(say("user: Name a rhyme."), ("May",)),
    ]
    assert len(read_prompts(path)) == 3
    assert "pool.jsonl: columns that are not read: text (4 rows)" in caplog.text


@pytest.mark.parametrize(
    ("first", "second"),
    [({"opposite": ""}, {"opposite": "long"}), ({"opposite": ["long"]}, {}), ({"opposite": "a"}, {"opposite": "b"})],
)
def test_a_column_that_changes_within_a_query_is_refused_with_its_row(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any]
) -> None:
    rows = [{"query": "Why?", "text": str(n), "criteria": "short"} | own for n, own in enumerate((first, second))]
    with pytest.raises(ValueError, match=r"pool\.jsonl:6: opposite: .*, but line 5 has the same query and criteria"):
        read_file(write(tmp_path / "pool.jsonl", [*ROWS, *rows]))
    rows[1]["criteria"] = "another user"
    assert len(read_file(write(tmp_path / "pool.jsonl", rows))) == 2


def test_the_simulation_answers_as_often_as_asked_and_the_same_for_a_seed() -> None:
    one, again, other = (simulated(seed=seed, count=14, n=20) for seed in (1, 1, 2))
    assert one == again and one != other
    assert [own.prompt for own in one] == [own.prompt for own in other], "other responses to the same queries"
    assert len({own.cluster for own in one}) == 14 and {len(own.responses) for own in one} == {20}
    assert simulated(seed=1, count=14, n=5)[3].responses == one[3].responses[:5], "more samples keep those before"
    with pytest.raises(ValueError, match=r"candidates\.queries=99999: expected at most \d+"):
        simulated(seed=1, count=99_999, n=2)


def test_the_llms_of_a_bank_are_the_pool() -> None:
    bank = simulate_bank(seed=1, queries_per_topic=1).bank
    found = of_bank(bank)
    assert len(found) == 12 and all(len(own.responses) == len(bank.authors) for own in found)
    assert found[2].responses[1] == bank.responses[bank.authors[1]][bank.queries[2].id]


def test_opposites_are_the_other_pole_of_the_same_kind_of_wording() -> None:
    for text in ("Prefers concise answers", "Wants thorough and detailed explanations"):
        (found,) = opposite_of([text])
        (axis, sign), (other, turned) = pole_of(text), pole_of(found)  # type: ignore[misc]
        assert (axis, sign) == (other, -turned)
    assert opposite_of(["Prefers concise answers", "likes cats"]) == () == opposite_of([])
    assert wish_for("Length", 1) in wording("Length", 1).unseen and wish_for("Length", -1) != wish_for("Length", 1)


def test_gold_is_what_the_simulation_the_counts_and_another_judge_say() -> None:
    wish = ("Prefers concise answers",)
    pool = [Candidates(own.prompt, own.responses, wish) for own in simulated(seed=3, count=3, n=9)]
    truth = by_judge(Rewards(OracleJudge()), pool)
    assert truth[1].tolist() == [true_utility(wish, say(f"assistant: {text}")) for text in pool[1].responses]
    trait = trait_named("Length")
    counted = by_trait(pool, trait, -1)
    assert counted[2, 4] == -trait.measure(pool[2].responses[4]) / trait.threshold
    by_length = by_judge(Rewards(LengthJudge()), pool)
    assert (np.argsort(by_length[0], kind="stable") == np.argsort(-counted[0], kind="stable")).all()


def test_a_judge_that_only_compares_measures_many_against_the_first() -> None:
    class Compares(LengthJudge):
        pointwise = False

    pool = simulated(seed=3, count=1, n=9)
    scores = by_judge(Rewards(LengthJudge()), pool)
    assert by_judge(Rewards(Compares()), pool) == pytest.approx(scores - scores[:, [0]])


def test_shorter_rows_are_filled_with_what_is_not_known() -> None:
    assert np.array_equal(table([[1.0, None], [2.0]], 3), [[1, np.nan, np.nan], [2, np.nan, np.nan]], equal_nan=True)
