"""`best_of_n.py` as a user meets it: every pool and gold, files that resume, and mistakes in one sentence."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from torch.nn.init import normal_

from crm.cli import best_of_n
from crm.config import compose
from crm.model.export import export_model
from crm.rewards.best_of_n import run_best_of_n
from tests.repeating_endpoint import repeating_endpoint

WISH = "criteria=[Prefers concise answers]"
SMALL = ("candidates.queries=4", "candidates.n=6", "progress=false")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def model(make_model: Any, tokenizer: Any, tmp_path: Path) -> Any:
    def make(head: str) -> Path:
        made = make_model(head)
        normal_(made.score.weight, std=10) if head != "late" else None
        export_model(made, tokenizer, tmp_path / head / "model", {"max_length": 2048, "seed": 1}, "criteria_first")
        return tmp_path / head / "model"

    return make


def run(tmp_path: Path, *overrides: str) -> Any:
    return run_best_of_n(compose("best_of_n", overrides, tmp_path / "run"), show=False)


def written(tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / "run" / "results.json").read_text(encoding="utf-8"))
    return found


def mean(study: Any, picked_by: str, k: int, measure: str = "gold") -> float:
    rows = study.curves.set_index(["picked_by", "k", "measure"])["mean"]
    return float(rows[picked_by, k, measure])


def test_the_truth_picks_as_the_oracle_does_and_the_opposite_is_known(tmp_path: Path) -> None:
    study = run(tmp_path, "judge=oracle", WISH, *SMALL, "candidates.n=16", "max_k=8")
    assert study.ks == (1, 2, 4, 8)
    assert mean(study, "judge", 8) == mean(study, "oracle", 8) > mean(study, "random", 8) > mean(study, "opposite", 8)
    assert mean(study, "judge", 8, "regret") == 0
    run_of = written(tmp_path)["run"]
    assert (run_of["gold_unit"], run_of["criteria"]) == ("nats of the true user", "Prefers concise answers")
    assert {"commit", "seed", "judge", "judge_digest"} <= set(run_of)


@pytest.mark.parametrize("head", ["late", "scalar", "pairwise_span"])
def test_any_head_is_a_judge(head: str, model: Any, tmp_path: Path) -> None:
    study = run(tmp_path, f"checkpoint={model(head)}", WISH, *SMALL, "candidates.queries=2")
    assert {"judge", "blind", "opposite", "length", "random", "oracle"} <= set(study.curves["picked_by"])
    assert mean(study, "judge", 1) == pytest.approx(mean(study, "random", 6))
    joint = head == "pairwise_span"
    assert (study.cycles is not None) == joint and study.counts.get("pairs", 0) == (2 * 15 if joint else 0)


def test_the_pool_of_a_bank_is_measured_by_a_trait_with_its_wordings(tmp_path: Path) -> None:
    bank = ("candidates=bank", "bank.queries_per_topic=1", "gold=trait", "gold.trait=Length")
    study = run(tmp_path, "judge=length", *bank, "progress=false")
    assert mean(study, "judge", 13) == mean(study, "oracle", 13) and study.counts["responses"] == 12 * 13
    assert written(tmp_path)["run"]["gold_unit"] == "Length, counted"
    less = run(tmp_path, "judge=length", *bank, "gold.sign=-1", "progress=false")
    assert mean(less, "judge", 13) == -mean(study, "judge", 13)


def test_a_file_brings_its_users_and_gold(tmp_path: Path) -> None:
    rows = [
        {"query": f"Question {n % 2}?", "response": "word " * n, "criteria": ["ab"[n % 2]], "gold": float(n)}
        for n in range(8)
    ]
    (tmp_path / "pool.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    study = run(
        tmp_path, "judge=length", "candidates=file", "candidates.path=pool.jsonl", "first_k=true", "temperature=1"
    )
    assert mean(study, "judge", 4) == (6 + 7) / 2 and mean(study, "judge, first k", 2) == (2 + 3) / 2
    assert mean(study, "judge", 1) < mean(study, "judge, soft", 4) < mean(study, "judge", 4)
    assert written(tmp_path)["run"]["criteria"] == "2 users' own criteria"


def test_gold_of_another_judge(tmp_path: Path) -> None:
    study = run(tmp_path, "judge=oracle", WISH, *SMALL, "gold=judge", "gold.judge=length")
    assert mean(study, "length", 6) == mean(study, "oracle", 6) > mean(study, "judge", 6)


def test_what_personalized_rewardbench_reads_is_written(tmp_path: Path) -> None:
    rows = [
        {"id": str(n % 3), "query": f"Q{n % 3}?", "profile": "Post 1 (Category: x):\nI ask.", "sample_idx": n}
        | {"aspects": "brief", "generated_response": "word " * n}
        for n in range(7)
    ]
    (tmp_path / "Art_samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    words = ("candidates=personalized_rewardbench", "candidates.path=Art_samples.jsonl")
    study = run(tmp_path, "judge=length", *words)
    assert set(study.curves["measure"]) == {"reward", "words"}, "nobody knows gold"
    best = [json.loads(line) for line in (tmp_path / "run" / "Art_k2.jsonl").read_text("utf-8").splitlines()]
    assert [len(row["output"].split()) for row in best] == [3, 4, 5]


def test_samples_of_an_endpoint_are_kept_and_only_missing_ones_are_asked(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"query": "Why one?"}\n{"query": "Why two?"}\n', encoding="utf-8")
    asked_for = ("candidates=endpoint", "candidates.path=q.jsonl", "endpoint.model=m", "endpoint.temperature=1")
    settings = ("judge=length", "progress=false", *asked_for)
    with repeating_endpoint("two") as (address, asked):
        study = run(tmp_path, *settings, f"endpoint.base_url={address}", "candidates.n=3")
        assert study.counts["responses"] == 5 and asked == {"Why one?": 3, "Why two?": 3}
        again = run(tmp_path, *settings, f"endpoint.base_url={address}", "candidates.n=4")
        assert again.counts["responses"] == 8 and asked == {"Why one?": 4, "Why two?": 5}
        budget = (f"endpoint.base_url={address}", "seed=900", "endpoint.budget_calls=3", "endpoint.concurrency=1")
        assert run(tmp_path, *settings, *budget).counts["queries"] == 1, "the other has one response"
        assert asked["Why one?"] + asked["Why two?"] == 9 + 3, "one budget over all samples"


MISTAKES = [
    (
        ["criteria=[likes cats]", "judge=length"],
        "gold=oracle: oracle gives no number to any response under 'likes cats'",
    ),
    (["judge=length"], "gold=oracle: oracle gives no number to any response"),
    (["judge=length", "gold=column", WISH], "gold=column: no row has a number in the column gold"),
    (["judge=length", "gold=trait", "gold.trait=null"], "gold.trait=None: expected one of Length, Lists"),
    (["judge=length", "gold=judge"], "gold.checkpoint=None: expected a model for gold=judge"),
    (["judge=length", "candidates=file", "candidates.path=null"], "candidates.path=None: expected a file"),
    (
        ["judge=length", "candidates.path=x.jsonl"],
        "candidates.path='x.jsonl': expected null with candidates=simulation",
    ),
    (["judge=length", "devices=2"], "devices=2: expected 1"),
    (["judge=length", "opposite=['']"], "opposite=['']: expected no blank ones"),
    (["judge=length", "max_k=1"], "max_k=1: expected a number in [2, 4096]"),
    (["judge=length", "candidates=endpoint", "candidates.path=q"], "endpoint.base_url=None: expected a value"),
    (
        [
            "judge=length",
            "candidates=endpoint",
            "candidates.path=q",
            "endpoint.base_url=http://x/v1",
            "endpoint.model=m",
        ],
        "endpoint.temperature=0.0: expected a number above 0",
    ),
]


@pytest.mark.parametrize(("overrides", "said"), MISTAKES, ids=lambda value: str(value)[:60])
def test_a_mistake_is_one_sentence(overrides: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected|name another|knows") as refused:
        run(tmp_path, *overrides)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_the_command_ends_with_the_sentence_and_exit_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pool.jsonl").write_text('{"query": "Why?", "response": "So."}\n', encoding="utf-8")
    words = ["judge=length", "candidates=file", "candidates.path=pool.jsonl", f"hydra.run.dir={tmp_path / 'out'}"]
    monkeypatch.setattr(sys, "argv", ["best_of_n.py", *words])
    with pytest.raises(SystemExit) as ended:
        best_of_n()
    assert ended.value.code == 2
    assert "crm-best-of-n: candidates: none of 1 queries has 2 responses or more" in capsys.readouterr().err
