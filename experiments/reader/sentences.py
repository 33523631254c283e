"""Draw sentences that ask for a criterion, for two, or for nothing, from written ones and from phrases in frames."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from crm.judges.sentence_reader import plain

Side = tuple[str, str]
"""A criterion, and ``more`` or ``less``."""
Target = Mapping[int, float]
"""Probability by class: two a criterion, in the order of `sides`, and the last for nothing."""
FILES = (
    *("wordings", "typed", "hard", "pieces", "tables_and_dashes"),
    *("statements", "everyday", "contexts", "nothing"),
)
MOST, MOST_AROUND = 4, 6
"""Words of a sentence that is looked up, and of a frame."""
OTHER = {"more": "less", "less": "more"}
KINDS = ("nouns", "adjectives", "commands")
LETTERS = re.compile("[a-z]{5,}")
AMERICAN = {
    r"\b(hum|col|fav|flav|lab|rum|hon|behavi|neighb)our": r"\1or",
    r"\b((?:re|de)?(?:organ|summar|apolog|emphas|recogn|general|critic|priorit|personal|moral|formal|memor|special|"
    r"real|patron|custom|categor|standard|dramat|sensational|trivial|minim|maxim|neutral))"
    r"is(e|ed|es|er|ing|ation)\b": r"\1iz\2",
    r"\banalys(e|ed|es|ing)\b": r"analyz\1",
    r"\bcentre": "center",
    r"\bgrey": "gray",
    r"\bprogramme(s?)\b": r"program\1",
}
"""Spellings of the wordings, and what Americans write."""


@cache
def wordings() -> dict[str, Any]:
    """``criteria`` with words for both sides, ``typed``, ``pieces``, ``frames``, ``contrasts``, ``nothing`` ..."""
    read: dict[str, Any] = {}
    for name in FILES:
        _add(read, yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8")))
    return read


def _add(read: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Put entries of another file beside, and lists behind, those of the same name."""
    for name, entry in more.items():
        if isinstance(entry, Mapping):
            _add(read.setdefault(name, {}), entry)
        else:
            read.setdefault(name, []).extend(entry)


def sides() -> list[Side]:
    """Both sides of every criterion, in the order of the classes."""
    return [(name, side) for name in wordings()["criteria"] for side in OTHER]


def unseen() -> list[tuple[str, Side]]:
    """Sentences that training never has, with what they ask for."""
    criteria, typed = wordings()["criteria"], wordings()["typed_unseen"]
    return [
        (text, (name, side))
        for name, side in sides()
        for text in (*criteria[name][side].get("unseen", ()), *typed[name][side])
    ]


def trained_on() -> set[str]:
    """Written sentences and phrases that training has as they stand, as `plain` leaves them."""
    found = set(map(plain, wordings()["nothing"]))
    for name, side in sides():
        own = wordings()["criteria"][name][side]
        found.update(plain(text) for kind in (*KINDS, "sentences") for text in own[kind])
        found.update(plain(text) for kind in ("typed", "hard", "pieces") for text in wordings()[kind][name][side])
    return found


def american(text: str) -> str:
    """The text in American spelling."""
    for ours, theirs in AMERICAN.items():
        text = re.sub(ours, theirs, text, flags=re.IGNORECASE)
    return text


def phrase_table() -> dict[str, Any]:
    """What `sentence_reader.Phrases` takes: phrases and short sentences of one class alone, and frames of phrases."""
    place = {side: row for row, side in enumerate(sides())}
    classes: dict[str, dict[str, set[int]]] = {}
    for name, which in sides():
        own = wordings()["criteria"][name][which]
        written = own["sentences"] + wordings()["typed"][name][which] + wordings()["pieces"][name][which]
        brief = [text for text in written if len(text.split()) <= MOST]
        for kind, texts in (*((kind, own[kind]) for kind in KINDS), ("sentences", brief)):
            for text in texts:
                for spelled in {plain(text), american(plain(text))}:
                    classes.setdefault(kind, {}).setdefault(spelled, set()).add(place[name, which])
    frames = {
        kind: {
            ask: sorted({_around(frame) for frame in texts if len(frame.split()) <= MOST_AROUND})
            for ask, texts in asks.items()
        }
        for kind, asks in wordings()["frames"].items()
    }
    known = {
        kind: {text: of.copy().pop() for text, of in each.items() if len(of) == 1} for kind, each in classes.items()
    }
    return {"phrases": known, "frames": frames}


def _around(frame: str) -> tuple[str, str]:
    """What stands before and after the phrase of a frame, as `plain` leaves it."""
    before, _, after = plain(frame.replace("{}", "\0")).partition("\0")
    return before, after


