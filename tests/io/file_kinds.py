"""Every kind of file that is written and read again, as a function that writes it and one that reads it.

A new kind of file is one more entry of `KINDS`. ``write`` may be called again on the same folder. ``read`` gives what
compares by ``==``, or raises ``ValueError``; what a command makes again is made again. Tables, pictures, reports,
cards and ``config.yaml`` are for people: no command reads them, and a CSV has no place for a digest.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from crm.evaluation.prediction_file import predict, read_predictions
from crm.evaluation.results import read_results, read_run, summarise, write_results
from crm.io.chat.cache import ReplyCache
from crm.io.files import replace_file
from crm.io.parquet import write_parquet
from crm.judges.controls import LengthJudge
from crm.leaderboard.bank.bank import Bank, BankQuery, load_bank
from crm.leaderboard.index import open_index
from crm.schema import Comparison, Message, Preference
from crm.sealed import sealed_text
from crm.training.checkpointing import SafeCheckpointIO
from crm.training.sweep_jobs import OVERRIDES, SUMMARY, SUMMARY_FORMAT, read_jobs
from crm.votes.own import dataset

REPLIES = {f"{n:064x}": f"reply {n} " * 20 for n in range(8)}
PARTS = ("train", "validation", *dataset.SUITES)
QUERIES = tuple(BankQuery(f"q{n}", (Message("user", f"Why {n}?"),), "tea") for n in range(4))
BANK = Bank("small", "m0", QUERIES, {f"m{a}": {q.id: f"{q.id} by {a}: it rains." for q in QUERIES} for a in range(2)})


class Parts(NamedTuple):
    """What is read and written: made once for all."""

    votes: list[Preference]
    rows: list[Comparison]
    late: Any
    """A judge with a late head."""


class Kind(NamedTuple):
    """``files`` are those that come to harm, one at a time."""

    files: tuple[str, ...]
    write: Callable[[Parts, Path], object]
    read: Callable[[Parts, Path], Any]


def _write_checkpoint(_: Parts, folder: Path) -> None:
    for _time in range(2):  # the one before stays beside it
        SafeCheckpointIO().save_checkpoint({"step": 7, "weights": torch.arange(500.0)}, folder / "last.ckpt")


def _read_checkpoint(_: Parts, folder: Path) -> Any:
    found = SafeCheckpointIO().load_checkpoint(folder / "last.ckpt")
    return found["step"], found["weights"].tolist()


def _write_predictions(parts: Parts, folder: Path) -> None:
    predict(LengthJudge(), parts.rows, suite="D+", digest="mark", path=folder / "D+.jsonl", progress=False)


def _read_predictions(parts: Parts, folder: Path) -> Any:
    """As a run that goes on: what a cut has taken is read again."""
    _write_predictions(parts, folder)
    return sorted(read_predictions(folder / "D+.jsonl"), key=lambda row: (row.comparison_id, row.order))


def _write_results(parts: Parts, folder: Path) -> None:
    _write_predictions(parts, folder / "kept")
    write_results(folder, summarise(read_predictions(folder / "kept" / "D+.jsonl")), {"judge": "length", "seed": 1})


def _read_results(_: Parts, folder: Path) -> Any:
    path = folder / "results.json"
    return [repr(result) for result in read_results(path)], read_run(path)


def _write_summary(_: Parts, folder: Path) -> None:
    numbers = {"validation_loss": 0.5, "validation_accuracy": 0.75, "steps": 3, "seconds": 1.5, "commit": "abc"}
    replace_file(folder / "0" / OVERRIDES, "- seed=1\n")
    replace_file(folder / "0" / SUMMARY, sealed_text({"format": SUMMARY_FORMAT, **numbers}))


def _read_summary(_: Parts, folder: Path) -> Any:
    (job,) = read_jobs(folder)
    if job.status != "finished":
        raise ValueError(job.reason)
    return job


def _write_dataset(parts: Parts, folder: Path) -> None:
    for number, name in enumerate(PARTS):
        write_parquet(folder / "splits" / f"{name}.parquet", Preference, parts.votes[2 * number : 2 * number + 2])
    write_parquet(folder / "suites" / "D+.parquet", Comparison, parts.rows)


def _read_bank(_: Parts, folder: Path) -> Any:
    return load_bank(folder / "bank")


def _read_index(parts: Parts, folder: Path) -> Any:
    reader = parts.late.late_reader
    index = open_index(reader, BANK, folder, model_digest="m", progress=False)
    return index.scores(reader.user_vector(["Short"])).tolist()


def _write_replies(_: Parts, folder: Path) -> None:
    cache = ReplyCache(folder / "replies.sqlite")
    try:
        for key, value in REPLIES.items():
            cache.put(key, value)
    finally:
        cache.close()


def _read_replies(_: Parts, folder: Path) -> Any:
    """A reply that is not there is asked for again, and is the same."""
    cache = ReplyCache(folder / "replies.sqlite")
    try:
        return {key: cache.get(key) or value for key, value in REPLIES.items()}
    finally:
        cache.close()


KINDS = {
    "checkpoint": Kind(("last.ckpt", "last.ckpt.sha256"), _write_checkpoint, _read_checkpoint),
    "predictions": Kind(("D+.jsonl",), _write_predictions, _read_predictions),
    "results": Kind(("results.json",), _write_results, _read_results),
    "summary": Kind((f"0/{SUMMARY}",), _write_summary, _read_summary),
    "dataset": Kind(
        ("splits/train.parquet", "suites/D+.parquet"),
        _write_dataset,
        lambda _, folder: (dataset.load(folder), dataset.suite(folder, "D+")),
    ),
    "bank": Kind(
        tuple(f"bank/{name}" for name in ("bank.json", "queries.jsonl", "responses.jsonl")),
        lambda _, folder: BANK.save(folder / "bank"),
        _read_bank,
    ),
    "index": Kind(("index-*/*.npy", "index-*/*.json"), _read_index, _read_index),
    "replies": Kind(("replies.sqlite",), _write_replies, _read_replies),
}
FILES = [(kind, file) for kind, found in KINDS.items() for file in found.files]
