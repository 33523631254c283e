"""The simulated arena: preferences for training, validation and the suites D, T, C, C_axes and S.

Everything a model sees of truth is in the criteria: authors have styles but no quality. No prompt is used twice. A user
holds one to four signed axes; the utility of a response is the sum of sign times level. The user of each side prefers
that side, but for Bradley-Terry noise: now and then a vote contradicts its criteria.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from crm.data.public.pairs import two_sided
from crm.data.simulation import lexicon
from crm.data.simulation.lexicon import (
    AUTHORS,
    AXIS,
    DETAIL,
    Query,
    Response,
    draw_wording,
    generator,
    write,
    write_short,
)
from crm.data.splits import Splits
from crm.schema import Preference

SHORT_SHARE = 0.1
"""Of the training votes, those between responses of one sentence: a judge that met none gets them wrong."""
TASTE_COUNTS = (1, 2, 3, 4)
TASTE_WEIGHTS = (0.5, 0.3, 0.15, 0.05)
"""How many tastes a user holds, and how often; single tastes lead, since leaderboards are asked for one criterion."""
RATIONALITY = 4.0
"""Bradley-Terry slope: a vote contradicts a utility difference d with probability 1 / (1 + exp(RATIONALITY |d|))."""
TIE_SHARE = 0.04
"""Share of records whose users are indifferent."""
TELLING_SHARE, FAVOURING_SHARE = 0.9, 0.95
"""Share of tastes drawn among the axes on which the two responses differ, and of those, share that favours the side."""
DETAIL_WEIGHT = 0.35
"""Weight of the detail axis against any other: responses differ on it so often that it would be half of all tastes."""
LOWER_CASE_SHARE = 0.25
"""Share of users who write their criteria without capital letters."""

Levels = Mapping[str, int]
Tastes = Mapping[str, int]
Vote = tuple[str, Tastes, Tastes]
"""Winner (``a``, ``b`` or ``tie``) and the tastes (axis -> sign) of the users who speak for each side."""


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
    seen, axes = lexicon.TRAIN_TOPICS, lexicon.TRAIN_AXES
    return [
        _Split("train", train, seen, axes, ("train",), SHORT_SHARE),
        _Split("validation", validation, seen, axes, ("train",)),
        _Split("D", suite, seen, axes, ("train",)),
        _Split("T", suite, lexicon.HELD_OUT_TOPICS, axes, ("train",)),
        _Split("C", suite, seen, axes, ("held_out",)),
        _Split("C_axes", suite, seen, lexicon.HELD_OUT_AXES, lexicon.WORDINGS),
        _Split("S", suite, seen, (DETAIL,), ("train",), 1.0),
    ]


def utility(tastes: Tastes, levels: Levels) -> int:
    """Sum over the user's axes of sign times level."""
    return sum(sign * levels[axis] for axis, sign in tastes.items())


def _draw_tastes(rng: random.Random, gaps: Levels, wanted: int) -> dict[str, int] | None:
    """Tastes under which the utility difference A - B has the sign ``wanted`` (0: indifferent); None if unlucky.

    ``gaps`` maps every axis allowed to level in A minus level in B. Criteria are written for a side with both responses
    in view (arXiv 2508.09463), so most of them name something that tells the two apart, in that side's favour; the
    rest are about something else, or speak for the other side and are outweighed.
    """
    count = min(rng.choices(TASTE_COUNTS, TASTE_WEIGHTS)[0], len(gaps))
    differing = [axis for axis, gap in gaps.items() if gap]
    for _ in range(20):
        tastes: dict[str, int] = {}
        while len(tastes) < count:
            among = differing if differing and rng.random() < TELLING_SHARE else list(gaps)
            axis = rng.choices(among, [DETAIL_WEIGHT if axis == DETAIL else 1.0 for axis in among])[0]
            favours = wanted if rng.random() < FAVOURING_SHARE else -wanted
            tastes.setdefault(axis, _sign(gaps[axis] * favours) or rng.choice((-1, 1)))
        if _sign(utility(tastes, gaps)) == wanted:
            return tastes
    return None


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def cast(rng: random.Random, levels_a: Levels, levels_b: Levels, axes: Sequence[str]) -> Vote | None:
    """One vote between two responses by users whose tastes lie on ``axes``; None when the responses give no ground.

    The winner is drawn first, then a user for each side, so nothing but the criteria tells who won. A user whose noisy
    vote contradicts their tastes is on the wrong side: their criteria prefer the other response.
    """
    gaps = {axis: levels_a[axis] - levels_b[axis] for axis in axes}
    winner = "tie" if rng.random() < TIE_SHARE else rng.choice("ab")
    sides = []
    for side in (1, -1):
        tastes = _draw_tastes(rng, gaps, 0 if winner == "tie" else side)
        if tastes is None:
            return None
        mistake = 1.0 / (1.0 + math.exp(RATIONALITY * abs(utility(tastes, gaps))))
        if winner != "tie" and rng.random() < mistake:
            tastes = {axis: -sign for axis, sign in tastes.items()}
        sides.append(tastes)
    return winner, sides[0], sides[1]


