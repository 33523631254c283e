"""Every criterion against its opposite, all read at once; the files of the study; mistakes in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crm.data.simulation.lexicon import TRAIN_AXES
from crm.judges.judge import OracleJudge
from crm.model.export import export_model
from crm.rewards.scoring import Rewards
from experiments.best_of_n.__main__ import main, studies_of, summary
from experiments.best_of_n.users import of_arena


def test_the_truth_picks_as_the_oracle_and_opposites_mirror_each_other() -> None:
    users = of_arena(seed=1, queries=3, n=6)
    assert len(users) == 2 * len(TRAIN_AXES)
    assert all((one.gold == -other.gold).all() for one, other in zip(users[::2], users[1::2], strict=True))
    studies = studies_of(users, Rewards(OracleJudge()))
    assert list(studies) == [*(user.name for user in users), "all"] == summary(studies)["user"].tolist()
    for study in studies.values():
        means = study["curves"].set_index(["picked_by", "k"])["mean"]
        assert means["judge"].to_list() == pytest.approx(means["oracle"].to_list())
    first = studies[users[0].name]["curves"].set_index(["picked_by", "k"])["mean"]
    assert first["judge", 6] == pytest.approx(users[0].gold.max(axis=1).mean())
    whole = studies["all"]["curves"].set_index(["picked_by", "k"]).loc[("judge", 6)]
    assert whole["mean"] == pytest.approx(sum(user.gold.max(axis=1).mean() for user in users) / len(users))
    assert (whole["n"], whole["clusters"]) == (78, 3)


def test_a_part_is_written_with_two_pictures_of_opposite_users(make_model: Any, tokenizer: Any, tmp_path: Path) -> None:
    export_model(make_model("late"), tokenizer, tmp_path / "model", {"max_length": 2048, "seed": 3})
    words = ["--checkpoint", str(tmp_path / "model"), "--report", str(tmp_path / "out"), "--queries", "2", "--n", "4"]
    assert main(words) == 0
    found = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))["arena"]
    assert len(found["users"]) == 2 * len(TRAIN_AXES) + 1 and found["k"] == [1, 2, 4]
    assert {"commit", "seed", "training_seed", "model_digest", "unread", "unit"} <= set(found)
    judge = found["users"]["all"]["judge"]
    assert judge["gold"]["n"] == [52, 52, 52] and None not in judge["reward"]["mean"]
    assert len(list((tmp_path / "out").glob("arena_*.png"))) == 2 and (tmp_path / "out" / "arena.md").is_file()


def test_a_mistake_is_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--checkpoint", str(tmp_path), "--queries", "100000"]) == 2
    assert capsys.readouterr().err.startswith("experiments.best_of_n: --queries=100000: expected at most ")
