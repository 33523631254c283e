"""``evaluate.py suite=<benchmark>`` from the command line: what is written, what is gone on with, what is refused."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from huggingface_hub import ModelCard

from crm.benchmarks import judging
from crm.benchmarks.catalogue import BENCHMARKS
from crm.benchmarks.protocols import Item
from crm.io.processes import ALONE
from crm.judges.judge import Reading
from crm.judges.open import OpenedJudge
from crm.model.export import export_model
from tests.benchmarks.test_catalogue import ROWS
from tests.conftest import say
from tests.made_files import write_rows as write


@pytest.fixture
def root(tmp_path) -> Path:
    """Three benchmarks of two rows each: one with criteria, one of best of four, one with users."""
    pair = ROWS["judge_bench"][0]
    write(tmp_path / "data/judgebench/rows.jsonl", [pair, pair | {"pair_id": "p2", "question": "How?", "label": "A>B"}])
    subsets = [ROWS["reward_bench_2"][0] | {"subset": name} for name in ("Factuality", "Focus", "Precise IF", "Safety")]
    write(tmp_path / "data/reward_bench_2/rows.jsonl", [*ROWS["reward_bench_2"], *subsets])
    rubric = ROWS["rubric_bench"][0]
    write(tmp_path / "data/rubricbench/rows.jsonl", [rubric, rubric | {"case_id": "c2", "rubrics": "- Is long"}])
    (vote,) = ROWS["prism"]
    votes = [vote | {"id": f"{n}", "chosen": "word " * (n + 2), "split": "train"} for n in range(6)]
    write(tmp_path / "data/prism_personalized/rows.jsonl", [*votes, vote | {"id": "asked"}])
    return tmp_path / "data"


@pytest.fixture
def export(make_model, tokenizer, tmp_path):
    def folder(head: str, seed: int = 0) -> Path:
        path = tmp_path / f"{head}{seed}"
        export_model(make_model(head, seed=seed), tokenizer, path, {"seed": 1, "max_length": 256})
        return path

    return folder


def evaluate(command, root: Path, *words: str) -> Path:
    code, _, errors = command("evaluate", f"data.root={root}", "hydra.run.dir=run", *words)
    assert code == 0, errors
    return root.parent / "run"


def test_everything_that_is_there_is_on_one_card(command, root, export):
    folder = export("scalar")
    out = evaluate(command, root, f"checkpoint={folder}", "suite=public")
    card = (out / "benchmarks.md").read_text(encoding="utf-8")
    for title in ("RewardBench 2", "RubricBench", "JudgeBench", "PersonalRewardBench (PRISM)"):
        assert f"## {title}" in card
    assert "RM-Bench is left out" in (out / "evaluate.log").read_text(encoding="utf-8")
    table = pd.read_csv(out / "rubric_bench.csv", skiprows=1)
    assert table["criteria"].tolist()[:3] == ["those of each row", "none", "another row's"]
    assert set(table["judge"]) >= {"coin", "longest", "shortest", "first", "SVR"}
    assert "own criteria less another row's" in card and "reads nothing" in card
    data = ModelCard.load(folder / "README.md").data
    assert {result.dataset_name for result in data.eval_results} >= {"RewardBench 2", "RubricBench"}
    assert data.model_name == "scalar0", "a path of this machine is not published"
    assert {result.metric_name.partition("; n = ")[2] for result in data.eval_results} == {"1", "2", "6"}


def test_a_model_card_keeps_what_other_runs_found(command, root, export):
    folder = export("scalar")

    def listed(*words: str) -> dict[str, float]:
        evaluate(command, root, f"checkpoint={folder}", *words)
        return {row.dataset_type: row.metric_value for row in ModelCard.load(folder / "README.md").data.eval_results}

    first = listed("suite=judge_bench")
    assert listed("suite=[judge_bench,reward_bench_2]", "limit=1") == first
    both = listed("suite=reward_bench_2")
    assert both.keys() == {"judge_bench", "reward_bench_2"} > first.keys()
    write(root / "reward_bench_2/rows.jsonl", ROWS["reward_bench_2"])
    assert listed("suite=reward_bench_2") == both, "a mean of some parts is no number of the benchmark"
    card = (root.parent / "run/benchmarks.md").read_text("utf-8")
    assert "## RewardBench 2 without Factuality, Focus, Precise IF, Safety (2 of 6 parts)" in card
    assert "| published |" not in card


def test_a_second_model_is_compared_on_the_same_items_whatever_each_is_shown(command, root, export, monkeypatch):
    """A late head has fitted criteria and none, a scalar one none: two rows and one."""
    monkeypatch.setattr(
        judging.Rewards, "of_groups", lambda self, groups: [[0.0, 1.0] if self._reader else [1.0, 0.0] for _ in groups]
    )
    out = evaluate(command, root, f"checkpoint={export('late')}", f"against={export('scalar')}", "suite=prism")
    table = pd.read_csv(out / "against.csv")
    assert (len(table), table["difference"][0], table["n"][0]) == (1, -1, 1) and 0 <= table["p"].fillna(1)[0] <= 1
    judges = pd.read_csv(out / "prism.csv", skiprows=1)["judge"]
    assert judges[:3].tolist() == [str(root.parent / name) for name in ("late0", "late0", "scalar0")]


def test_a_judge_that_compares_has_to_say_the_same_in_both_orders(command, root, export, monkeypatch):
    folder = export("pairwise")
    monkeypatch.setattr(judging.Rewards, "in_both_orders", lambda self, pairs: [(2.0, -0.1), (None, 1.0)])
    out = evaluate(command, root, f"checkpoint={folder}", "suite=judge_bench")
    table = pd.read_csv(out / "judge_bench.csv", skiprows=1)
    assert table["accuracy"][0].startswith("0.000") and float(table["no verdict"][0]) == 0.5


class Endpoint:
    """Prefers the first response, but has ``replies`` for some of the calls alone."""

    left_out, digest = "unanswered", "endpoint"

    def __init__(self, replies: int) -> None:
        self.replies = replies

    def read(self, comparisons: Any) -> Any:
        answered = comparisons[: self.replies]
        yield [Reading(row, order, 1.0 if order == "ab" else -1.0) for row, order in answered]


def test_what_got_no_reply_is_left_out_and_asked_again(tmp_path):
    items = [Item(f"{n}", say(f"user: {n}"), (say("assistant: a"), say("assistant: b")), right=(0,)) for n in range(3)]

    def scored(replies: int, name: str = "judge_bench") -> list[str]:
        opened = OpenedJudge(Endpoint(replies), "endpoint", tmp_path)  # type: ignore[arg-type]
        return [item.id for item, _ in judging.judged(BENCHMARKS[name], opened, items, "none", False, ALONE)]

    for name in ("judge_bench", "ppe_preference"):
        with pytest.raises(ValueError, match="endpoint: none of 3 items got a reply"):
            scored(0, name)
        assert scored(3, name) == ["0"], "one of two orders is no verdict"
        assert scored(4, name) == ["0", "1", "2"], "two that were missing are asked, and no more"


def test_criteria_of_users_are_proposed_from_their_other_votes(command, root, export, monkeypatch):
    asked = []
    real = judging.taste_of

    def seen(votes: Any, *rest: Any) -> Any:
        asked.append([vote.id for vote in votes])
        return real(votes, *rest)

    monkeypatch.setattr(judging, "taste_of", seen)
    out = evaluate(command, root, f"checkpoint={export('late')}", "suite=prism")
    assert asked == [[str(n) for n in range(6)]]
    table = pd.read_csv(out / "prism.csv", skiprows=1)
    assert table["criteria"].tolist()[:2] == ["proposed from the user's other votes", "none"]


def test_what_is_scored_is_not_scored_again(command, root, export, monkeypatch):
    words = (f"checkpoint={export('scalar')}", "suite=judge_bench")
    first = (evaluate(command, root, *words) / "judge_bench.csv").read_text()
    (part,) = root.parent.rglob("predictions/*/judge_bench.jsonl")
    with part.open("a") as file:
        file.write('["cut o')  # as a kill leaves it
    monkeypatch.setattr(judging.Rewards, "of_groups", lambda *_: pytest.fail("scored again"))
    assert (evaluate(command, root, *words) / "judge_bench.csv").read_text() == first


def test_the_spread_of_rewards_within_a_prompt_is_shown(command, root, export, monkeypatch):
    monkeypatch.setattr(judging.Rewards, "of_groups", lambda self, groups: [[1.0, 3.0] for _ in groups])
    out = evaluate(command, root, f"checkpoint={export('scalar')}", "suite=judge_bench")
    assert float(pd.read_csv(out / "judge_bench.csv", skiprows=1)["spread"][0]) == 1
