"""Every judge can be made and asked; what is saved becomes results; a mistake is one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crm.judges.judge import CoinJudge, OracleJudge
from crm.rewards.best_of_n import expected
from crm.rewards.scoring import Rewards
from experiments.best_of_n.users import truth_of
from experiments.does_accuracy_predict.__main__ import main
from experiments.does_accuracy_predict.analysis import ALL
from experiments.does_accuracy_predict.judges import SUITES, chosen, specs
from experiments.does_accuracy_predict.predictions import BEST_FILE, KS, POLES, SUITES_FILE, Picking, picks
from experiments.does_accuracy_predict.reinforcement import GRPO_FILE
from experiments.does_accuracy_predict.saved import load

NAMES = [spec.name for spec in specs(1)]


def test_the_truth_has_no_regret_and_a_coin_gains_nothing() -> None:
    picking = Picking(("detailed", "concise"), 3, 16, 1)
    users = picking.users()
    gold = truth_of(users)
    assert gold.shape == (6, 16) and (gold[:3] == -gold[3:]).all() and picking.ks == KS[:3]
    found, unread = picks(Rewards(OracleJudge()), users, gold, picking, blind=False)
    assert unread == 0 and expected(found, gold)[:, 1:].mean() > expected(found, gold)[:, 0].mean()
    assert expected(found, gold)[:, 2] == pytest.approx(gold.max(axis=1))
    drawn, _ = picks(Rewards(CoinJudge(1)), users, gold, picking, blind=False)
    assert np.nansum(drawn, axis=2) == pytest.approx(np.ones((6, 3)))
    assert expected(drawn, gold)[:, 0] == pytest.approx(gold.mean(axis=1))
    assert {"detailed", "humorous", "scientific"} <= set(POLES)


def write_judge(folder: Path, name: str, skill: float, seed: int, **changed: Any) -> None:
    """What a run leaves of a judge that is right in that share of cases, and picks as well."""
    random = np.random.default_rng([seed, 7])
    suites = {}
    for suite in SUITES:
        ids = [f"{suite[0]}{number}{suite[1]}" for number in range(60)]
        right = (random.random(60) < skill).astype(float).tolist()
        suites[suite] = {"comparisons": ids, "prompts": [one[:-1] for one in ids], "right": [None, *right[1:]]}
    gold = np.stack([np.zeros((2, 6)), skill + 0.1 * random.random((2, 6)), 2 * skill + random.random((2, 6))], axis=2)
    made = {"judge": name, "blind": False, "criteria": ["detailed", "concise"], "queries": 6, "n": 16, "seed": 1}
    best_of = {"made": made | changed, "commit": "abc", "k": [1, 4, 16], "unread": 0, "gold": gold.tolist()}
    documents = {SUITES_FILE: suites, BEST_FILE: best_of | {"best": (gold + 1).tolist()}}
    if seed % 3 == 0:
        point = {"step": 7, "kl": 1.0, "degenerate": 0.0, "proxy": 1.0, "won": (random.random(20) < skill).tolist()}
        made = {"criteria": ["x", "y"], "steps": 70, "seed": 1, "start": "d"}
        documents[GRPO_FILE] = made | {"selected": [point, point], "best": [point, point]}
    for file, document in documents.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / file).write_text(json.dumps(document), encoding="utf-8")


def test_what_was_saved_becomes_results_tables_and_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.does_accuracy_predict.power.JUDGES", (4,))
    monkeypatch.setattr("experiments.does_accuracy_predict.power.PAIRS", (50,))
    names = [*[name for name in NAMES if name.startswith("late_")][:12], "oracle"]
    for place, name in enumerate(names):
        write_judge(tmp_path / "out", name, 0.5 + 0.035 * place, place)
    words = ["--out", str(tmp_path / "out"), "--report", str(tmp_path / "report"), "--analyse-only", "--judges", *names]
    assert main(words) == 0
    found = json.loads((tmp_path / "report" / "results.json").read_text(encoding="utf-8"))
    assert [row["name"] for row in found["judges"]] == [name for name in NAMES if name in names]
    keys = {"suites", "correlations", "six_models", "power", "suite_size", "commit", "seeds", "published", "picking"}
    assert keys <= set(found) and found["groups"]["all"] == 13 and found["grpo"]["steps"] == 70
    by_key = {(row["judges"], row["use"], row["suite"]): row for row in found["correlations"]}
    assert by_key["all", "best_of_16", ALL]["spearman"] > 0.8 and by_key["all", "grpo_selected", "D+"]["n"] == 5
    assert found["suites"]["T-"] == {"n": 60, "prompts": 60} and found["uses"]["grpo_best"]["prompts"] == 20
    judge = next(row for row in found["judges"] if row["name"] == "oracle")
    assert judge["gains"]["best_of_4"] == pytest.approx(0.5 + 0.035 * 12 + 0.05, abs=0.05)
    assert judge["regret"]["best_of_16"] == pytest.approx(1)
    files = {path.name for path in (tmp_path / "report").iterdir()}
    assert {"judges.md", "correlations.md", "power.md", "six_models.md", "suite_size.png"} <= files
    assert {f"accuracy_and_{use}.png" for use in found["uses"]} <= files
    saved = load(chosen(specs(1), names), tmp_path / "out")
    assert np.isnan(saved.right["D+"][:, 0]).all() and saved.uses["best_of_4"].shape == (13, 6)
    write_judge(tmp_path / "out", "oracle", 0.9, 1, queries=7)
    assert main(words) == 2 and "oracle and late_1000 have other criteria" in capsys.readouterr().err


def test_a_mistake_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, why in (
        (["--judges", "gpt"], "--judges: 'gpt': expected one of"),
        (["--criteria", "purple"], "--criteria: 'purple': expected some of detailed, concise"),
        (["--queries", "1"], "--queries=1: expected 2 or more"),
        (["--n", "2"], "--n=2: expected 4 or more"),
        (["--grpo-steps", "0"], "--grpo-steps=0: expected 1 or more"),
        (["--analyse-only"], "--out: scalar_1000 has no suites.json yet; run without --analyse-only"),
    ):
        assert main(["--out", str(tmp_path), "--report", str(tmp_path), *words]) == 2
        message = capsys.readouterr().err
        assert message.startswith("experiments.does_accuracy_predict: ") and why in message and message.count("\n") == 1