class Sentences:
    """Draws by ``seed``; ``queries`` are questions to a language model, which ask for nothing of an answer."""

    def __init__(self, seed: int, queries: Sequence[str]) -> None:
        self._rng = random.Random(seed)  # noqa: S311
        self._queries, self._all = queries, wordings()
        self._sides = sides()
        self._class = {side: place for place, side in enumerate(self._sides)}
        self._held_out = {plain(text) for text, _ in unseen()}

    def draw(self) -> tuple[str, Target]:
        """A sentence as somebody may type it: 14 % ask for nothing, 17 % for two things or three."""
        rng, nothing = self._rng, len(self._sides)
        kind = rng.random()
        if kind < 0.14:
            return self._typed(self._foreign()), {nothing: 1.0}
        first, text = self._asked()
        if kind < 0.67 + 0.14:
            return self._typed(text), {self._class[first]: 1.0}
        if kind < 0.83:
            return self._typed(self._joined(text, self._foreign())), {self._class[first]: 0.6, nothing: 0.4}
        asked = {self._class[first]}
        for _ in range(rng.choice((1, 1, 2))):
            side, more = self._asked()
            text = self._joined(text, more)
            asked.add(self._class[side])
        return self._typed(text), dict.fromkeys(asked, 1 / len(asked))

    def _joined(self, text: str, more: str) -> str:
        """Both with what people put between two sentences."""
        more = more[:1].lower() + more[1:] if self._rng.random() < 0.5 else more
        return f"{text.rstrip('.!?')}{self._rng.choice(self._all['joints'])}{more}"

    def _asked(self) -> tuple[Side, str]:
        """A side and a sentence for it; every eighth says how much it counts."""
        rng, side = self._rng, self._rng.choice(self._sides)
        text = self._sentence(side)
        while plain(text) in self._held_out:
            text = self._sentence(side)
        if (how := rng.random()) < 0.06:
            text = rng.choice(self._all["before"]) + text[:1].lower() + text[1:]
        elif how < 0.12:
            text = text.rstrip(".!?") + rng.choice(self._all["after"])
        return side, text

    def _sentence(self, side: Side) -> str:
        """A written one (64 %), a phrase in a frame (20 %), in a statement (5 %), in a contrast (7 %), or alone."""
        rng, (name, which) = self._rng, side
        own = self._all["criteria"][name]
        kind = rng.random()
        if kind < 0.17:
            return str(rng.choice(own[which]["sentences"]))
        if kind < 0.64:
            written = rng.choices(("typed", "hard", "pieces"), (25, 17, 6))[0]
            return str(rng.choice(self._all[written][name][which]))
        if kind < 0.84:
            return self._framed(side, rng.choices(KINDS, (16, 11, 9))[0])
        if kind < 0.89:
            return self._stated(side, rng.choice(KINDS))
        if kind < 0.96:
            phrases = rng.choice(KINDS)
            frame = rng.choice(self._all["contrasts"][phrases])
            return str(frame.format(*(rng.choice(own[each][phrases]) for each in (which, OTHER[which]))))
        return str(rng.choice(own[which][rng.choice(KINDS)]))

    def _framed(self, side: Side, phrases: str) -> str:
        """A phrase of the side in a frame that asks for it, or one of the other side in one that asks against it."""
        rng, (name, which) = self._rng, side
        likes = rng.random() < 0.5
        frame = rng.choice(self._all["frames"][phrases]["for" if likes else "against"])
        return str(frame.format(rng.choice(self._all["criteria"][name][which if likes else OTHER[which]][phrases])))

    def _stated(self, side: Side, phrases: str) -> str:
        """That something is there or is not, and whether that is liked: "it never has lists, what a pain"."""
        rng, (name, which) = self._rng, side
        there, likes = rng.choice(("there", "not there")), rng.choice(("likes", "dislikes"))
        own = which if (there == "there") == (likes == "likes") else OTHER[which]
        statement = rng.choice(self._all["statements"][there][phrases])
        statement = statement.format(rng.choice(self._all["criteria"][name][own][phrases]))
        return str(rng.choice(self._all["reactions"][likes]).format(statement))

    def _foreign(self) -> str:
        """What asks for nothing: a written line, a query, or one to three words of other subjects."""
        rng, kind = self._rng, self._rng.random()
        if kind < 0.5:
            return str(rng.choice(self._all["nothing"]))
        if kind < 0.8:
            return rng.choice(self._queries)
        return " ".join(rng.choice(self._all["words"]) for _ in range(rng.choice((1, 1, 1, 2, 3))))

    def _typed(self, text: str) -> str:
        """The text with the spelling, case, end, apostrophes and slips of somebody who types."""
        rng, case, end = self._rng, self._rng.random(), self._rng.random()
        if rng.random() < 0.4:
            text = american(text)
        if case < 0.3:
            text = text.lower()
        elif case < 0.32:
            text = text.upper()
        elif case < 0.5:
            text = text[:1].upper() + text[1:]
        if end < 0.3:
            text = text.rstrip(".!")
        elif end < 0.4 and text[-1:].isalpha():
            text += "."
        if rng.random() < 0.2:
            text = text.replace("'", rng.choice(("", "’")))
        for _ in range(rng.choices((0, 1, 2), (86, 9, 5))[0]):
            if not (found := list(LETTERS.finditer(text))):
                break
            word = rng.choice(found)
            at = rng.randrange(word.start() + 1, word.end() - 1)
            slip = rng.choice((text[at + 1] + text[at], text[at] * 2 + text[at + 1], text[at + 1]))
            text = f"{text[:at]}{slip}{text[at + 2 :]}"
        return text
