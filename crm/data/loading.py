"""One name, one source. In: the plain settings of a data group. Out: `Splits`, whatever the source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crm.data.encoding import PAIRWISE_INSTRUCTION, POINTWISE_INSTRUCTION
from crm.data.mixture import HELD_OUT, hold_out, mix, shorten
from crm.data.reading import Reading
from crm.data.sources import Splits, concise_verbose, dataset, dsp, sizes, split_records, summeval, table
from crm.data.sources.catalogue import SOURCES, location
from crm.data.sources.sampling import balanced
from crm.schema import Preference
from crm.simulation.arena import lexicon_texts, simulate

OWN_SPLIT = ("simulation", "summeval", "summeval_aspects", "dsp", "concise_verbose", "dataset")


def load_data(*, name: str, sources: Sequence[str], held_out_topics: Sequence[str], **settings: Any) -> Splits:
    """What the settings of a data group ask for: one source, or with the name ``mixture`` all ``sources``.

    In a mixture a topic to hold out is named ``<source>.<topic>``; sizes are those of every source.
    """
    if name != "mixture":
        return load_splits(name, held_out_topics=held_out_topics, **settings)
    held: dict[str, list[str]] = {source: [] for source in sources}
    for topic in held_out_topics:
        source = topic.partition(".")[0]
        if source not in held:
            raise ValueError(f"data.held_out_topics: {topic!r} is not <source>.<topic> of one of {', '.join(sources)}")
        held[source].append(topic.partition(".")[2])
    return mix({source: load_splits(source, held_out_topics=held[source], **settings) for source in sources})


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
    columns: Mapping[str, str] | None = None,
    winners: Mapping[str, str] | None = None,
    held_out_topics: Sequence[str] = (),
    needs_criteria: bool = True,
) -> Splits:
    """Read a source. Sizes of 0 mean all; ``held_out_topics`` make the suite `HELD_OUT`.

    Raises ``ValueError`` for missing or malformed files, for ids that are in two files, and
    where no record has criteria and ``needs_criteria``.
    """
    if held_out_topics and name in OWN_SPLIT:
        raise ValueError(f"data.held_out_topics={list(held_out_topics)}: {name} has a split of its own; leave it empty")
    if name == "simulation":
        return _simulated(train or 10_000, validation or 500, suite or 600, seed)
    limits: dict[str, Any] = {"max_train": train or None, "max_suite": suite or None}
    words = max_words or None
    if name in ("summeval", "summeval_aspects"):
        by_aspect = name == "summeval_aspects"
        limits |= {"max_document_words": words, "aspect_by_aspect": by_aspect}
        splits = summeval.load(root, seed=seed, strict=strict, **limits)
    elif name == "dsp":
        splits = dsp.load(root, seed=seed, strict=strict, max_response_words=words, **limits)
    elif name == "concise_verbose":
        splits = concise_verbose.load(root, seed=seed, strict=strict, max_response_words=words, **limits)
    elif name == "dataset":
        splits = _smaller(dataset.load(Path(str(path))), train, suite, seed)
    else:
        reading = Reading(strict=strict)
        rows = list(read_source(name, reading, root=root, path=path, columns=columns, winners=winners))
        _refuse_repeated_ids(name, rows)
        if max_words:
            rows, reading.counts["dropped_same_when_cut"] = shorten(rows, max_words)
        rows, held = hold_out(rows, held_out_topics) if held_out_topics else (rows, [])
        whole = _split(name, rows, reading, seed, validation_fraction, test_fraction)
        if held:
            whole = replace(whole, suites=whole.suites | {HELD_OUT: held})
        splits = _smaller(whole, train, suite, seed)
    if needs_criteria:
        _refuse_without_criteria(name, splits)
    return _with_fewer_for_validation(splits, validation, seed)


def _refuse_without_criteria(name: str, splits: Splits) -> None:
    """Say what is missing here, where it is known, and not later that no comparison is left."""
    rows = [*splits.train, *splits.validation, *(row for suite in splits.suites.values() for row in suite)]
    if rows and not any(row.criteria_a or row.criteria_b for row in rows):
        refused = f" (some rows were refused, the first is {splits.rejected[0]})" if splits.rejected else ""
        raise ValueError(
            f"data={name}: no record has criteria{refused}, and no comparison can be made without; "
            f"extract some with `python prepare.py data={name} ...`, then read what it wrote with data=dataset; "
            "or evaluate as if of users of whom nothing is known, with criteria=none"
        )


def _refuse_repeated_ids(name: str, rows: list[Preference]) -> None:
    """Reading sees to it in each file; draws and predictions go by id over all files of a folder."""
    seen: set[str] = set()
    for row in rows:
        if row.id in seen:
            raise ValueError(f"data={name}: the id {row.id!r} is in two files; make ids unique over all files")
        seen.add(row.id)


def read_source(
    name: str,
    reading: Reading,
    *,
    root: str,
    path: str | None,
    columns: Mapping[str, str] | None,
    winners: Mapping[str, str] | None,
) -> Iterator[Preference]:
    """The records of a source of the catalogue as they stream by, counted into ``reading``."""
    place = location(name, root=root, path=path)
    if name == "table":
        return table.read(place, reading, columns=columns or {}, winners=winners or {})
    return SOURCES[name].read(place, reading)


def _split(name: str, rows: list[Preference], reading: Reading, seed: int, validation: float, test: float) -> Splits:
    """A source without a split of its own; one to evaluate on is suite ``D`` as a whole."""
    if not SOURCES[name].evaluation_only:
        return split_records(rows, reading, seed=seed, validation=validation, test=test)
    return Splits([], [], {"D": rows}, {**reading.all_counts(), **sizes([], [], {"D": rows})}, reading.rejections)


def _smaller(splits: Splits, train: int, suite: int, seed: int) -> Splits:
    """At most ``train`` rows to train on and ``suite`` in each suite; 0 keeps all, in their order."""
    fewer = balanced(splits.train, train, seed) if train else splits.train
    suites = {name: balanced(rows, suite, seed) if suite else rows for name, rows in splits.suites.items()}
    before = len(splits.train) + sum(map(len, splits.suites.values()))
    dropped = before - len(fewer) - sum(map(len, suites.values()))
    counts = {**splits.counts, "dropped_by_subsampling": dropped, **sizes(fewer, splits.validation, suites)}
    return Splits(fewer, splits.validation, suites, counts, splits.rejected)


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
