"""Summaries of small prediction files by hand; `evaluate.py` by its settings, and what it writes for other tools."""

import json
import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crm.config import compose
from crm.evaluation.compare import compare
from crm.evaluation.predictions import read_predictions, to_samples
from crm.evaluation.results import read_results, summarise, write_results
from crm.evaluation.run import run_evaluation
from crm.io.files import replace_file
from crm.model.export import export_model
from crm.schema import Prediction, Result
from tests.made_files import chat
from tests.made_files import write_rows as write


def reading(identifier: str, order: str, logit: float, label: str = "a", suite: str = "D+") -> Prediction:
    return Prediction(identifier, order, logit, label, identifier, suite, "f0")


def both(identifier: str, ab: float, ba: float, label: str = "a", suite: str = "D+") -> list[Prediction]:
    return [reading(identifier, "ab", ab, label, suite), reading(identifier, "ba", ba, label, suite)]


def values(predictions: Sequence[Prediction], suite: str = "D+") -> dict[str, float]:
    return {result.metric: result.value for result in summarise(predictions) if result.suite == suite}


def test_metrics_by_hand() -> None:
    rows = [
        *both("right", 3.0, 1.0),  # mean 2, correct
        *both("flips", 3.0, -1.0),  # mean 1, correct for a; labelled b below
        *both("zero", 2.0, -2.0, label="b"),  # exactly 0: one half
        *both("tie", 5.0, 5.0, label="tie"),
    ]
    rows = [replace(row, label="b") if row.comparison_id == "flips" else row for row in rows]
    got = values(rows)
    assert got["accuracy"] == pytest.approx((1 + 0 + 0.5) / 3)
    assert got["flip_rate"] == pytest.approx(2 / 4)
    assert got["margin"] == pytest.approx((2 - 1 + 0) / 3)
    assert got["log_loss"] == pytest.approx((math.log1p(math.exp(-2)) + math.log1p(math.e) + math.log(2)) / 3)
    assert (got["n_ties"], got["n_one_order"]) == (1, 0)

    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    # With A first the first response is A; with B first it is B, preferred with 1 - P(A).
    first = [sigmoid(3) + sigmoid(-1), sigmoid(3) + sigmoid(1), sigmoid(2) + sigmoid(2), sigmoid(5) + sigmoid(-5)]
    assert got["p_first"] == pytest.approx(sum(first) / 8)


def test_a_judge_that_ignores_the_criteria_sums_to_one() -> None:
    plus = [p for i in range(20) for p in both(str(i), float(i - 7), float(i - 7), "a", "D+")]
    minus = [replace(p, suite="D-", label="b") for p in plus]
    total = next(r for r in summarise([*plus, *minus]) if r.metric == "accuracy_sum")
    assert (total.suite, total.value, total.n) == ("D", pytest.approx(1.0), 40)
    assert total.low < 1 < total.high
    assert total.standard_error == pytest.approx(0, abs=1e-12)


def test_a_comparison_that_got_one_reply_of_two_has_no_verdict() -> None:
    """A judge that names the first response is right by chance where the other order has no answer."""
    whole = [row for i in range(2) for row in both(f"{i}", 1.0, -1.0)]
    halves = [reading(f"half {i}", "ab", 1.0) for i in range(8)]
    found = {row.metric: row for row in summarise([*whole, *halves])}
    assert (found["accuracy"].value, found["accuracy"].n, found["n_one_order"].value) == (0.5, 2, 8)
    minus = [replace(row, suite="D-", label="b") for row in [*whole, *halves]]
    assert [r.n for r in summarise([*whole, *halves, *minus]) if r.metric == "accuracy_sum"] == [4]
    samples = to_samples([*whole, *halves])["D+"]
    assert compare(samples, samples)["n"] == 2


def test_accuracy_sum_is_of_the_pairs_with_a_verdict_in_both_suites() -> None:
    """Of ten pairs that both suites have; twenty more in T+ alone, whose accuracy is another, take no part."""
    signs = [1.0 if i < 10 else -1.0 for i in range(30)], [1.0 if i < 5 else -1.0 for i in range(10)]
    plus = [row for i, sign in enumerate(signs[0]) for row in both(f"p{i}|original|none", sign, sign, suite="T+_add")]
    minus = [row for i, sign in enumerate(signs[1]) for row in both(f"p{i}|reverse|add", sign, sign, suite="T-_add")]
    failed = Prediction("p10|reverse|add", "ab", None, "b", "p10", "T-_add", "f0", failure="no_verdict")
    plus, minus = ([replace(row, cluster=row.comparison_id.split("|")[0]) for row in rows] for rows in (plus, minus))
    total = next(r for r in summarise([*plus, *minus, failed]) if r.metric == "accuracy_sum")
    assert (total.suite, total.value, total.n) == ("T_add", pytest.approx(1.0 + 0.5), 20)
    # Ten pairs, each with a sum of 1 or 2: the standard error of their mean, by hand.
    assert total.standard_error == pytest.approx(math.sqrt(10 * 0.25 / 9 / 10))
    assert not [r for r in summarise([*plus[20:], *minus]) if r.metric == "accuracy_sum"], "no pair is in both"


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.floats(-5, 5), st.sampled_from("ab")), min_size=2, max_size=12), st.randoms())
def test_renaming_a_and_b_and_shuffling_rows_changes_nothing(rows: list[tuple[float, str]], random: object) -> None:
    plain = [reading(str(i), order, logit, label) for i, (logit, label) in enumerate(rows) for order in ("ab", "ba")]
    renamed = [
        replace(p, preference_logit=-p.preference_logit, label="ba"["ab".index(p.label)], order=p.order[::-1])
        for p in plain
    ]
    random.shuffle(renamed)  # type: ignore[attr-defined]
    first, second = values(plain), values(renamed)
    assert first.keys() == second.keys()
    assert all(second[name] == pytest.approx(first[name]) for name in first)


