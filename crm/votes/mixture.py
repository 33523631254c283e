"""Several sources as one: `Splits` whose suites are named ``<source>.<suite>``; topics held out by name.

Public sets share prompts with one another. A training row whose prompt is in a suite of any source, or in the
validation rows of another, would teach what is asked later: it is left out, and counted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from crm.io.words import first_words
from crm.schema import Message, Preference, prompt_key
from crm.votes.splits import Splits, sizes

HELD_OUT = "H"
"""Suite of the rows whose topic, or broad topic of a criterion, was held out by name."""


def mix(parts: Mapping[str, Splits]) -> Splits:
    """Rows of all parts, in their order; ids begin with the source's name, so that they are unique.

    ``counts`` are those of every source under ``<source>.<count>``, and ``dropped_prompt_in_a_suite``,
    ``dropped_prompt_in_validation`` over all.
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


def shorten(rows: Sequence[Preference], limit: int) -> tuple[list[Preference], int]:
    """Every turn of the responses cut to its first ``limit`` words, and how many rows were dropped for having no two
    different responses left."""
    short = [
        replace(row, response_a=_cut(row.response_a, limit), response_b=_cut(row.response_b, limit)) for row in rows
    ]
    kept = [row for row in short if row.response_a != row.response_b]
    return kept, len(rows) - len(kept)


def _cut(turns: tuple[Message, ...], limit: int) -> tuple[Message, ...]:
    return tuple(Message(turn.role, first_words(turn.content, limit)) for turn in turns)


def _without(rows: Sequence[Preference], keys: Collection[str]) -> list[Preference]:
    return [row for row in rows if prompt_key(row.prompt) not in keys]


def _named(name: str, part: Splits) -> Splits:
    def rename(rows: Sequence[Preference]) -> list[Preference]:
        return [replace(row, id=f"{name}/{row.id}") for row in rows]

    suites = {suite: rename(rows) for suite, rows in part.suites.items()}
    return Splits(rename(part.train), rename(part.validation), suites, part.counts, part.rejected)
