"""The estimator against enumeration, and `best_of_n.py` as a user meets it."""

import json
import shlex
from itertools import combinations, pairwise
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.init import normal_

from crm.config import compose
from crm.model.export import export_model
from crm.rewards.best_of_n import Candidates, best_of_k, expected, picks, reached, run_best_of_n, sizes
from crm.schema import Message, prompt_key
from tests.made_files import write_rows
from tests.test_docs import DOCS, example

NAN = float("nan")
POOLS = st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.5, NAN]), st.floats(-5, 5)), min_size=1, max_size=7)
CRITERIA = "criteria=[Prefers concise answers]"


def by_enumeration(scores: list[float], gold: list[float], k: int) -> float:
    """The mean over all subsets of k that were read; equals share the pick."""
    read = [place for place, score in enumerate(scores) if score == score]
    if k > len(read):
        return NAN
    found = []
    for subset in combinations(read, k):
        top = max(scores[place] for place in subset)
        found.append(np.mean([gold[place] for place in subset if scores[place] == top]))
    return float(np.mean(found))


@given(POOLS)
def test_the_estimator_equals_enumeration_with_ties_and_unread_responses(pool: list[tuple[float, float]]) -> None:
    scores, gold = (list(column) for column in zip(*pool, strict=True))
    ks = range(1, len(pool) + 1)
    found = expected(best_of_k(np.array([scores]), ks), np.array([gold]))[0]
    for k, value in zip(ks, found, strict=True):
        assert value == pytest.approx(by_enumeration(scores, gold, k), abs=1e-12, nan_ok=True)


def test_each_rank_has_the_weight_of_the_subsets_that_it_leads() -> None:
    picked = best_of_k(np.arange(128.0)[None], (1, 2, 64, 128))[0]
    for row, k in zip(picked, (1, 2, 64, 128), strict=True):
        assert row == pytest.approx([comb(place, k - 1) / comb(128, k) for place in range(128)], rel=1e-9)
    picked = best_of_k(np.array([[1.0, 2.0, 3.0]]), (1, 2, 3))
    assert np.isnan(expected(picked, np.array([[NAN, 1.0, 2.0]]))[0]).tolist() == [True, False, False]


def test_sizes_and_the_largest_k() -> None:
    assert (sizes(1), sizes(30)) == ((1,), (1, 2, 4, 8, 16, 30))
    known = np.zeros((20, 8))
    known[0, 2:] = NAN
    assert reached(known) == 8, "one query with few responses does not shorten the curve"
    known[1:4, 5:] = NAN
    assert reached(known) == 5


def run(tmp_path: Path, *overrides: str) -> pd.Series:
    """Means by picker and k."""
    config = compose("best_of_n", [*overrides, "progress=false"], tmp_path / "run")
    return run_best_of_n(config, show=False).set_index(["picked_by", "k"])["mean"]


def written(tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / "run" / "results.json").read_text(encoding="utf-8"))
    return found


def picked(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "run" / "picks.jsonl").read_text("utf-8").splitlines()]


def test_the_truth_picks_as_the_oracle_does(tmp_path: Path) -> None:
    means = run(tmp_path, "judge=oracle", CRITERIA, "bank.queries=6", "max_k=8")
    assert set(means["judge"].index) == {1, 2, 4, 8}
    assert means["judge"].to_list() == pytest.approx(means["oracle"].to_list())
    assert means["oracle", 8] > means["random", 8] == pytest.approx(means["random", 1])
    document = written(tmp_path)
    assert document["counts"]["queries"] == 6 and {"commit", "seed", "judge", "judge_digest"} <= set(document["run"])
    assert (tmp_path / "run" / "best_of_n.png").is_file() and (tmp_path / "run" / "best_of_n.md").is_file()
    rows = picked(tmp_path)
    assert [(row["id"], row["n"]) for row in rows[:6]] == [
        *((rows[0]["id"], n) for n in (1, 2, 4, 8)),
        *((rows[4]["id"], n) for n in (1, 2)),
    ]
    assert len(rows) == 6 * 4 and all(row["index"] < row["n"] for row in rows)
    assert rows[0]["author"] and all(one["reward"] <= more["reward"] for one, more in pairwise(rows[:4]))


