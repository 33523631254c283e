"""The preferences that the settings of a data group name, as `Splits`, whatever the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from crm.data import table
from crm.data.catalogue import location, place_of, source_named, split_files, stem
from crm.data.comparisons import with_generic_criterion
from crm.data.config import DataConfig
from crm.data.own import load_prepared
from crm.data.simulation.arena import lexicon_texts, simulate
from crm.data.splits import Splits, split_by_prompt
from crm.io.draws import grouped
from crm.io.rows import Intake, listed
from crm.io.words import first_words
from crm.model.heads import PAIRWISE_INSTRUCTION, POINTWISE_INSTRUCTION
from crm.schema import Message, Preference, prompt_key

SAME_WHEN_CUT = "dropped_same_when_cut"


def load_data(config: DataConfig, criteria: str = "own") -> Splits:
    """One source, or with the name ``mixture`` several.

    With ``criteria="none"``, records of a source in which none has criteria get the generic one. Raises ``ValueError``
    for missing or malformed files, for ids that are in two files, and, with ``own``, where no record has criteria.
    """
    if config.name != "mixture":
        return _load(config, criteria)
    return mix({name: _load(replace(config, name=name, sources=[]), criteria) for name in config.sources})


def _load(config: DataConfig, criteria: str) -> Splits:
    if config.name == "simulation":
        asked = {"train": config.train or 10_000, "validation": config.validation or 500, "suite": config.suite or 600}
        splits = simulate(seed=config.seed, **asked)
    elif config.name == "dataset":
        splits = load_prepared(place_of(str(config.path)))
        splits = _fewer(splits.changed(partial(shorten, config.max_words, splits.counts)), config, criteria)
    elif load := source_named(config.name).splits:
        place, reading = location(config.name, root=config.root, path=config.path), Intake(strict=config.strict)
        asked = {name: getattr(config, name) for name in ("seed", "train", "validation", "suite", "max_words")}
        splits = load(place, reading, **asked)
    else:
        splits = _fewer(_split(config), config, criteria)
    if not _any_criteria(splits):
        made = f"datasets/{stem(config.path or config.name)}"
        raise ValueError(
            f"{config.word}: no record has criteria, and no comparison can be made without; criteria=none gives every "
            f"vote one general criterion; or write some with `python prepare.py {config.word} out={made}`, then read "
            f"them with data={made}"
        )
    return splits


def _split(config: DataConfig) -> Splits:
    """A source without a split of its own; one to evaluate on is held out as a whole, or its test files are.

    Of a folder with `split_files`, these are the parts, and one without files is taken from train.
    """
    source, counts = source_named(config.name), Counter[str]()
    files = split_files(place_of(config.path, divided=True)) if config.path else {}
    whole = config.split == "all" or source.evaluation_only
    given: dict[str, list[Preference]] = {}
    for part in ["test"] if whole and "test" in files else files or ["train"]:
        rows, reading = read_rows(replace(config, path=str(files[part])) if files else config)
        given[part] = shorten(config.max_words, reading.counts, rows)
        counts.update(reading.all_counts())
    if whole:
        parts = {"train": [], "validation": [], "test": [*chain.from_iterable(given.values())]}
    else:
        taken: Any = {f"{part}_fraction": 0.0 for part in given if part != "train"}
        parts = split_by_prompt(given.pop("train"), replace(config, **taken)) | given
    test, train, validation = parts.pop("test"), parts.pop("train"), parts.pop("validation")
    suites = {"D": test} if source.suite_of is None else grouped(test, source.suite_of)
    return (_apart if files else Splits)(train, validation, suites, counts)


def read_rows(config: DataConfig) -> tuple[list[Preference], Intake]:
    """The records of a source, and how they were read. Raises ``ValueError`` where no row can be used."""
    reading = Intake(strict=config.strict)
    rows = list(read_source(config, reading))
    if reading.read and not rows:
        first = f" (the first is {reading.rejections[0]})" if reading.rejections else ""
        raise ValueError(f"{config.word}: no row can be used: {listed(reading.all_counts())}{first}")
    return rows, reading


def read_source(config: DataConfig, reading: Intake) -> Iterator[Preference]:
    """The records of a source of the catalogue as they stream by, counted into ``reading``."""
    place = location(config.name, root=config.root, path=config.path)
    if config.name == "table":
        return table.read(place, reading, columns=config.columns or {}, winners=config.winners or {})
    return source_named(config.name).read(place, reading)


def _any_criteria(splits: Splits) -> bool:
    """Whether some record has any; true where there are no records at all."""
    rows = splits.rows
    return not rows or any(row.criteria_a or row.criteria_b for row in rows)


def _fewer(splits: Splits, config: DataConfig, criteria: str) -> Splits:
    """At most the rows asked for; with ``none``, rows without any criteria have the generic one."""
    if (cut := splits.counts.get(SAME_WHEN_CUT)) and not splits.rows:
        raise ValueError(f"data.max_words={config.max_words}: all {cut} pairs of responses are then equal; raise it")
    if criteria == "none" and not _any_criteria(splits):
        splits = splits.changed(with_generic_criterion)
        splits.counts["given_generic_criterion"] = len(splits.rows)
    return splits.at_most(seed=config.seed, train=config.train, validation=config.validation, suite=config.suite)


def mix(parts: Mapping[str, Splits]) -> Splits:
    """Rows of all parts, in their order; ids and suites begin with the source's name. Public sets share prompts."""
    named = {name: part.changed(partial(_named, name)) for name, part in parts.items()}
    suites = {f"{name}.{suite}": rows for name, part in named.items() for suite, rows in part.suites.items()}
    validation = [row for part in named.values() for row in part.validation]
    train = [row for part in named.values() for row in part.train]
    counts = {f"{name}.{key}": count for name, part in named.items() for key, count in part.counts.items()}
    return _apart(train, validation, suites, counts)


