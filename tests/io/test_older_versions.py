"""What earlier commits wrote (``tests/data/older``): it loads and says the same, or one sentence says what to do."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyarrow import parquet as pq

from crm.config import compose
from crm.dataset.comparisons import make_comparisons
from crm.evaluation.prediction_file import predict, read_predictions
from crm.evaluation.results import read_results, read_run, summarise
from crm.io.chat.cache import ReplyCache
from crm.io.intake import Intake
from crm.judges.crm_judge import CrmJudge
from crm.leaderboard.bank.bank import load_bank
from crm.leaderboard.bank_judge import index_bank
from crm.leaderboard.ranking import Leaderboard
from crm.model.encoding import Encoder
from crm.model.export import load_checkpoint
from crm.page.score_store import ScoreStore
from crm.sealed import read_sealed
from crm.training.run import run_training
from crm.training.sweep_jobs import SUMMARY_FORMAT
from crm.votes.own import dataset, records

OLDER = Path(__file__).parents[1] / "data" / "older"
FIRST, LATE, LAST = (OLDER / commit for commit in ("5a8a62c", "c19ad50", "adc6a62"))
VOTES = OLDER / "votes.jsonl"


def judge_of(folder: Path) -> CrmJudge:
    model, tokenizer, told = load_checkpoint(folder)
    encoder = Encoder(tokenizer, model.head, told["max_length"], told["prompt_order"])
    return CrmJudge(model, encoder, batch_size=4, model_digest=told["digest"])


@pytest.mark.parametrize("commit", [FIRST, LATE], ids=lambda folder: folder.name)
def test_a_model_says_what_it_said(commit: Path, tmp_path: Path) -> None:
    before = {(row.comparison_id, row.order): row for row in read_predictions(commit / "predictions/D+.jsonl")}
    votes = {row.id: row for row in records.read(VOTES, Intake(strict=True))}
    names = [name.split("|")[0] for name, order in before if order == "ab"]
    drawn: dict[str, Any] = {"direction": "original", "noise": "none", "pool": None, "seed": 0, "epoch": 0}
    rows, _ = make_comparisons([votes[name] for name in names], **drawn)
    predict(judge_of(commit / "model"), rows, suite="D+", digest="now", path=tmp_path / "D+.jsonl", progress=False)
    now = read_predictions(tmp_path / "D+.jsonl")
    assert len(now) == len(before) == 16
    for row in now:
        old = before[row.comparison_id, row.order]
        assert row.preference_logit == pytest.approx(old.preference_logit, abs=1e-5)
        assert (row.label, row.cluster) == (old.label, old.cluster)


@pytest.mark.parametrize("commit", [FIRST, LATE, LAST], ids=lambda folder: folder.name)
def test_predictions_and_results_are_read_and_agree(commit: Path) -> None:
    results = {row.metric: row for row in read_results(commit / "results.json")}
    now = {row.metric: row for row in summarise(read_predictions(commit / "predictions/D+.jsonl"))}
    assert now.keys() == results.keys() and read_run(commit / "results.json")["seed"] is not None
    for name, row in now.items():
        assert (row.value, row.n) == (pytest.approx(results[name].value), results[name].n)
    assert read_sealed(commit / "summary.json", "", newest=SUMMARY_FORMAT)["steps"] == 6


def test_an_index_is_not_made_again_and_ranks_as_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for home in LATE.glob("index-*"):
        shutil.copytree(home, tmp_path / home.name)
    monkeypatch.setattr("crm.leaderboard.index._make_shard", lambda *_: pytest.fail("made again"))
    indexed = index_bank(judge_of(LATE / "model"), load_bank(OLDER / "bank"), tmp_path, progress=False)
    assert indexed is not None
    board = Leaderboard(indexed.outcomes(("Prefers concise answers",)))
    found = board.frame().set_index("model")["win_rate"]
    told = pd.read_csv(LATE / "leaderboard.csv", comment="#").set_index("model")["win_rate"]
    assert found.to_dict() == pytest.approx(told.to_dict(), abs=1e-6)


def test_a_dataset_holds_the_rows_that_it_held() -> None:
    splits = dataset.load(FIRST / "dataset")
    counts = json.loads((FIRST / "dataset/stages/dataset.json").read_text())["counts"]
    parts = {"train": splits.train, "validation": splits.validation, **splits.suites}
    for name, rows in parts.items():
        ids = pq.read_table(FIRST / f"dataset/splits/{name}.parquet")["id"].to_pylist()
        assert [row.id for row in rows] == ids and len(ids) == counts[name]
    assert len(dataset.suite(FIRST / "dataset", "D+") or ()) == 3


@pytest.mark.parametrize("commit", [FIRST, LAST], ids=lambda folder: folder.name)
def test_stores_hold_what_was_put(commit: Path, tmp_path: Path) -> None:
    for name in ("scores.sqlite", "replies.sqlite"):
        shutil.copy(commit / name, tmp_path)
    cache = ReplyCache(tmp_path / "replies.sqlite")
    assert cache.get("k" * 64) == "It rains."
    cache.put("n" * 64, "It snows.")
    assert (cache.get("n" * 64), len(cache)) == ("It snows.", 2)
    cache.close()
    store = ScoreStore(tmp_path / "scores.sqlite")
    keys = [letter * 32 for letter in "abc"]
    wanted = {(keys[0], "ab"): 1.5, (keys[1], "ba"): -0.25, (keys[2], "ab"): None}
    assert store.known("judge", "criteria", keys) == wanted
    store.close()


@pytest.mark.slow
def test_a_run_goes_on_from_an_old_checkpoint_or_is_refused_in_one_sentence(tmp_path: Path) -> None:
    shutil.copytree(FIRST / "checkpoints", tmp_path / "run/checkpoints")
    told = json.loads((FIRST / "summary.json").read_text())
    model = ("model.hidden_size=8", "model.layers=2", "model.heads=2", "model.vocab_size=300")
    data = ("data=records", f"data.path={VOTES}", "data.validation_fraction=0.25", "data.test_fraction=0.25")
    trainer = [f"trainer.{name}" for name in ("batch_size=8", "max_steps=6", "progress=false", "threads=1")]
    settings = [*model, *data, *trainer, "trainer.save_every=3", "head=scalar", "resume=true"]
    config = compose("train", settings, tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            outcome = run_training(config)
        except ValueError as error:
            assert str(error).startswith("resume=true: ") and "start a new run" in str(error)
        else:
            assert outcome.validation_loss == pytest.approx(told["validation_loss"], abs=1e-5)


def test_what_a_later_version_wrote_is_refused_in_one_sentence(tmp_path: Path) -> None:
    told: dict[str, Any] = {"format": SUMMARY_FORMAT + 1, "steps": 6}
    (tmp_path / "summary.json").write_text(json.dumps(told))
    with pytest.raises(ValueError, match=r"summary.json: format 3, this version reads up to 2; run the job again"):
        read_sealed(tmp_path / "summary.json", "run the job again", newest=SUMMARY_FORMAT)
    line = (LAST / "predictions/D+.jsonl").read_text().splitlines()[0]
    (tmp_path / "D+.jsonl").write_text(line[:-1] + ', "seal": "3-00000000"}\n')
    with pytest.raises(ValueError, match=r"D\+.jsonl:1: seal: '3-00000000': expected 2-.*remove the line and run ag"):
        read_predictions(tmp_path / "D+.jsonl")
