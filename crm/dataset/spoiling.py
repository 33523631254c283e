"""Responses that nobody prefers. In: comparisons. Out: some of them with their losing response spoiled.

Votes are between whole responses. A judge that learned from them alone has no reason to turn down an empty response,
which is as concise as can be, or one that repeats the user's own words.

Letters of nowhere decide nothing: they stand beside the response that wins as often as beside the one that loses. A
judge that met them in losers alone would turn down every word that it does not know, those of unseen topics too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from crm.io.draws import generator
from crm.schema import Comparison, Message

Turns = tuple[Message, ...]
SHORTEST = 8
"""Characters that a winner has more of, where its loser is spoiled."""
MOST_KEPT = 0.4
"""Of a winning response, what a cut one has at most: little enough to be worse for somebody who likes it short, too."""


def spoiled(comparisons: Iterable[Comparison], share: float, *, seed: int, epoch: int) -> Iterator[Comparison]:
    """The comparisons in their order, about ``share`` (0 to 1) of them spoiled.

    Which ones, and how, depends on (seed, epoch, id) alone. Labels stay; so do ties, and winners that are as good as
    empty themselves.
    """
    for comparison in comparisons:
        rng = generator(seed, epoch, comparison.id, "spoiling")
        drawn = rng.random() < share and comparison.label != "tie"
        long_enough = drawn and len(winner_and_loser(comparison)[0][-1].content) > SHORTEST
        yield spoil(comparison, rng.choice(DRAWN), rng) if long_enough else comparison


def is_spoiled(comparison: Comparison) -> bool:
    """Whether it was spoiled."""
    return comparison.id.endswith(tuple(f"|{kind}" for kind in SPOILS))


def spoil(comparison: Comparison, kind: str, rng: random.Random) -> Comparison:
    """The comparison spoiled as ``kind`` (a key of `SPOILS`) says, which its id tells.

    Raises ``ValueError`` for a tie, which has no loser.
    """
    winner, loser = winner_and_loser(comparison)
    text = SPOILS[kind](rng, winner[-1].content, loser[-1].content, comparison.criteria)
    if kind == GARBLED_WINNER:
        return turned(with_loser(turned(comparison), winner, text, kind))
    return with_loser(comparison, winner if kind in ("empty", "cut") else loser, text, kind)


def winner_and_loser(comparison: Comparison) -> tuple[Turns, Turns]:
    """The responses that this user does and does not prefer. Raises ``ValueError`` for a tie, which has neither."""
    if comparison.label == "tie":
        raise ValueError(f"label: {comparison.id} is a tie, expected a comparison that one response loses")
    sides = (comparison.response_a, comparison.response_b)
    return sides if comparison.label == "a" else sides[::-1]


def turned(comparison: Comparison) -> Comparison:
    """The same with winner and loser exchanged, a tie as it is."""
    return replace(comparison, label={"a": "b", "b": "a"}.get(comparison.label, comparison.label))


def with_loser(comparison: Comparison, turns: Turns, text: str, name: str) -> Comparison:
    """The comparison with ``turns`` as its loser, ``text`` as the last of them, and ``name`` at the end of its id."""
    loser = (*turns[:-1], replace(turns[-1], content=text))
    identifier = f"{comparison.id}|{name}"
    if comparison.label == "a":
        return replace(comparison, id=identifier, response_b=loser)
    return replace(comparison, id=identifier, response_a=loser)


def emptied(rng: random.Random, whole: str) -> str:
    """Next to nothing."""
    return rng.choice(("", " ", ".", "...", "\n", "-"))


def cut(rng: random.Random, whole: str, most: float = 0.5) -> str:
    """The first tenth, up to the share ``most``, of the whole, ended anywhere."""
    return whole[: max(1, round(len(whole) * rng.uniform(0.1, most)))]


def stuffed(rng: random.Random, worse: str, criteria: Sequence[str], most: int = 8) -> str:
    """A response, and the wish said again and again, 2 to ``most`` times, before or after it."""
    return _beside(rng, " ".join([". ".join(criteria)] * rng.randint(2, most)), worse)


def _beside(rng: random.Random, text: str, response: str) -> str:
    """The text before or after the response."""
    return f"{text}\n\n{response}" if rng.random() < 0.5 else f"{response}\n\n{text}"


def _stuffed(rng: random.Random, loser: str, criteria: Sequence[str]) -> str:
    """Whole wishes, or single words of them: a keyword alone may please as well."""
    said = criteria if rng.random() < 0.5 else [rng.choice(". ".join(criteria).split())]
    return stuffed(rng, loser, said, most=20)


def _hidden(rng: random.Random, loser: str, criteria: Sequence[str]) -> str:
    """The wish once or twice, between its letters a character that nobody sees."""
    return _beside(rng, chr(rng.choice(_UNSEEN)).join(". ".join(criteria) * rng.randint(1, 2)), loser)


def _garbled(rng: random.Random, response: str) -> str:
    """Letters of nowhere, 5 to 200, in words of up to 60, before or after the response."""
    kind = rng.choice((_LATIN, _ANY))
    letters = [chr(rng.choice(rng.choice(kind))) for _ in range(rng.randint(5, 200))]
    for place in range(rng.randint(1, 60), len(letters), 60):
        letters[place] = " "
    return _beside(rng, "".join(letters), response)


_LATIN = (range(ord("a"), ord("z")), range(ord("A"), ord("Z")), range(ord("0"), ord("9")))
_UNSEEN = range(0x200B, 0x200E)
_ANY = (*_LATIN, range(0xE0, 0x17F), range(0x4E00, 0x9FFF), _UNSEEN)
GARBLED_WINNER = "garbled winner"
SPOILS: dict[str, Callable[[random.Random, str, str, Sequence[str]], str]] = {
    "empty": lambda rng, winner, loser, criteria: emptied(rng, winner),
    "cut": lambda rng, winner, loser, criteria: cut(rng, winner, MOST_KEPT),
    "stuffed": lambda rng, winner, loser, criteria: _stuffed(rng, loser, criteria),
    "hidden": lambda rng, winner, loser, criteria: _hidden(rng, loser, criteria),
    "repeated": lambda rng, winner, loser, criteria: f"{loser}\n\n{loser}",
    "garbled": lambda rng, winner, loser, criteria: _garbled(rng, loser),
    GARBLED_WINNER: lambda rng, winner, loser, criteria: _garbled(rng, winner),
}
"""Kind to the new text of the loser, or of the garbled winner; of the winner's text, the loser's, and the criteria."""
DRAWN = (*SPOILS, *["garbled", GARBLED_WINNER] * 2)
"""Kinds as often as they are drawn."""
