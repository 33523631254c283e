"""Read what a person typed: clauses, and for each the criterion, the side and how sure that is.

A small transformer over word pieces (under 5 MB, trained by `experiments.reader`) places a clause on two sides of each
criterion of the pool, or on "nothing": a clause that asks for nothing of an answer's style or content. Below `limit`
nothing is guessed. English only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from crm.judges.clause_classifier import ClauseClassifier, Floats
from crm.judges.refusals import is_account, is_refusal, is_report, refused_along
from crm.judges.splitting import (
    FEW,
    Span,
    is_contrast,
    is_indifferent,
    is_limit,
    joints,
    rejects,
    sentences,
    spelled_out,
    stands_apart,
    weight,
    without_article,
    wordings_of_wrong,
)

NEAREST = 5
FOREIGN = 0.35
"""Probability that a sentence asks for nothing from which on its parts are not read: "print your prompt" may ask."""
MOST, BATCH = 4, 16
"""Parts of a sentence that are read together, but for all of it; texts that are read at a time."""
KNOWN = 0.99
"""Confidence in a phrase that is known word for word."""
STRONG, WEAK = 2.0, 0.5


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


Spanned = tuple[int, int, Clause]
"""A clause with its first character in the text and the one after its last."""


def plain(text: str) -> str:
    """Small letters without apostrophes and hyphens, single spaces, and no marks at the ends."""
    return " ".join(text.casefold().translate({ord("'"): "", ord("’"): "", ord("-"): " "}).split()).strip(' .!?,;:"“”')


class Phrases:
    """Phrases that are known word for word, alone or in a frame such as "no ..." or "I like ...".

    ``known`` has a class (two a criterion: more, less) by kind and phrase, and by ``sentences`` of those that mean it
    alone; ``frames`` by kind the texts before and after a phrase of frames that ask ``for`` it, or ``against`` it.
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
        """The class of a text; None where it is not known, or where two readings of it differ.

        "Confusing" alone complains, and in a frame is what it says.
        """
        whole = plain(text)
        if whole in self._known.get("sentences", ()):
            return self._known["sentences"][whole]
        found = {of[whole] for of in self._known.values() if whole in of}
        for kind, before, after, against in self._frames:
            if whole.startswith(before) and whole.endswith(after):
                middle = whole[len(before) : len(whole) - len(after)]
                if middle in self._known[kind]:
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
        and ask for different things: "short answers, no lists" is two, "simple and clear words" one; see `is_whole`.
        """
        found: list[Spanned] = []
        sentence = spelled_out(sentence)
        parts = list(sentences(sentence))
        for start, end in parts:
            for a, b, clause in self._clauses(sentence[start:end]):
                if found and rejects(clause.text):
                    if not found[-1][2].criterion:
                        continue
                    first, _, last = found[-1]
                    found[-1] = (first, start + b, self._rejected(last, sentence[first : start + b]))
                    continue
                found.append((start + a, start + b, clause))
                if len(found) > 1 and (one := self._as_one(sentence, *found[-2:])):
                    found[-2:] = [one]
        clauses = tuple(clause for *_, clause in found)
        if len(parts) == 1 or len(clauses) == 1:
            return clauses
        whole = self._whole(sentence)
        asked = {(clause.criterion, clause.side) for clause in clauses if clause.criterion}
        other = asked != {(whole.criterion, whole.side)} and is_whole(whole, clauses)
        return (whole,) if other or not clauses else clauses

    def _rejected(self, last: Clause, both: str) -> Clause:
        """A clause turned round by what was felt about it; one of some length, or a refusal, is read with it."""
        if is_refusal(last.text):
            return replace(last, text=both)
        whole = self._whole(both)
        lengthy = len(last.text.split()) > FEW and whole.criterion == last.criterion
        return whole if lengthy else _turned(last, both)

    def _as_one(self, sentence: str, first: Spanned, second: Spanned) -> Spanned | None:
        """Neighbours that ask for the same as one clause.

        Those that ask for a thing and its opposite are read together, else the second goes along with the first: "I
        can't stand lyrical, flowery phrasing". What is known word for word and not understood together is asked for
        twice ("detailed but short"). Two limits cancel out; one alone does not count ("short, but not too short").
        """
        span, one, other = (first[0], second[1]), first[2], second[2]
        if not one.criterion or one.criterion != other.criterion:
            return None
        if one.side == other.side:
            return *span, _joined(one, other)
        if is_limit(other.text):
            return None if is_limit(one.text) else (*span, replace(one, text=sentence[slice(*span)]))
        whole = self._whole(sentence[slice(*span)])
        if whole.criterion != one.criterion and one.confidence == other.confidence == KNOWN:
            return None
        return *span, whole if whole.criterion == one.criterion else replace(one, text=whole.text)

    def _whole(self, text: str) -> Clause:
        return self._clause(text, self._probabilities([text])[0])

    def _clauses(self, part: str) -> list[Spanned]:
        edges = [(0, 0), *joints(part), (len(part), len(part))]
        count = len(edges) - 1
        whole = (0, count)
        spans = [(a, b) for a in range(count) for b in range(a + 1, min(a + MOST, count) + 1)]
        spans += [whole] * (whole not in spans)
        places = {(a, b): (edges[a][1], edges[b][0]) for a, b in spans}
        texts = [part[slice(*places[span])].strip() for span in spans]
        probabilities = self._probabilities(texts)
        read = dict(zip(spans, map(self._clause, texts, probabilities), strict=True))
        alone = [text for (a, b), text in zip(spans, texts, strict=True) if b == a + 1]
        known = any(read[place, place + 1].confidence == KNOWN for place in range(len(alone)))
        account, one = is_account(part), read[whole]
        if (
            len(spans) == 1
            or (account and one.criterion)
            or (probabilities[spans.index(whole), -1] > FOREIGN and not known)
        ):
            return [(*places[whole], one)]
        between = [part[slice(*edge)] for edge in edges[:-1]]
        self._read_together(read, alone, between, account)
        found = [(*places[span], read[span]) for span in _best_split(read, count)]
        first, bare = found[0][2], not any(map(str.strip, between[1:]))
        against = bare and first.confidence == KNOWN and first.criterion == one.criterion and first.side != one.side
        if not (rejects(alone[-1]) or against) and is_whole(one, [clause for *_, clause in found]):
            return [(*places[whole], one)]
        return [each for each in found if each[2].criterion or not is_report(each[2].text)] or found

    def _read_together(
        self, read: dict[Span, Clause], alone: Sequence[str], joints: Sequence[str], account: bool
    ) -> None:
        """Change what parts mean beside others: refusals that they fall under, contrasts."""
        lone = [read[place, place + 1] for place in range(len(alone))]
        along = refused_along(alone, joints, [bool(one.criterion) and one.side < 0 for one in lone], account)
        apart = {place for place, part in enumerate(alone) if stands_apart(part)}
        refused = [span for span in read if along.issuperset(range(*span))]
        turning = {place for place, part in enumerate(alone) if rejects(part) or is_report(part)}
        meant = [read[span] for span in refused]
        turned = self._wrongs(meant) if account or any(map(is_report, alone)) else map(_refused, meant)
        read.update(zip(refused, turned, strict=True))
        for start, end in set(read).difference(refused):
            if end - start > 1 and (
                start in along or apart.intersection(range(start + 1, end)) or turning.intersection(range(start, end))
            ):
                read[start, end] = replace(read[start, end], criterion=None)
        for place, joint in enumerate(joints):
            if is_contrast(joint):
                _contrast(read, place)
            elif joint.strip() == "with" and not account and not lone[place - 1].criterion:
                for span in (span for span in read if span[0] == place):
                    read[span] = replace(read[span], criterion=None)

    def _wrongs(self, clauses: Sequence[Clause]) -> list[Clause]:
        """What is asked for by saying what was wrong, in words that ask for it alone: "too long", "no emoji"."""
        options = {clause.text: wordings_of_wrong(clause.text) for clause in clauses if clause.criterion}
        texts = [text for each in options.values() for text in each]
        alone = dict(zip(texts, map(self._clause, texts, self._probabilities(texts)), strict=True)) if texts else {}
        found = []
        for clause in clauses:
            wanted = (clause.criterion, -clause.side)
            same = (
                text for text in options.get(clause.text, ()) if (alone[text].criterion, alone[text].side) == wanted
            )
            text = next(same, "")
            found.append(replace(_turned(clause, text or clause.text), criterion=clause.criterion if text else None))
        return found

    def _probabilities(self, texts: Sequence[str]) -> Floats:
        short_first = sorted(set(texts), key=len)  # so that little is padding
        batches = [short_first[at : at + BATCH] for at in range(0, len(short_first), BATCH)]
        logits = dict(zip(short_first, np.concatenate([self._model.logits(batch) for batch in batches]), strict=True))
        found = np.stack([logits[text] for text in texts])
        return np.asarray(softmax(found / self._temperature, axis=1), np.float32)

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
        understood = confidence >= self.limit and not is_indifferent(text)
        return Clause(text, name if understood else None, side, confidence, weight(text, STRONG, WEAK), nearest)


def is_whole(whole: Clause, parts: Sequence[Clause]) -> bool:
    """Whether a text that is understood is read as a whole: its parts ask for one thing, or for others than it does."""
    asked = {part.criterion for part in parts if part.criterion}
    return whole.criterion is not None and (len(asked) < 2 or whole.criterion not in asked)


def _contrast(read: dict[Span, Clause], place: int) -> None:
    """What stands at ``place`` is not meant: with the part before it, it is what that part asks for."""
    meant = read[place - 1, place]
    for start, end in read if meant.criterion else ():
        if (start, end) == (place - 1, place + 1):
            read[start, end] = replace(meant, text=read[start, end].text)
        elif start < place < end:
            read[start, end] = replace(read[start, end], criterion=None)
    read[place, place + 1] = _refused(read[place, place + 1])


def _refused(clause: Clause) -> Clause:
    """What is asked for by refusing it."""
    return _turned(clause, f"no {without_article(clause.text)}")


def _turned(clause: Clause, text: str) -> Clause:
    """The same criterion, the other side."""
    nearest = tuple((name, -side, sure) for name, side, sure in clause.nearest)
    return replace(clause, text=text, side=-clause.side, nearest=nearest)


def _joined(first: Clause, second: Clause) -> Clause:
    """Two clauses that ask for the same, as the surer of them with the greater weight."""
    surer = max(first, second, key=lambda clause: clause.confidence)
    return replace(surer, text=f"{first.text}, {second.text}", weight=max(first.weight, second.weight))


def _best_split(read: dict[Span, Clause], count: int) -> list[Span]:
    """The spans, keys of ``read``, of the split of ``count`` parts whose clauses are surest.

    Each is weighed by its share of the parts; one that is not understood is worth nothing. A sentence is split only
    where that makes it clearer.
    """
    best: list[tuple[float, list[Span]]] = [(0.0, [])]
    for end in range(1, count + 1):
        options = []
        for start in (place for place in range(end) if (place, end) in read):
            clause = read[start, end]
            worth = (end - start) * clause.confidence * (clause.criterion is not None)
            options.append((best[start][0] + worth, [*best[start][1], (start, end)]))
        best.append(max(options, key=lambda option: option[0]))
    return best[count][1]


@cache
def bundled_reader() -> SentenceReader:
    """The reader of the package."""
    return SentenceReader(Path(str(files("crm.judges").joinpath("reader.safetensors"))))
