"""Comparisons of preferences under a direction and a kind of noise, and the fixed comparisons of suites.

Direction ``original`` conditions on the winner's criteria, ``reverse`` on the loser's, ``random`` on one of the two,
drawn per sample and epoch. The label is the side that was conditioned on.

The name of a suite is a base (``D``, ``T``, ``C``, ...), then ``+`` (original) or ``-`` (reverse), then ``_<noise>``
where the criteria are perturbed. Suites are a function of the data alone, never of the seed of a run.

Noise perturbs criteria, never the label. For a user with n criteria:

=========  ===========================================================================================
none       the criteria as they are
add        max(1, floor(n/2)) more, from a pool, of broad topics that the loser does not have; shuffled
remove     ceil(n/2) of them stay, in their order
replace    ceil(n/2) - 1 of them give way to the loser's; shuffled. For n = 2 one of the loser's joins
random     one of the four above, uniformly, per sample and epoch
=========  ===========================================================================================

So the result is never empty, ``remove`` keeps at least half and ``replace`` a strict majority. Where an operation is
impossible (``remove`` or ``replace`` with n = 1, nothing fitting in the pool, no criteria on the other side), the
criteria come back as they were and ``applied`` says ``none``. "The loser" is the side that is *not* conditioned on.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, product
from typing import Any, Literal

from crm.config import nearest
from crm.data.splits import Splits
from crm.io.draws import generator, grouped
from crm.schema import GENERIC_CRITERION, MAX_CRITERIA, Comparison, Preference, folded

Side = Literal["a", "b"]
OPERATIONS = ("none", "add", "remove", "replace")
NOISES = (*OPERATIONS, "random")
WITHOUT_EFFECT = "changes nothing here: it takes criteria of other votes, or a side with several"
DIRECTIONS = ("original", "reverse", "random", "both")
"""``both`` makes two comparisons of a preference, one a side; the others make one."""
SIGNS = {"+": "original", "-": "reverse"}
SUITES = {"standard": NOISES[:1], "noised": ("add", "remove", "replace"), "all": ("none", "add", "remove", "replace")}
"""What ``suite=`` takes for every base of the data with these noises."""
SUITE = re.compile(r"[\w.]+[+-]\w*")
"""One suite, such as ``D+``, ``C_axes-`` or ``dsp.D-_add``."""
TIES = ("drop", "soft")
CRITERIA_MODES = ("own", "none")
FIXED_SEED = 42
"""Of what is drawn once and is the same for every run on the same data, whatever its seed: noise of suites, direction
and order of validation."""


def make_comparisons(
    preferences: Iterable[Preference],
    *,
    direction: str,
    noise: str,
    pool: CriteriaPool | None,
    seed: int,
    epoch: int,
    ties: str = "drop",
    criteria_mode: str = "own",
) -> tuple[list[Comparison], dict[str, int]]:
    """All comparisons in the order of ``preferences``, and how many rows went where.

    Counts: ``made``, ``ties_dropped``, ``without_criteria``, ``same_criteria`` (see `contradicts_itself`; these add up
    to the rows read), and of those made ``direction_<used>`` and ``noise_<applied>``: what was really done, never
    ``random``. Direction ``both`` reads every preference twice, as ``original`` and then as ``reverse``: in a batch
    that holds the two, all that does not depend on the criteria cancels.

    With ``ties="soft"`` a tie keeps the label ``tie`` under criteria of a drawn side. ``criteria_mode="none"`` shows
    `GENERIC_CRITERION` instead, without noise, on exactly the rows that ``own`` would give: a fair control.
    """
    made: list[Comparison] = []
    counts: Counter[str] = Counter(made=0, ties_dropped=0, without_criteria=0)
    directions = ("original", "reverse") if direction == "both" else (direction,)
    for preference, single in product(preferences, directions):
        side = choose_side(preference, single, seed=seed, epoch=epoch, ties=ties)
        if side is None:
            dropped_tie = preference.winner == "tie" and ties == "drop"
            why = "same_criteria" if contradicts_itself(preference) else "without_criteria"
            counts["ties_dropped" if dropped_tie else why] += 1
            continue
        criteria: tuple[str, ...] = (GENERIC_CRITERION,)
        applied = "none"
        if criteria_mode == "own":
            criteria, applied = add_noise(preference, side, kind=noise, pool=pool, seed=seed, epoch=epoch)
        used = "original" if side == nominal_winner(preference, seed=seed, epoch=epoch, ties=ties) else "reverse"
        comparison = Comparison(
            id=f"{preference.id}|{used}|{applied}",
            preference_id=preference.id,
            criteria=criteria,
            prompt=preference.prompt,
            response_a=preference.response_a,
            response_b=preference.response_b,
            label="tie" if preference.winner == "tie" else side,
            direction=used,
            noise=applied,
        )
        made.append(comparison)
        counts.update(("made", f"direction_{used}", f"noise_{applied}"))
    return made, dict(counts)


def with_generic_criterion(preferences: Iterable[Preference]) -> list[Preference]:
    """Rows without criteria as rows that can be compared: the winner's side (of a tie: both) has `GENERIC_CRITERION`.

    Such a row is a comparison in direction ``original`` and in no other. Only for a source in which no row has
    criteria: in one that has some, a row without is left out.
    """
    generic = (GENERIC_CRITERION,)
    return [
        replace(row, criteria_a=() if row.winner == "b" else generic, criteria_b=() if row.winner == "a" else generic)
        for row in preferences
    ]


def choose_side(preference: Preference, direction: str, *, seed: int, epoch: int, ties: str = "drop") -> Side | None:
    """The side to condition on, or ``None`` where the vote is a dropped tie or that side has no criteria.

    ``random`` falls back to the side that has criteria; ``original`` and ``reverse`` do not, because that would
    change the direction that was asked for.
    """
    winner = nominal_winner(preference, seed=seed, epoch=epoch, ties=ties)
    if winner is None:
        return None
    if direction != "original" and contradicts_itself(preference):
        return winner if direction == "random" else None
    criteria = {"a": preference.criteria_a, "b": preference.criteria_b}
    if direction == "random":
        # The draw is over sides, not over winner and loser: half of the draws reverse the vote either way.
        side = _drawn(seed, epoch, preference.id, "direction")
        return side if criteria[side] else _other(side) if criteria[_other(side)] else None
    side = winner if direction == "original" else _other(winner)
    return side if criteria[side] else None


def contradicts_itself(preference: Preference) -> bool:
    """Whether both sides of a decided vote have the same criteria: the reverse direction would say the contrary of the
    original of one and the same user, so it is not defined."""
    a, b = preference.criteria_a, preference.criteria_b
    return preference.winner != "tie" and 0 < len(a) == len(b) and set(map(folded, a)) == set(map(folded, b))


def nominal_winner(preference: Preference, *, seed: int, epoch: int, ties: str = "drop") -> Side | None:
    """The winner; for a tie ``None`` (``drop``) or a side drawn per sample and epoch (``soft``).

    The drawn side takes the winner's place, so ``original`` and ``reverse`` still show opposite sides of a tie.
    """
    if preference.winner == "tie":
        return None if ties == "drop" else _drawn(seed, epoch, preference.id, "tie")
    return "a" if preference.winner == "a" else "b"


def _drawn(seed: int, epoch: int, name: str, purpose: str) -> Side:
    return "a" if generator(seed, epoch, name, purpose).random() < 0.5 else "b"


def _other(side: Side) -> Side:
    return "b" if side == "a" else "a"


def suite_names(bases: Collection[str], noises: Sequence[str] = ("none",)) -> list[str]:
    """Every suite of these bases and noises: for ``["D"], ["none", "add"]``: D+, D-, D+_add, D-_add."""
    endings = ["" if noise == "none" else f"_{noise}" for noise in noises]
    return [f"{base}{sign}{ending}" for base in bases for ending in endings for sign in SIGNS]


def parse_suite(name: str, bases: Collection[str]) -> tuple[str, str, str]:
    """Base, direction and noise of a suite. Raises ``ValueError`` with the nearest valid name for another name."""
    for base, (sign, direction), noise in product(bases, SIGNS.items(), NOISES):
        if name == base + sign + ("" if noise == "none" else f"_{noise}"):
            return base, direction, noise
    hint = nearest(name, suite_names(bases, NOISES))
    raise ValueError(
        f"suite: {name!r} is not a suite of this data{hint}; a name is one of {', '.join(bases) or 'no bases'}, "
        f"then + or -, then optionally _ and one of {', '.join(NOISES[1:])}"
    )


def fixed_suites(
    names: Sequence[str], splits: Splits, *, criteria_mode: str = "own"
) -> dict[str, tuple[list[Comparison], dict[str, int]]]:
    """The comparisons of each suite, the same for every run on these data, and the counts of `make_comparisons`.

    Drawn once, at epoch 0; ties are dropped. Training rows are the pool of noise.
    """
    parsed = {name: parse_suite(name, list(splits.suites)) for name in names}
    noised = any(noise != "none" for _, _, noise in parsed.values())
    drawn: Any = {
        "pool": CriteriaPool.from_preferences(splits.train) if noised else None,
        "seed": FIXED_SEED,
        "epoch": 0,
        "criteria_mode": criteria_mode,
    }
    return {
        name: make_comparisons(splits.suites[base], direction=direction, noise=noise, **drawn)
        for name, (base, direction, noise) in parsed.items()
    }


class CriteriaPool:
    """Distinct criteria grouped by broad topic, to draw from without the topics of a loser.

    A text that occurs under several topics carries all of them. Criteria without a topic cannot be separated from the
    loser's, so they stay out. The pool depends on the set of entries, not their order.
    """

    def __init__(self, entries: Iterable[tuple[str, Collection[str]]]) -> None:
        topics_of: dict[str, set[str]] = {}
        text_of: dict[str, str] = {}
        for text, topics in entries:
            if topics:
                topics_of.setdefault(folded(text), set()).update(topics)
                text_of[folded(text)] = min(text, text_of.get(folded(text), text))
        groups = grouped(sorted(topics_of), lambda key: frozenset(topics_of[key]))
        self._groups = [(topics, [text_of[key] for key in keys]) for topics, keys in groups.items()]
        """In order of their smallest text."""

    @classmethod
    def from_preferences(cls, preferences: Iterable[Preference]) -> CriteriaPool:
        """Pool the criteria of both sides. Topics that do not pair up with the criteria are given to all of them."""
        entries: list[tuple[str, Collection[str]]] = []
        for preference in preferences:
            for criteria, topics in (
                (preference.criteria_a, preference.criteria_topics_a),
                (preference.criteria_b, preference.criteria_topics_b),
            ):
                paired = len(criteria) == len(topics)
                entries += [(text, (topics[i],) if paired else topics) for i, text in enumerate(criteria)]
        return cls(entries)

    def draw(
        self, count: int, *, without_topics: Collection[str], without: Collection[str], rng: random.Random
    ) -> list[str]:
        """Up to ``count`` distinct criteria, uniformly from those that share no topic and no text with the given.

        Costs O(groups + count + len(without)), whatever the size of the pool. Fewer come back when fewer exist.
        """
        allowed = [texts for topics, texts in self._groups if topics.isdisjoint(without_topics)]
        ends = list(accumulate(map(len, allowed)))
        unwanted = {folded(text) for text in without}
        total = ends[-1] if ends else 0
        # At most len(unwanted) of the sampled places are refused, so this many are enough and nothing is redrawn.
        places = rng.sample(range(total), min(total, count + len(unwanted)))
        texts = (_at(allowed, ends, place) for place in places)
        return [text for text in texts if folded(text) not in unwanted][:count]


def add_noise(
    preference: Preference, side: str, *, kind: str, pool: CriteriaPool | None, seed: int, epoch: int
) -> tuple[tuple[str, ...], str]:
    """The criteria of a side that has some, perturbed as the table above says, and which of `OPERATIONS` was applied.

    Pure: a function of its arguments alone. ``kind`` is one of `NOISES`; ``add`` and ``random`` need a ``pool``.
    """
    own, other = preference.criteria_a, preference.criteria_b
    other_topics = preference.criteria_topics_b
    if side == "b":
        own, other, other_topics = other, own, preference.criteria_topics_a
    rng = generator(seed, epoch, preference.id, "noise")
    operation = rng.choice(OPERATIONS) if kind == "random" else kind
    changed = None
    if operation == "add" and pool is not None:
        changed = _add(own, pool, other, other_topics, rng)
    elif operation == "remove" and len(own) > 1:
        changed = tuple(own[place] for place in sorted(rng.sample(range(len(own)), (len(own) + 1) // 2)))
    elif operation == "replace" and len(own) > 1:
        changed = _replace(own, other, rng)
    return (changed, operation) if changed else (own, "none")


def _add(
    own: tuple[str, ...], pool: CriteriaPool, other: tuple[str, ...], other_topics: Collection[str], rng: random.Random
) -> tuple[str, ...] | None:
    count = max(0, min(max(1, len(own) // 2), MAX_CRITERIA - len(own)))
    gained = pool.draw(count, without_topics=other_topics, without=[*own, *other], rng=rng)
    return tuple(rng.sample([*own, *gained], len(own) + len(gained))) if gained else None


def _replace(own: tuple[str, ...], other: tuple[str, ...], rng: random.Random) -> tuple[str, ...] | None:
    known = {folded(text) for text in own}
    foreign = list({folded(text): text for text in other if folded(text) not in known}.values())
    if not foreign:
        return None
    gained = rng.sample(foreign, min(len(foreign), max(1, (len(own) + 1) // 2 - 1)))
    # Exchanging one of two would leave a draw, so with n = 2 both stay and the stranger joins them.
    lost = 0 if len(own) == 2 else len(gained)
    mixed = [*rng.sample(own, len(own) - lost), *gained]
    return tuple(rng.sample(mixed, len(mixed)))


def _at(groups: list[list[str]], ends: list[int], place: int) -> str:
    group = bisect_right(ends, place)
    return groups[group][place - (ends[group - 1] if group else 0)]
