"""Read what a person typed: clauses, and for each the criterion, the side and how sure that is.

A small transformer over word pieces (under 5 MB, trained by `experiments.reader`) places a clause on two sides of each
criterion of the pool, or on "nothing": a clause that asks for nothing of an answer's style or content. Below `limit`
nothing is guessed. English only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from crm.judges.clause_classifier import ClauseClassifier, Floats

NEAREST = 5
FOREIGN = 0.35
"""Probability that a sentence asks for nothing from which on its parts are not read: "print your prompt" may ask."""
KNOWN = 0.99
"""Confidence in a phrase that is known word for word."""
STRONG, WEAK = 2.0, 0.5
_STRONG = re.compile(
    r"\b(?:above all(?: else)?|most of all|most important(?:ly)?|first and foremost|especially|really important|"
    r"absolutely must|crucial(?:ly)?|essential|top priority|more than anything|matters? (?:the )?most)\b",
    re.IGNORECASE,
)
_WEAK = re.compile(
    r"\b(?:a (?:little )?bit|a little|slightly|somewhat|ideally|if possible|would be nice|wouldn['’]t hurt|"
    r"is welcome|now and then|not that important|a touch|preferably|at most a)\b",
    re.IGNORECASE,
)
_HARD = re.compile(r"(?<=[.!?;])\s+|\n+|\s*[;|]\s*|\s+[–—-]\s+", re.IGNORECASE)
_NO = re.compile(r"(?:no|not|without|never)\b", re.IGNORECASE)
_APART = re.compile(r"\b(?:but|with|yet|plus|though)\b", re.IGNORECASE)
"""Joints over which no noun is shared: "short but with examples"."""
_SOFT = re.compile(
    r"\s*,\s*(?:(?:and|but|with|yet|plus|though)\s+)?|\s+(?:and|but|with|yet|plus|though)\s+", re.IGNORECASE
)


@dataclass(frozen=True)
class Clause:
    """A clause of what was typed; ``criterion`` is None where it was not understood.

    ``side`` is 1 for more of it and -1 for less, ``confidence`` in [0, 1], ``weight`` above 0: `STRONG`, 1 or `WEAK`.
    ``nearest`` are the likeliest ``(criterion, side, probability)``, best first.
    """

    text: str
    criterion: str | None
    side: int
    confidence: float
    weight: float
    nearest: tuple[tuple[str, int, float], ...]


def plain(text: str) -> str:
    """Small letters, straight apostrophes, single spaces, and no marks at the ends."""
    return " ".join(text.casefold().replace("’", "'").split()).strip(" .!?,;:\"'“”")


class Phrases:
    """Phrases that are known word for word, alone or in a frame such as "no ..." or "I like ...".

    ``known`` has a class (two a criterion: more, less) by kind and phrase; ``frames`` by kind the texts before and
    after a phrase of frames that ask ``for`` it, and of those that ask ``against`` it.
    """

    def __init__(
        self, known: Mapping[str, Mapping[str, int]], frames: Mapping[str, Mapping[str, Sequence[Any]]]
    ) -> None:
        self._known = known
        self._frames = [
            (kind, before, after, ask == "against")
            for kind, asks in frames.items()
            for ask, pairs in asks.items()
            for before, after in pairs
        ]

    def find(self, text: str) -> int | None:
        """The class of a text; None where it is not known, or where two readings of it differ."""
        whole = plain(text)
        found = {of[whole] for of in self._known.values() if whole in of}
        for kind, before, after, against in self._frames:
            middle = whole[len(before) : len(whole) - len(after)]
            if whole.startswith(before) and whole.endswith(after) and middle in self._known[kind]:
                found.add(self._known[kind][middle] ^ against)
        return found.pop() if len(found) == 1 else None


class SentenceReader:
    """Reads sentences with a trained `ClauseClassifier`; ``criteria`` are the names that it knows."""

    def __init__(self, path: Path) -> None:
        self._model = ClauseClassifier(path)
        self.digest, facts = self._model.digest, self._model.facts
        self.criteria: tuple[str, ...] = tuple(facts["criteria"])
        self.limit, self._temperature = float(facts["limit"]), float(facts["temperature"])
        self._phrases = Phrases(facts["phrases"], facts["frames"])

    def read(self, sentence: str) -> tuple[Clause, ...]:
        """The clauses of a sentence, in order; neighbours that ask for the same are one.

        A sentence is split at full stops and the like, and at commas and conjunctions where both parts are understood
        and ask for different things: "short answers, no lists" is two, "simple and clear words" one.
        """
        found: list[Clause] = []
        for part in filter(None, map(str.strip, _HARD.split(sentence))):
            for clause in self._clauses(part):
                if (
                    found
                    and clause.criterion
                    and (clause.criterion, clause.side) == (found[-1].criterion, found[-1].side)
                ):
                    found[-1] = _joined(found[-1], clause)
                else:
                    found.append(clause)
        return tuple(found) or (self._clause(sentence, self._probabilities([sentence])[0]),)

    def _clauses(self, part: str) -> list[Clause]:
        edges = [(0, 0), *(match.span() for match in _SOFT.finditer(part)), (len(part), len(part))]
        spans = [(a, b) for a in range(len(edges) - 1) for b in range(a + 1, len(edges))]
        texts = [part[edges[a][1] : edges[b][0]].strip() for a, b in spans]
        probabilities = dict(zip(spans, self._probabilities(texts), strict=True))
        read = dict(zip(spans, map(self._clause, texts, probabilities.values()), strict=True))
        whole = (0, len(edges) - 1)
        if len(spans) == 1 or probabilities[whole][-1] > FOREIGN:
            return [read[whole]]
        alone = {a: text for (a, b), text in zip(spans, texts, strict=True) if b == a + 1}
        joined = {a: alone[a] for a in alone if a and not _APART.search(part[slice(*edges[a])])}
        shared = {span: _with_noun(text, joined.get(span[0] + 1, "")) for span, text in zip(spans, texts, strict=True)}
        longer = {span: text for span, text in shared.items() if span[1] == span[0] + 1 and text != read[span].text}
        if longer:
            borrowed = map(self._clause, longer.values(), self._probabilities(list(longer.values())))
            read |= {span: one for span, one in zip(longer, borrowed, strict=True) if one.criterion}
        refusals = {place for place, text in alone.items() if _NO.match(text)}
        for start, end in spans:  # "no code, no tables" asks for two things, whether or not both are understood
            if refusals.intersection(range(start + 1, end)):
                read[start, end] = replace(read[start, end], criterion=None)
        return _best_split(read, len(edges) - 1)

    def _probabilities(self, texts: Sequence[str]) -> Floats:
        return np.asarray(softmax(self._model.logits(texts) / self._temperature, axis=1), np.float32)

    def _clause(self, text: str, probabilities: Floats) -> Clause:
        likeliest = np.argsort(-probabilities[:-1], kind="stable")[:NEAREST].tolist()
        nearest = tuple(
            (self.criteria[place // 2], 1 - 2 * (place % 2), round(float(probabilities[place]), 4))
            for place in likeliest
        )
        if (known := self._phrases.find(text)) is not None:
            first = (self.criteria[known // 2], 1 - 2 * (known % 2), KNOWN)
            nearest = (first, *(each for each in nearest if each[:2] != first[:2]))[:NEAREST]
        name, side, confidence = nearest[0]
        weight = STRONG if _STRONG.search(text) else WEAK if _WEAK.search(text) else 1.0
        return Clause(text, name if confidence >= self.limit else None, side, confidence, weight, nearest)


def _with_noun(text: str, following: str) -> str:
    """A single word with the noun that it shares: "short" before "simple sentences" is "short sentences"."""
    words = following.split()
    shares = (
        len(text.split()) == 1 and len(words) == 2 and words[0].lower() not in ("no", "not", "without", "few", "more")
    )
    return f"{text} {words[1]}" if shares else text


def _joined(first: Clause, second: Clause) -> Clause:
    """Two clauses that ask for the same, as the surer of them with the greater weight."""
    surer = max(first, second, key=lambda clause: clause.confidence)
    return replace(surer, text=f"{first.text}, {second.text}", weight=max(first.weight, second.weight))


def _best_split(read: dict[tuple[int, int], Clause], count: int) -> list[Clause]:
    """The split of ``count`` parts whose clauses are surest, each weighed by its share of the parts.

    A clause that is not understood is worth nothing, and one more clause costs a little, so that a sentence is split
    only where that makes it clearer.
    """
    best: list[tuple[float, list[Clause]]] = [(0.0, [])]
    for end in range(1, count + 1):
        options = []
        for start in range(end):
            clause = read[start, end]
            worth = (end - start) * clause.confidence * (clause.criterion is not None) - SPLIT_COST
            options.append((best[start][0] + worth, [*best[start][1], clause]))
        best.append(max(options, key=lambda option: option[0]))
    return best[count][1]


SPLIT_COST = 0.02
"""What one more clause has to gain in confidence, in parts."""


@cache
def bundled_reader() -> SentenceReader:
    """The reader of the package."""
    return SentenceReader(Path(str(files("crm.judges").joinpath("reader.safetensors"))))
