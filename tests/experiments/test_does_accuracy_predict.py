"""Every judge can be made and asked; what is saved becomes results; a mistake is one sentence."""

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from crm.judges.judge import CoinJudge, OracleJudge
from crm.rewards.best_of_n import expected
from crm.rewards.scoring import Rewards
from experiments.best_of_n.users import truth_of
from experiments.does_accuracy_predict.__main__ import main
from experiments.does_accuracy_predict.analysis import ALL, correlations, draw
from experiments.does_accuracy_predict.judges import FAMILIES, SUITES, chosen, specs
from experiments.does_accuracy_predict.power import published, six_models
from experiments.does_accuracy_predict.predictions import BEST_FILE, KS, POLES, SUITES_FILE, Picking, picks
from experiments.does_accuracy_predict.ranks import exact_p, kendall, permutation_p, spearman
from experiments.does_accuracy_predict.reinforcement import GRPO_FILE
from experiments.does_accuracy_predict.saved import Saved, load

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


def test_what_was_saved_becomes_results_tables_and_pictures(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
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
        (["--analyse-only"], "--out: scalar_1000 has no suites.json yet; run without --analyse-only"),
    ):
        assert main(["--out", str(tmp_path), "--report", str(tmp_path), *words]) == 2
        message = capsys.readouterr().err
        assert message.startswith("experiments.does_accuracy_predict: ") and why in message and message.count("\n") == 1


def test_correlations_are_those_of_scipy_ties_or_not() -> None:
    random = np.random.default_rng(1)
    for one, other in (
        (random.normal(size=(5, 9)), random.normal(size=(5, 9))),
        (random.integers(0, 3, (5, 12)).astype(float), random.integers(0, 4, (5, 12)).astype(float)),
    ):
        for row in range(len(one)):
            assert spearman(one, other)[row] == pytest.approx(stats.spearmanr(one[row], other[row]).statistic)
            assert kendall(one, other)[row] == pytest.approx(stats.kendalltau(one[row], other[row]).statistic)
    flat = np.ones((1, 4))
    assert np.isnan(spearman(flat, one[:1, :4])).all() and np.isnan(kendall(flat, one[:1, :4])).all()


@pytest.mark.parametrize("other", [[3.0, 1.0, 4.0, 2.0, 6.0, 5.0], [1.0, 1.0, 2.0, 2.0, 3.0, 1.0]])
def test_p_of_few_judges_is_that_of_all_permutations(other: list[float]) -> None:
    one = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 5.0])
    found = abs(stats.spearmanr(one, other).statistic)
    hits = [abs(stats.spearmanr(one, order).statistic) >= found - 1e-9 for order in permutations(other)]
    assert permutation_p(one, np.array(other), seed=1) == pytest.approx(np.mean(hits))


def test_what_was_published_of_six_models_is_what_chance_gives() -> None:
    rhos = [stats.spearmanr(range(6), order).statistic for order in permutations(range(6))]
    assert exact_p(0.257, 6) == pytest.approx(np.mean(np.abs(rhos) > 0.257 - 1e-3))
    assert [round(row["p"], 2) for row in published()] == [0.66, 0.5]


def planted(strength: float, seed: int, judges: int = 26, pairs: int = 300) -> Saved:
    """Judges from chance to nearly right; what they are good for follows their true accuracy by ``strength``."""
    random = np.random.default_rng(seed)
    truth = np.linspace(0.5, 0.97, judges)
    right = {suite: (random.random((judges, pairs)) < truth[:, None]).astype(float) for suite in SUITES}
    value = strength * (truth - truth.mean()) / truth.std() + np.sqrt(1 - strength**2) * random.normal(size=judges)
    uses = {
        "best_of_4": value[:, None] + 0.3 * random.normal(size=(judges, 30)),
        "grpo_selected": np.where(np.arange(judges)[:, None] % 3 == 0, value[:, None] + np.zeros(12), np.nan),
    }
    families = tuple(FAMILIES[-1] if place >= judges - 2 else FAMILIES[0] for place in range(judges))
    prompts = {suite: np.arange(pairs) for suite in SUITES}
    return Saved(tuple(map(str, range(judges))), families, right, prompts, uses, {})


def test_a_planted_relation_is_found_and_no_relation_is_not() -> None:
    for strength, seed in ((0.95, 1), (0.0, 2)):
        saved = planted(strength, seed)
        drawn = draw(saved, seed=1, resamples=300)
        groups = {"all": np.arange(len(saved.names)), "above_chance": saved.above_chance()}
        rows = {(row["judges"], row["use"], row["suite"]): row for row in correlations(drawn, groups, seed=1)}
        assert len(rows) == 2 * 2 * 10
        row = rows["all", "best_of_4", ALL]
        values = saved.uses["best_of_4"].mean(axis=1)
        accuracy = np.mean([saved.right[suite].mean(axis=1) for suite in SUITES], axis=0)
        assert row["spearman"] == pytest.approx(stats.spearmanr(accuracy, values).statistic)
        assert row["kendall"] == pytest.approx(stats.kendalltau(accuracy, values).statistic)
        assert row["low"] <= row["spearman"] <= row["high"] and row["p"] <= row["p_holm"]
        assert (row["low"] > 0.5 and row["p_holm"] < 0.05) if strength else (row["low"] < 0 and row["p"] > 0.05)
        assert rows["all", "grpo_selected", ALL]["n"] == 9
        whole = [row for (group, use, _), row in rows.items() if (group, use) == ("all", "best_of_4")]
        assert min(row["behind"] for row in whole) == 0
        six = six_models(drawn, ALL, groups, seed=1, draws=100)[0]
        assert six["low"] <= six["median"] <= six["high"] and (six["significant"] > 0.5) == bool(strength)