def _apart(
    train: list[Preference],
    validation: list[Preference],
    suites: dict[str, list[Preference]],
    counts: dict[str, int],
) -> Splits:
    """Leave out, and count, training rows whose prompt is in validation or a suite, and such rows of validation."""
    asked = {prompt_key(row.prompt) for rows in suites.values() for row in rows}
    validating, unasked = _without(validation, asked), _without(train, asked)
    training = _without(unasked, {prompt_key(row.prompt) for row in validating})
    counts["dropped_prompt_in_a_suite"] = len(train) - len(unasked) + len(validation) - len(validating)
    counts["dropped_prompt_in_validation"] = len(unasked) - len(training)
    return Splits(training, validating, suites, counts)


def _named(name: str, rows: Sequence[Preference]) -> list[Preference]:
    return [replace(row, id=f"{name}/{row.id}") for row in rows]


def _without(rows: Sequence[Preference], keys: Collection[str]) -> list[Preference]:
    return [row for row in rows if prompt_key(row.prompt) not in keys]


def shorten(limit: int, counts: dict[str, int], rows: list[Preference]) -> list[Preference]:
    """Every turn of the responses cut to its first ``limit`` words (0: all); rows without two different ones are
    dropped, and counted."""

    def cut(turns: tuple[Message, ...]) -> tuple[Message, ...]:
        return tuple(Message(turn.role, first_words(turn.content, limit)) for turn in turns)

    if not limit:
        return rows
    short = (replace(row, response_a=cut(row.response_a), response_b=cut(row.response_b)) for row in rows)
    kept = [row for row in short if row.response_a != row.response_b]
    counts[SAME_WHEN_CUT] = counts.get(SAME_WHEN_CUT, 0) + len(rows) - len(kept)
    return kept


def tokenizer_texts(seed: int) -> Iterator[str]:
    """What the tiny model's tokenizer is trained on: simulated text of the training topics, and the template's words.

    The template is repeated so that its words become single tokens: it is in every prompt.
    """
    yield from lexicon_texts(seed)
    roles = ("system\n", "user\n", "assistant\n", "response_a\n", "response_b\n")
    for _ in range(300):
        yield from (POINTWISE_INSTRUCTION, PAIRWISE_INSTRUCTION, *roles)
