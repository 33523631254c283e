"""The simulated arena: preferences for training, validation and the suites D, T, C, C_axes and S.

Everything a model sees of truth is in the criteria: authors have styles but no quality. No prompt is used twice.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crm.schema import Message, Preference, prompt_key
from crm.votes.simulation import lexicon, taste, votes
from crm.votes.simulation.lexicon import AUTHORS, Query, generator
from crm.votes.simulation.responses import DETAIL, Response, write, write_short

SOURCE = "simulation"
SHORT_SHARE = 0.1
"""Of the training votes, those between responses of one sentence: a judge that met none gets them wrong."""


@dataclass(frozen=True, slots=True)
class Arena:
    """Preferences of one simulation. Suites: D like training; unseen are topics in T, wordings in C, axes in C_axes.

    S compares answers of one sentence: the winner's user prefers concise answers, the loser's detailed ones.
    """

    train: list[Preference]
    validation: list[Preference]
    suites: dict[str, list[Preference]]


@dataclass(frozen=True, slots=True)
class _Split:
    """What a split draws from: its topics, the axes of its users, and the kinds of wordings they use."""

    name: str
    size: int
    topics: Sequence[str]
    axes: Sequence[str]
    wordings: Sequence[str]
    short: float = 0.0
    """Share of votes between responses of one sentence."""


def _splits(train: int, validation: int, suite: int) -> list[_Split]:
    seen, axes = lexicon.TRAIN_TOPICS, taste.TRAIN_AXES
    return [
        _Split("train", train, seen, axes, ("train",), SHORT_SHARE),
        _Split("validation", validation, seen, axes, ("train",)),
        _Split("D", suite, seen, axes, ("train",)),
        _Split("T", suite, lexicon.HELD_OUT_TOPICS, axes, ("train",)),
        _Split("C", suite, seen, axes, ("held_out",)),
        _Split("C_axes", suite, seen, taste.HELD_OUT_AXES, taste.WORDINGS),
        _Split("S", suite, seen, (DETAIL,), ("train",), 1.0),
    ]


def _query_streams(seed: int) -> dict[str, Iterator[Query]]:
    """A stream of different queries for every topic, in an order of the seed's own."""
    streams = {}
    for topic in lexicon.TOPIC:
        order = list(lexicon.queries(topic, "votes"))
        generator(seed, topic, "order").shuffle(order)
        streams[topic] = iter(order)
    return streams


def _preference(seed: int, identifier: str, query: Query, split: _Split) -> Preference:
    """One vote on a query; responses are drawn again until they differ on the split's axes."""
    rng = generator(seed, identifier, "vote")
    short = generator(seed, identifier, "short").random() < split.short
    vote = author_a = author_b = None
    while vote is None:
        if split.name == "S":
            first, second, vote = _concise_and_longer(rng, query)
        elif short:
            first, second = (_short(rng, query, split.axes) for _ in "ab")
            vote = votes.cast(rng, first.levels, second.levels, split.axes)
        else:
            author_a, author_b = rng.sample(AUTHORS, 2)
            first, second = write(seed, author_a, query), write(seed, author_b, query)
            vote = votes.cast(rng, first.levels, second.levels, split.axes)
    kind = rng.choice(split.wordings)
    criteria_a, topics_a = votes.put_into_words(rng, vote.tastes_a, kind)
    criteria_b, topics_b = votes.put_into_words(rng, vote.tastes_b, kind)
    return Preference(
        id=identifier,
        prompt=(Message("user", query.text),),
        response_a=(Message("assistant", first.text),),
        response_b=(Message("assistant", second.text),),
        winner=vote.winner,
        criteria_a=criteria_a,
        criteria_b=criteria_b,
        topic=query.topic,
        criteria_topics_a=topics_a,
        criteria_topics_b=topics_b,
        author_a=author_a,
        author_b=author_b,
        source=SOURCE,
    )


def _short(rng: random.Random, query: Query, axes: Sequence[str]) -> Response:
    """One sentence; half of them are on the level of detail, which every longer response expresses."""
    return write_short(rng, query, rng.choice((DETAIL, rng.choice(axes))), rng.choice((-1, 0, 1)))


def _concise_and_longer(rng: random.Random, query: Query) -> tuple[Response, Response, votes.Vote]:
    """Two short answers, the concise one chosen by a user who asks for that, against one who asks for detail."""
    concise, longer = write_short(rng, query, DETAIL, -1), write_short(rng, query, DETAIL, rng.choice((0, 1)))
    while len(longer.text) <= len(concise.text):
        longer = write_short(rng, query, DETAIL, rng.choice((0, 1)))
    if rng.random() < 0.5:
        return concise, longer, votes.Vote("a", {DETAIL: -1}, {DETAIL: 1})
    return longer, concise, votes.Vote("b", {DETAIL: 1}, {DETAIL: -1})


def _fill(seed: int, split: _Split, streams: dict[str, Iterator[Query]]) -> list[Preference]:
    preferences = []
    for index in range(split.size):
        query = next(streams[split.topics[index % len(split.topics)]])
        preferences.append(_preference(seed, f"sim-{seed}-{split.name}-{index:05d}", query, split))
    return preferences


def _check_capacity(splits: Sequence[_Split]) -> None:
    for topic in lexicon.TOPIC:
        # Ceiling division: splits deal their preferences out to their topics in turn.
        needed = sum(-(-split.size // len(split.topics)) for split in splits if topic in split.topics)
        held = len(lexicon.queries(topic, "votes"))
        if needed > held:
            names = ", ".join(f"{split.name}={split.size}" for split in splits if topic in split.topics)
            raise ValueError(
                f"{names}: together they need {needed} different queries on {topic!r}, which has {held};"
                " ask for fewer preferences"
            )


def simulate(*, seed: int, train: int, validation: int, suite: int) -> Arena:
    """Simulate ``train`` and ``validation`` preferences and ``suite`` for each of the five suites.

    About 4 % are ties, none of them in S. Raises ``ValueError`` for a negative size or more than the queries allow.
    """
    for name, size in (("train", train), ("validation", validation), ("suite", suite)):
        if size < 0:
            raise ValueError(f"{name}: {size} is negative; give a number of preferences, 0 or more")
    splits = _splits(train, validation, suite)
    _check_capacity(splits)
    streams = _query_streams(seed)
    filled = {split.name: _fill(seed, split, streams) for split in splits}
    keys = [prompt_key(preference.prompt) for preferences in filled.values() for preference in preferences]
    assert len(keys) == len(set(keys)), "a prompt was used twice"
    return Arena(filled.pop("train"), filled.pop("validation"), filled)


def lexicon_texts(seed: int, responses: int = 3000) -> Iterator[str]:
    """Texts for training a tokenizer: training wordings, queries and responses of training topics, nothing held out."""
    for axis in taste.TRAIN_AXES:
        for sign in (1, -1):
            for wording in taste.wordings(axis, sign, "train"):
                yield wording
                yield wording.lower()
    rng = generator(seed, "lexicon")
    for _ in range(responses):
        query = rng.choice(lexicon.queries(rng.choice(lexicon.TRAIN_TOPICS), "votes"))
        yield query.text
        yield write(seed, rng.choice(AUTHORS), query).text