def test_results_round_trip_with_schema_version_and_environment(tmp_path: Path) -> None:
    results = summarise([*both("x", 1, 2), *both("y", -1, 2)], seeds=(1, 2), config="head=scalar", commit="abc")
    path = write_results(tmp_path, results, {"judge": "coin"})
    assert str(read_results(path)) == str(({"judge": "coin"}, results)), "as texts: NaN is not equal to itself"
    document = json.loads(path.read_text())
    assert document["schema_version"] == 2
    assert {"python", "numpy", "scipy"} <= document["environment"].keys()
    replace_file(path, json.dumps({**document, "schema_version": 99}))
    with pytest.raises(ValueError, match="schema_version: 99"):
        read_results(path)


SMALL = ("data.train=24", "data.validation=8", "data.suite=6", "progress=false")


def files_of(folder: Path, *words: str) -> dict[str, bytes]:
    """Prediction files by name; their folders are digests of judge and comparisons."""
    given = ("judge=length", f"predictions='{folder}'", *SMALL, *words)
    run_evaluation(compose("evaluate", given, folder / "run"), show=False)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("[!.]*.jsonl")}


def test_no_seed_of_a_run_changes_a_test_set(tmp_path: Path) -> None:
    one, two = (files_of(tmp_path / f"{seed}", f"seed={seed}", "suite=noised") for seed in (1, 2))
    assert one == two and one
    assert one != files_of(tmp_path / "other", "data.seed=5", "suite=noised")


def test_a_tracker_gets_the_numbers_of_the_files(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    given = ("judge=length", "logger=tensorboard", f"predictions={tmp_path / 'kept'}", *SMALL)
    results = run_evaluation(compose("evaluate", given, tmp_path), show=False)
    finite = {f"{row.suite}/{row.metric}": row.value for row in results if row.value == row.value}
    log = accumulator.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    written = {tag: log.Scalars(tag)[0].value for tag in log.Tags()["scalars"] if tag != "hp_metric"}
    assert written == pytest.approx(finite, abs=1e-6) and "D+/accuracy" in finite


def test_attacks_go_into_the_card_of_a_model(make_model: Any, tokenizer: Any, tmp_path: Path) -> None:
    model = tmp_path / "run" / "model"
    export_model(make_model("scalar"), tokenizer, model, {"max_length": 600, "seed": 1})
    given = (f"checkpoint='{model}'", "data=simulation", "suite=[D+]", "attacks=4", *SMALL)
    run_evaluation(compose("evaluate", given, tmp_path / "out"), show=False)
    line = (tmp_path / "out" / "robustness.md").read_text().splitlines()[0]
    assert line.startswith("_n = 4;") and line in (model / "README.md").read_text()


WORDS = ("oak", "bread", "yarn", "paint", "moon", "river", "chess", "tea", "violin", "snow")


def plain_vote(index: int) -> dict[str, Any]:
    """The longer response wins, if any."""
    winner, prompt = ("a", "b", "tie")[index % 3], chat(f"{WORDS[index % 10]} {index}")
    texts = {"a": ("a long answer", "short"), "b": ("short", "a long answer"), "tie": ("short", "brief")}[winner]
    sides = {f"response_{side}": chat("", text)[1:] for side, text in zip("ab", texts, strict=True)}
    return {"id": f"v{index}", "prompt": prompt, **sides, "winner": winner, "topic": f"topic {index % 2}"}


def evaluate_votes(folder: Path, *given: str) -> list[Result]:
    overrides = ["judge=length", "progress=false", f"predictions='{folder / 'predictions'}'", *given]
    return run_evaluation(compose("evaluate", overrides, folder / "run"), show=False)


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    return write(tmp_path / "votes.jsonl", [plain_vote(index) for index in range(90)])


def test_every_vote_that_is_no_tie_is_evaluated(votes: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    own = ["data=file", f"data.path='{votes}'", "data.test_fraction=0.4"]
    with pytest.raises(ValueError, match=r"no record has criteria.*criteria=none"):
        evaluate_votes(tmp_path, *own)
    with caplog.at_level(logging.INFO):
        results = evaluate_votes(tmp_path, *own, "criteria=none")
    accuracy = {row.suite: row for row in results if row.metric == "accuracy"}
    assert set(accuracy) == {"D+"}
    assert accuracy["D+"].value == 1
    assert "suite D- is empty" in caplog.text and "given_generic_criterion 90" in caplog.text
    document = json.loads((tmp_path / "run" / "results.json").read_text())
    assert document["run"]["criteria"] == "none"
    held = document["run"]["rows"]["suite_D"]
    rows = read_predictions(document["run"]["files"]["D+"])
    assert accuracy["D+"].n == len(rows) // 2 < held
