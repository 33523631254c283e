"""Every judge can be made and asked; what is saved becomes results; a mistake is one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crm.config import compose
from crm.judges.controls import CoinJudge, OracleJudge
from crm.rewards.best_of_n import expected
from crm.rewards.scoring import Rewards
from experiments.best_of_n.users import truth_of
from experiments.does_accuracy_predict.__main__ import main
from experiments.does_accuracy_predict.analysis import ALL
from experiments.does_accuracy_predict.judges import FAMILIES, SUITES, Spec, chosen, in_order, job, specs
from experiments.does_accuracy_predict.predictions import BEST_FILE, KS, POLES, SUITES_FILE, Picking, picks
from experiments.does_accuracy_predict.reinforcement import GRPO_FILE, best, spread
from experiments.does_accuracy_predict.saved import load

NAMES = [spec.name for spec in specs(1)]


def test_every_judge_has_a_name_a_family_and_what_it_needs(tmp_path: Path) -> None:
    found = specs(1)
    trained = [spec for spec in found if spec.overrides is not None]
    assert len(set(NAMES)) == len(NAMES) >= 24 + 4 and {spec.family for spec in found} == set(FAMILIES)
    assert sum("schedule.max_steps=1000" in (spec.overrides or ()) for spec in found) <= 3
    first, then = in_order(found, tmp_path, ["data.suite=8", "schedule.max_steps=2"])
    assert {made.name for made in then} == {"pairwise_250", "blind"} and len(first) + len(then) == len(found)
    assert then[0].start == tmp_path / "scalar_500" / "model"
    assert (then[0].overrides or ())[-1] == "schedule.max_steps=2"
    assert (
        "data.suite=8" in then[1].evaluations["suites"] and "schedule.max_steps=2" not in then[1].evaluations["suites"]
    )
    assert len(trained) == len(found) - 4
    with pytest.raises(ValueError, match="pairwise_250 needs scalar_500"):
        chosen(found, ["pairwise_250"])


@pytest.mark.slow
def test_every_kind_of_training_and_every_question_can_be_composed(tmp_path: Path) -> None:
    kinds: dict[tuple[str, ...], Spec] = {}
    for spec in specs(1):
        words = [word for word in (*(spec.overrides or ()), *spec.asked) if not word.startswith(("trainer.", "seed="))]
        kinds.setdefault(tuple(word for word in words if not word.startswith("data.train=")), spec)
    assert len(kinds) >= 15
    asked: set[tuple[str, ...]] = set()
    for spec in kinds.values():
        made = job(spec, tmp_path, [])
        if made.overrides is not None:
            config = compose("train", list(made.overrides), tmp_path)
            assert config.schedule.validate_every <= config.schedule.max_steps
        if spec.asked in asked:  # the same question as of a judge before
            continue
        asked.add(spec.asked)
        common = ["checkpoint=x"] if made.overrides is not None else []
        config = compose("evaluate", [*common, *made.evaluations["suites"]], tmp_path)
        assert config.suite.names == list(SUITES) and config.data.train == 20_000


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


def test_eight_judges_are_spread_over_the_range() -> None:
    accuracies = {"a": 0.5, "b": 0.51, "c": 0.52, "d": 0.7, "e": 0.9, "f": 0.91}
    assert spread(accuracies, 3) == ["a", "d", "f"]
    assert sorted(spread(accuracies, 9)) == sorted(accuracies) and spread(accuracies, 0) == []
    points = [
        {"step": step, "kl": 0.0, "degenerate": 0.0, "proxy": 0.0, "won": won}
        for step, won in enumerate(([1.0, 1.0], [0.5, 0.5], [1.0, 0.5]))
    ]
    assert best({"course": points})["step"] == 2, "the start itself is no policy"


def write_judge(folder: Path, name: str, skill: float, seed: int, **changed: Any) -> None:
    """What a run leaves of a judge that is right in that share of cases, and picks as well."""
    random = np.random.default_rng([seed, 7])
    suites = {}
    for suite in SUITES:
        ids = [f"{suite[0]}{number}{suite[1]}" for number in range(60)]
        right = (random.random(60) < skill).astype(float).tolist()
        suites[suite] = {"comparisons": ids, "prompts": [one[:-1] for one in ids], "right": [None, *right[1:]]}
    gold = np.stack([np.zeros((2, 6)), skill + 0.1 * random.random((2, 6)), 2 * skill + random.random((2, 6))], axis=2)
    made = {"judge": name, "blind": False, "wishes": ["detailed", "concise"], "queries": 6, "n": 16, "seed": 1}
    best_of = {"made": made | changed, "commit": "abc", "k": [1, 4, 16], "unread": 0, "gold": gold.tolist()}
    documents = {SUITES_FILE: suites, BEST_FILE: best_of | {"best": (gold + 1).tolist()}}
    if seed % 3 == 0:
        point = {"step": 7, "kl": 1.0, "degenerate": 0.0, "proxy": 1.0, "won": (random.random(20) < skill).tolist()}
        made = {"wishes": ["x", "y"], "steps": 70, "seed": 1, "start": "d"}
        documents[GRPO_FILE] = made | {"kept": [point, point], "best": [point, point]}
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
    assert by_key["all", "best_of_16", ALL]["spearman"] > 0.8 and by_key["all", "grpo_kept", "D+"]["n"] == 5
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
    assert main(words) == 2 and "oracle and late_1000 have other wishes" in capsys.readouterr().err


def test_a_mistake_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, why in (
        (["--judges", "gpt"], "--judges: 'gpt': expected one of"),
        (["--wishes", "purple"], "--wishes: 'purple': expected some of detailed, concise"),
        (["--queries", "1"], "--queries=1: expected 2 or more"),
        (["--n", "2"], "--n=2: expected 4 or more"),
        (["--grpo-steps", "0"], "--grpo-steps=0: expected 1 or more"),
        (["--analyse-only"], "--out: scalar_1000 has no suites.json yet; run without --analyse-only"),
    ):
        assert main(["--out", str(tmp_path), "--report", str(tmp_path), *words]) == 2
        message = capsys.readouterr().err
        assert message.startswith("experiments.does_accuracy_predict: ") and why in message and message.count("\n") == 1