@pytest.mark.parametrize("head", ["late", "pairwise_span"])
def test_any_head_is_a_judge(head: str, make_model: Any, tokenizer: Any, tmp_path: Path) -> None:
    model, trained = make_model(head), {"config": {"data": {"name": "trl"}}}
    normal_(model.score.weight, std=10) if head != "late" else None
    export_model(model, tokenizer, tmp_path / "model", {"max_length": 2048, "seed": 1, **trained})
    words = (*range(6), 3000)  # no picker gets the last one, which is too long for the model
    rows = [
        {"query": f"Q{n % 2}?", "response": "word " * n, "criteria": [f"c{n % 2}"], "gold": at}
        for at, n in enumerate(words)
    ]
    (tmp_path / "pool.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    means = run(tmp_path, f"checkpoint={tmp_path / 'model'}", f"candidates={tmp_path / 'pool.jsonl'}")
    assert set(means.index.levels[0]) == {"judge", "blind", "length", "random", "oracle"}
    assert (means["judge", 1], means["length", 3], means["oracle", 3]) == (2.5, 4.5, 4.5)
    assert written(tmp_path)["run"]["title"] == "the criteria of each query: gold of the file"


def test_picks_are_the_best_of_the_first_n_and_null_where_none_was_read() -> None:
    pool = [
        Candidates((Message("user", "Why?"),), ("a", "b", "c"), ("x",)),
        Candidates((Message("user", "Q"),), ("d", "e")),
    ]
    found = picks(pool, np.array([[1.0, 3.0, 3.0], [NAN, -1.0, NAN]]), (1, 2, 3))
    expected_picks = [(1, 0, "a"), (2, 1, "b"), (3, 1, "b"), (1, None, None), (2, 1, "e")]
    assert [(row["n"], row["index"], row["response"]) for row in found] == expected_picks
    own = {"id": prompt_key(pool[0].prompt), "criteria": ("x",), "n": 1}
    assert found[0] == own | {"index": 0, "response": "a", "author": None, "reward": 1.0}


def test_candidates_without_gold_have_no_oracle(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pool = write_rows(tmp_path / "pool.jsonl", [{"query": "Q?", "response": "word " * n} for n in (1, 2, 3)])
    assert "oracle" not in run(tmp_path, "judge=length", f"candidates={pool}").index.levels[0]
    assert "give candidates=<file> with a column gold" in caplog.text


def test_a_row_may_hold_a_list_of_responses(tmp_path: Path) -> None:
    rows = [{"query": "Q?", "answer": "word " * n, "gold": n} for n in (1, 2, 3)]
    listed = {"prompt": "Q?", "responses": [row["answer"] for row in rows], "gold": [1, 2, 3]}
    pools = [write_rows(tmp_path / f"{len(each)}.jsonl", each) for each in (rows, [listed])]
    one, other = (run(tmp_path, "judge=length", f"candidates={pool}") for pool in pools)
    pd.testing.assert_series_equal(one, other)
    wrong = write_rows(tmp_path / "wrong.jsonl", [listed | {"gold": [1]}])
    with pytest.raises(ValueError, match="gold: expected a number for each of 3 responses, got 1"):
        run(tmp_path, "judge=length", f"candidates={wrong}")


def test_gold_that_is_no_number_is_named(tmp_path: Path) -> None:
    pool = tmp_path / "pool.jsonl"
    pool.write_text('{"query": "Why?", "response": "So.", "gold": "high"}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"pool\.jsonl:1: gold: expected a valid number, .*got 'high'"):
        run(tmp_path, "judge=length", f"candidates={pool}")


def test_the_example_prints_what_the_page_shows(tmp_path: Path) -> None:
    page = DOCS["best_of_n.md"]
    words = shlex.split(example(page, "example: best of n"))
    assert words[:2] == ["python", "best_of_n.py"]
    run(tmp_path, *words[2:])
    table = (tmp_path / "run" / "best_of_n.md").read_text(encoding="utf-8")
    assert table.split("\n\n", 1)[1].strip() == example(page, "output: best of n")