def put_into_words(rng: random.Random, tastes: Tastes, kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Criteria of a user and, in parallel, their broad topics; ``kind`` of wordings as in `lexicon.WORDINGS`."""
    criteria = [draw_wording(rng, axis, sign, kind) for axis, sign in tastes.items()]
    if rng.random() < LOWER_CASE_SHARE:
        criteria = [wording.lower() for wording in criteria]
    return tuple(criteria), tuple(AXIS[axis].topic for axis in tastes)


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
            vote = cast(rng, first.levels, second.levels, split.axes)
        else:
            author_a, author_b = rng.sample(AUTHORS, 2)
            first, second = write(seed, author_a, query), write(seed, author_b, query)
            vote = cast(rng, first.levels, second.levels, split.axes)
    kind = rng.choice(split.wordings)
    winner, tastes_a, tastes_b = vote
    a = first.text, *put_into_words(rng, tastes_a, kind), author_a
    b = second.text, *put_into_words(rng, tastes_b, kind), author_b
    return two_sided(identifier, query.text, a, b, winner, "simulation", topic=query.topic)


def _short(rng: random.Random, query: Query, axes: Sequence[str]) -> Response:
    """One sentence; half of them are on the level of detail, which every longer response expresses."""
    return write_short(rng, query, rng.choice((DETAIL, rng.choice(axes))), rng.choice((-1, 0, 1)))


def _concise_and_longer(rng: random.Random, query: Query) -> tuple[Response, Response, Vote]:
    """Two short answers, the concise one chosen by a user who asks for that, against one who asks for detail."""
    concise, longer = write_short(rng, query, DETAIL, -1), write_short(rng, query, DETAIL, rng.choice((0, 1)))
    while len(longer.text) <= len(concise.text):
        longer = write_short(rng, query, DETAIL, rng.choice((0, 1)))
    if rng.random() < 0.5:
        return concise, longer, ("a", {DETAIL: -1}, {DETAIL: 1})
    return longer, concise, ("b", {DETAIL: 1}, {DETAIL: -1})


def _fill(seed: int, split: _Split, streams: dict[str, Iterator[Query]]) -> list[Preference]:
    queries = (next(streams[split.topics[index % len(split.topics)]]) for index in range(split.size))
    return [_preference(seed, f"sim-{seed}-{split.name}-{place:05d}", own, split) for place, own in enumerate(queries)]


def _check_capacity(splits: Sequence[_Split]) -> None:
    for topic in lexicon.TOPIC:
        # Ceiling division: splits deal their preferences out to their topics in turn.
        needed = sum(-(-split.size // len(split.topics)) for split in splits if topic in split.topics)
        if needed > (there := len(lexicon.queries(topic, "votes"))):
            why = f"needs {needed} different queries on {topic!r}, which has {there}; ask for fewer preferences"
            raise ValueError(f"data=simulation: {why}")


def simulate(*, seed: int, train: int, validation: int, suite: int) -> Splits:
    """Simulate ``train`` and ``validation`` preferences and ``suite`` for each of the suites.

    D is like training; unseen are topics in T, wordings in C, axes in C_axes. S compares answers of one sentence: the
    winner's user prefers concise answers, the loser's detailed ones. About 4 % are ties, none of them in S.
    """
    splits = _splits(train, validation, suite)
    _check_capacity(splits)
    streams = _query_streams(seed)
    return Splits.of({split.name: _fill(seed, split, streams) for split in splits})


def lexicon_texts(seed: int, responses: int = 3000) -> Iterator[str]:
    """Texts for training a tokenizer: training wordings, queries and responses of training topics, nothing held out."""
    for axis in lexicon.TRAIN_AXES:
        for sign in (1, -1):
            for wording in lexicon.wordings(axis, sign, "train"):
                yield wording
                yield wording.lower()
    rng = generator(seed, "lexicon")
    for _ in range(responses):
        query = rng.choice(lexicon.queries(rng.choice(lexicon.TRAIN_TOPICS), "votes"))
        yield query.text
        yield write(seed, rng.choice(AUTHORS), query).text
