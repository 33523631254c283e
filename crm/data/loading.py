"""One name, one source. In: the plain settings of a data group. Out: `Splits`, whatever the source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crm.data.encoding import PAIRWISE_INSTRUCTION, POINTWISE_INSTRUCTION
from crm.data.sources import Splits, concise_verbose, dsp, eval_rows, records, sizes, summeval, train_rows
from crm.data.sources.sampling import balanced
from crm.simulation.arena import lexicon_texts, simulate


def load_splits(
    name: str,
    *,
    root: str,
    path: str | None,
    train: int,
    validation: int,
    suite: int,
    max_words: int,
    validation_fraction: float,
    test_fraction: float,
    strict: bool,
    seed: int,
) -> Splits:
    """Read a source. Sizes of 0 mean all; raises ``ValueError`` for missing or malformed files."""
    if name == "simulation":
        return _simulated(train or 10_000, validation or 500, suite or 600, seed)
    limits: dict[str, Any] = {"max_train": train or None, "max_suite": suite or None}
    if name == "eval_rows":
        return eval_rows.load(_file(path), seed=seed, strict=strict, max_suite=suite or None)
    load = {"records": records.load, "train_rows": train_rows.load}.get(name)
    if load is not None:
        return load(_file(path), seed=seed, strict=strict, validation=validation_fraction, test=test_fraction)
    words = max_words or None
    if name == "summeval":
        splits = summeval.load(root, seed=seed, strict=strict, max_document_words=words, **limits)
    elif name == "dsp":
        splits = dsp.load(root, seed=seed, strict=strict, max_response_words=words, **limits)
    elif name == "concise_verbose":
        splits = concise_verbose.load(root, seed=seed, strict=strict, max_response_words=words, **limits)
    else:
        raise ValueError(f"data.name={name!r}: no such source")
    return _with_fewer_for_validation(splits, validation, seed)


def _file(path: str | None) -> Path:
    if path is None:
        raise ValueError("data.path=null: this source reads a JSONL file; give data.path=<file>")
    return Path(path)


def _simulated(train: int, validation: int, suite: int, seed: int) -> Splits:
    arena = simulate(seed=seed, train=train, validation=validation, suite=suite)
    counts = sizes(arena.train, arena.validation, arena.suites)
    return Splits(arena.train, arena.validation, dict(arena.suites), counts)


def _with_fewer_for_validation(splits: Splits, size: int, seed: int) -> Splits:
    if not size or size >= len(splits.validation):
        return splits
    kept = balanced(splits.validation, size, seed)
    return Splits(splits.train, kept, splits.suites, {**splits.counts, "validation": size}, splits.rejected)


def tokenizer_texts(seed: int) -> Iterator[str]:
    """What the tiny model's tokenizer is trained on: simulated text of the training topics, and the template's words.

    The template is repeated so that its words become single tokens: it stands in every prompt.
    """
    yield from lexicon_texts(seed)
    template = (
        POINTWISE_INSTRUCTION,
        PAIRWISE_INSTRUCTION,
        "system\n",
        "user\n",
        "assistant\n",
        "response_a\n",
        "response_b\n",
    )
    for _ in range(300):
        yield from template
