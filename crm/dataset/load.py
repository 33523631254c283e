"""One name, one source. In: the plain settings of a data group. Out: `Splits`, whatever the source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crm.criteria.profiles import teller
from crm.dataset.comparisons import with_generic_criterion
from crm.io.intake import Intake, Rejection
from crm.model.heads import PAIRWISE_INSTRUCTION, POINTWISE_INSTRUCTION
from crm.schema import Preference
from crm.votes.catalogue import SOURCES, location, source_named, stem
from crm.votes.mixture import HELD_OUT, hold_out, mix, shorten
from crm.votes.own import dataset, table
from crm.votes.public import concise_verbose, dsp, personalized_rewardbench, summeval
from crm.votes.public.personalized_rewardbench import Tell
from crm.votes.sampling import balanced
from crm.votes.simulation.arena import lexicon_texts, simulate
from crm.votes.splits import NEAR_DUPLICATE, Splits, by_suite, sizes, split_records

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
    split: str = "auto",
    near_duplicates: float = NEAR_DUPLICATE,
    columns: Mapping[str, str] | None = None,
    winners: Mapping[str, str] | None = None,
    held_out_topics: Sequence[str] = (),
    profile: str = "none",
    profile_posts: int = 10,
    oracle_rubric: bool = False,
    criteria: str = "own",
) -> Splits:
    """Read a source. Sizes of 0 mean all; ``held_out_topics`` make the suite `HELD_OUT`.

    With ``split="all"`` every row is in a suite. ``near_duplicates`` is the similarity of `prompt_groups`.

    ``profile`` and what follows it are about what ``personalized_rewardbench`` tells of a user (`criteria.profiles`).
    ``criteria`` is a mode of `dataset.comparisons`: with ``none``, records of a source in which none has criteria get
    the generic one. Raises ``ValueError`` for missing or malformed files, for ids that are in two files, and, with
    ``own``, where no record has criteria.
    """
    if held_out_topics and name in OWN_SPLIT:
        raise ValueError(f"data.held_out_topics={list(held_out_topics)}: {name} has a split of its own; leave it empty")
    if name == "simulation":
        return _simulated(train or 10_000, validation or 500, suite or 600, seed)
    if name in OWN_SPLIT and name != "dataset":
        location(name.removesuffix("_aspects"), root=root, path=None)  # says how to fetch what is not there
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
        splits = _smaller(_comparable(dataset.load(Path(str(path))), criteria), train, suite, seed)
    elif name not in SOURCES and (load := source_named(name).splits):
        sizes_asked = {"train": train, "validation": validation, "suite": suite, "max_words": max_words}
        splits = load(location(name, root=root, path=path), seed=seed, **sizes_asked)
    else:
        reading = Intake(strict=strict)
        told = teller(profile, posts=profile_posts, max_words=max_words)
        given: dict[str, Any] = {"columns": columns, "winners": winners, "oracle_rubric": oracle_rubric, "told": told}
        rows = list(reading.unique(read_source(name, reading, root=root, path=path, **given)))
        if reading.read and not rows:
            raise ValueError(
                f"data={name}: no row can be used: {_listed(reading.all_counts())}{_first(reading.rejections)}"
            )
        if max_words:
            rows, reading.counts["dropped_same_when_cut"] = shorten(rows, max_words)
        rows, held = hold_out(rows, held_out_topics) if held_out_topics else (rows, [])
        shares = {"validation": validation_fraction, "test": test_fraction}
        whole = _split(name, rows, reading, split == "all", seed=seed, near_duplicates=near_duplicates, **shares)
        if held:
            whole = replace(whole, suites=whole.suites | {HELD_OUT: held})
        splits = _smaller(_comparable(whole, criteria), train, suite, seed)
    if not _any_criteria(splits):
        _refuse_without_criteria(name, path, splits)
    return _with_fewer_for_validation(splits, validation, seed)


def _refuse_without_criteria(name: str, path: str | None, splits: Splits) -> None:
    """Say what is missing here, where it is known, and not later that no comparison is left."""
    refused = _first(splits.rejected)
    told = "data.profile=bm25 tells what the user asked before, " if name == "personalized_rewardbench" else ""
    read = f"data={name}" + (f" data.path={path}" if path else "")
    made = f"datasets/{stem(path or name)}"
    raise ValueError(
        f"data={name}: no record has criteria{refused}, and no comparison can be made without; {told}criteria=none "
        f"gives every vote one general criterion; or write some with `python prepare.py {read} out={made}`, then read "
        f"them with data=dataset data.path={made}"
    )


def _first(rejected: Sequence[Rejection]) -> str:
    return f" (some rows were refused, the first is {rejected[0]})" if rejected else ""


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)


def _any_criteria(splits: Splits) -> bool:
    """Whether some record has any; true where there are no records at all."""
    rows = [*splits.train, *splits.validation, *(row for suite in splits.suites.values() for row in suite)]
    return not rows or any(row.criteria_a or row.criteria_b for row in rows)


def _comparable(splits: Splits, criteria: str) -> Splits:
    """With ``none``, every record of a source without any criteria with the generic one, and how many they are.

    To be asked before subsampling: what a source has does not depend on which of its rows are drawn.
    """
    if criteria != "none" or _any_criteria(splits):
        return splits
    suites = {name: with_generic_criterion(rows) for name, rows in splits.suites.items()}
    train, validation = with_generic_criterion(splits.train), with_generic_criterion(splits.validation)
    count = len(train) + len(validation) + sum(map(len, suites.values()))
    counts = {"given_generic_criterion": count, **splits.counts}
    return Splits(train, validation, suites, counts, splits.rejected)


def read_source(
    name: str,
    reading: Intake,
    *,
    root: str,
    path: str | None,
    columns: Mapping[str, str] | None,
    winners: Mapping[str, str] | None,
    oracle_rubric: bool = False,
    told: Tell | None = None,
) -> Iterator[Preference]:
    """The records of a source of the catalogue as they stream by, counted into ``reading``."""
    place = location(name, root=root, path=path)
    if name == "personalized_rewardbench":
        return personalized_rewardbench.read(place, reading, oracle_rubric=oracle_rubric, told=told)
    if name == "table":
        return table.read(place, reading, columns=columns or {}, winners=winners or {})
    return source_named(name).read(place, reading)


def _split(name: str, rows: list[Preference], reading: Intake, whole: bool, **settings: Any) -> Splits:
    """A source without a split of its own; one to evaluate on is held out as a ``whole``."""
    source = source_named(name)
    if not (whole or source.evaluation_only):
        return split_records(rows, reading, suite_of=source.suite_of, **settings)
    suites = by_suite(rows, source.suite_of)
    return Splits([], [], suites, {**reading.all_counts(), **sizes([], [], suites)}, reading.rejections)


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
    return replace(splits, validation=kept, counts={**splits.counts, "validation": size})


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
