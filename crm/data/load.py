"""The preferences that the settings of a data group name, as `Splits`, whatever the source."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from crm.data import table
from crm.data.catalogue import MADE, location, source_named, stem
from crm.data.comparisons import with_generic_criterion
from crm.data.config import DataConfig
from crm.data.own import load_prepared
from crm.data.public import personalized
from crm.data.sampling import balanced
from crm.data.simulation.arena import lexicon_texts, simulate
from crm.data.splits import Splits, by_suite, sizes, split_records
from crm.io.intake import Intake, Rejection
from crm.io.words import first_words
from crm.model.heads import PAIRWISE_INSTRUCTION, POINTWISE_INSTRUCTION
from crm.schema import Message, Preference, prompt_key

HELD_OUT = "H"
"""Suite of the rows whose topic, or broad topic of a criterion, was held out by name."""


def load_data(config: DataConfig, criteria: str = "own") -> Splits:
    """One source, or with the name ``mixture`` several; there a topic to hold out is named ``<source>.<topic>``.

    With ``criteria="none"``, records of a source in which none has criteria get the generic one. Raises ``ValueError``
    for missing or malformed files, for ids that are in two files, and, with ``own``, where no record has criteria.
    """
    if config.name != "mixture":
        return _load(config, criteria)
    held: dict[str, list[str]] = {source: [] for source in config.sources}
    for topic in config.held_out_topics:
        source, _, own = topic.partition(".")
        if source not in held:
            known = ", ".join(config.sources)
            raise ValueError(f"data.held_out_topics: {topic!r} is not <source>.<topic> of one of {known}")
        held[source].append(own)
    parts = {name: replace(config, name=name, sources=[], held_out_topics=held[name]) for name in config.sources}
    return mix({name: _load(part, criteria) for name, part in parts.items()})


def _load(config: DataConfig, criteria: str) -> Splits:
    own_split = config.name in MADE or source_named(config.name).splits is not None
    if config.held_out_topics and own_split:
        topics = list(config.held_out_topics)
        raise ValueError(f"data.held_out_topics={topics}: {config.name} has a split of its own; leave it empty")
    if config.name == "simulation":
        asked = {"train": config.train or 10_000, "validation": config.validation or 500, "suite": config.suite or 600}
        splits = simulate(seed=config.seed, **asked)
    elif config.name == "dataset":
        splits = _smaller(_comparable(load_prepared(Path(str(config.path))), criteria), config)
    elif load := source_named(config.name).splits:
        place, reading = location(config.name, root=config.root, path=config.path), Intake(strict=config.strict)
        asked = {name: getattr(config, name) for name in ("seed", "train", "validation", "suite", "max_words")}
        splits = load(place, reading, **asked)
    else:
        splits = _smaller(_comparable(_split(config), criteria), config)
    if not _any_criteria(splits):
        raise ValueError(_without_criteria(config, splits))
    if not config.validation or config.validation >= len(splits.validation):
        return splits
    kept = balanced(splits.validation, config.validation, config.seed)
    return replace(splits, validation=kept, counts={**splits.counts, "validation": config.validation})


def _split(config: DataConfig) -> Splits:
    """A source without a split of its own; one to evaluate on is held out as a whole."""
    source, reading = source_named(config.name), Intake(strict=config.strict)
    rows = list(reading.unique(read_source(config, reading)))
    if reading.read and not rows:
        found = ", ".join(f"{name} {count:,}" for name, count in reading.all_counts().items() if count)
        raise ValueError(f"data={config.name}: no row can be used: {found}{_first(reading.rejections)}")
    if config.max_words:
        rows, reading.counts["dropped_same_when_cut"] = shorten(rows, config.max_words)
    rows, held = hold_out(rows, config.held_out_topics) if config.held_out_topics else (rows, [])
    if config.split == "all" or source.evaluation_only:
        suites = by_suite(rows, source.suite_of)
        splits = Splits([], [], suites, {**reading.all_counts(), **sizes([], [], suites)}, reading.rejections)
    else:
        splits = split_records(
            rows,
            reading,
            seed=config.seed,
            validation=config.validation_fraction,
            test=config.test_fraction,
            suite_of=source.suite_of,
            near_duplicates=config.near_duplicates,
        )
    return replace(splits, suites=splits.suites | {HELD_OUT: held}) if held else splits


def read_source(config: DataConfig, reading: Intake) -> Iterator[Preference]:
    """The records of a source of the catalogue as they stream by, counted into ``reading``."""
    place = location(config.name, root=config.root, path=config.path)
    if config.name == "personalized_rewardbench":
        shown = {"profile": config.profile, "posts": config.profile_posts, "max_words": config.max_words}
        return personalized.read(place, reading, **shown)  # type: ignore[arg-type]
    if config.name == "table":
        return table.read(place, reading, columns=config.columns or {}, winners=config.winners or {})
    return source_named(config.name).read(place, reading)


def _without_criteria(config: DataConfig, splits: Splits) -> str:
    name, path = config.name, config.path
    shown = "data.profile=bm25 shows what the user asked before, " if name == "personalized_rewardbench" else ""
    read, made = f"data={name}" + (f" data.path={path}" if path else ""), f"datasets/{stem(path or name)}"
    return (
        f"data={name}: no record has criteria{_first(splits.rejected)}, and no comparison can be made without; "
        f"{shown}criteria=none gives every vote one general criterion; or write some with `python prepare.py {read} "
        f"out={made}`, then read them with data=dataset data.path={made}"
    )


def _first(rejected: Sequence[Rejection]) -> str:
    return f" (some rows are bad, the first is {rejected[0]})" if rejected else ""


def _any_criteria(splits: Splits) -> bool:
    """Whether some record has any; true where there are no records at all."""
    rows = [*splits.train, *splits.validation, *(row for suite in splits.suites.values() for row in suite)]
    return not rows or any(row.criteria_a or row.criteria_b for row in rows)


def _comparable(splits: Splits, criteria: str) -> Splits:
    """With ``none``, every record of a source without any criteria with the generic one, and how many they are."""
    if criteria != "none" or _any_criteria(splits):
        return splits
    suites = {name: with_generic_criterion(rows) for name, rows in splits.suites.items()}
    train, validation = with_generic_criterion(splits.train), with_generic_criterion(splits.validation)
    count = len(train) + len(validation) + sum(map(len, suites.values()))
    counts = {"given_generic_criterion": count, **splits.counts}
    return Splits(train, validation, suites, counts, splits.rejected)


def _smaller(splits: Splits, config: DataConfig) -> Splits:
    """At most ``train`` rows to train on and ``suite`` in each suite; 0 keeps all, in their order."""

    def fewer(rows: list[Preference], most: int) -> list[Preference]:
        return balanced(rows, most, config.seed) if most else rows

    train = fewer(splits.train, config.train)
    suites = {name: fewer(rows, config.suite) for name, rows in splits.suites.items()}
    before = len(splits.train) + sum(map(len, splits.suites.values()))
    dropped = before - len(train) - sum(map(len, suites.values()))
    counts = {**splits.counts, "dropped_by_subsampling": dropped, **sizes(train, splits.validation, suites)}
    return Splits(train, splits.validation, suites, counts, splits.rejected)


def mix(parts: Mapping[str, Splits]) -> Splits:
    """Rows of all parts, in their order; ids and suites begin with the source's name.

    Public sets share prompts: a training row whose prompt is in a suite of any source, or in the validation rows of
    another, is left out, and counted.
    """
    named = {name: _named(name, part) for name, part in parts.items()}
    suites = {f"{name}.{suite}": rows for name, part in named.items() for suite, rows in part.suites.items()}
    asked = {prompt_key(row.prompt) for rows in suites.values() for row in rows}
    validation = [row for part in named.values() for row in part.validation]
    kept_validation = _without(validation, asked)
    train = [row for part in named.values() for row in part.train]
    unasked = _without(train, asked)
    kept = _without(unasked, {prompt_key(row.prompt) for row in kept_validation})
    counts = {f"{name}.{key}": count for name, part in named.items() for key, count in part.counts.items()}
    counts["dropped_prompt_in_a_suite"] = len(train) - len(unasked) + len(validation) - len(kept_validation)
    counts["dropped_prompt_in_validation"] = len(unasked) - len(kept)
    rejected = [rejection for part in named.values() for rejection in part.rejected]
    return Splits(kept, kept_validation, suites, counts | sizes(kept, kept_validation, suites), rejected)


def _named(name: str, part: Splits) -> Splits:
    def rename(rows: Sequence[Preference]) -> list[Preference]:
        return [replace(row, id=f"{name}/{row.id}") for row in rows]

    suites = {suite: rename(rows) for suite, rows in part.suites.items()}
    return Splits(rename(part.train), rename(part.validation), suites, part.counts, part.rejected)


def hold_out(rows: Sequence[Preference], names: Collection[str]) -> tuple[list[Preference], list[Preference]]:
    """Rows without the named topics, and those with one: their own topic, or the broad topic of a criterion.

    Rows that share a prompt with a held-out one are in neither. Raises ``ValueError`` for a name that no row has.
    """
    topics = [{row.topic, *row.criteria_topics_a, *row.criteria_topics_b} for row in rows]
    known = {name for found in topics for name in found if name is not None}
    for name in names:
        if name not in known:
            raise ValueError(
                f"data.held_out_topics: no row has {name!r}; there are {', '.join(sorted(known)) or 'no topics at all'}"
            )
    held = [row for row, found in zip(rows, topics, strict=True) if found & set(names)]
    kept = [row for row, found in zip(rows, topics, strict=True) if not found & set(names)]
    return _without(kept, {prompt_key(row.prompt) for row in held}), held


def _without(rows: Sequence[Preference], keys: Collection[str]) -> list[Preference]:
    return [row for row in rows if prompt_key(row.prompt) not in keys]


def shorten(rows: Sequence[Preference], limit: int) -> tuple[list[Preference], int]:
    """Every turn of the responses cut to its first ``limit`` words, and how many rows were dropped for having no two
    different responses left."""

    def cut(turns: tuple[Message, ...]) -> tuple[Message, ...]:
        return tuple(Message(turn.role, first_words(turn.content, limit)) for turn in turns)

    short = [replace(row, response_a=cut(row.response_a), response_b=cut(row.response_b)) for row in rows]
    kept = [row for row in short if row.response_a != row.response_b]
    return kept, len(rows) - len(kept)


def tokenizer_texts(seed: int) -> Iterator[str]:
    """What the tiny model's tokenizer is trained on: simulated text of the training topics, and the template's words.

    The template is repeated so that its words become single tokens: it stands in every prompt.
    """
    yield from lexicon_texts(seed)
    roles = ("system\n", "user\n", "assistant\n", "response_a\n", "response_b\n")
    for _ in range(300):
        yield from (POINTWISE_INSTRUCTION, PAIRWISE_INSTRUCTION, *roles)
