"""Domain-specific preferences: a query answered for four kinds of reader.

A query was answered for an academic, a business, an entertainment and a literature reader. Any two of these answers
make a pair that flips with the reader: the wordings of one domain speak for one side, those of the other for the other.
The preference is true by construction (nobody voted), so ``winner`` is a seeded coin and only names the original
direction. The fifth, plain answer is not used: it is half as long as the others, which would give it away.

Split by query (near-duplicates together), 80 train, 10 validation, 10 held out (in 100). Suite ``D``: held-out queries,
wordings as in training; ``C``: the same pairs with wordings that training never uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from crm.io.intake import Intake
from crm.io.words import first_words
from crm.schema import Preference, folded, prompt_key
from crm.votes.fields import PublicRow, Text
from crm.votes.public.pairs import aspects_of, flip_pair, wordings_of
from crm.votes.sampling import hold_out, turn
from crm.votes.splits import Splits, prompt_groups, subsampled

DOMAINS = ("academy", "business", "entertainment", "literature")
WORDINGS, UNSEEN_WORDINGS = wordings_of("dsp"), wordings_of("dsp_unseen")


class Answers(PublicRow):
    """By the kind of reader they are for."""

    academy: str
    business: str
    entertainment: str
    literature: str


class Row(PublicRow):
    """A query with its answers."""

    query: Text
    responses: Answers


def load(
    root: str | Path,
    *,
    seed: int = 0,
    strict: bool = True,
    max_response_words: int | None = 80,
    max_train: int | None = None,
    max_suite: int | None = None,
) -> Splits:
    """Read ``<root>/dsp/domain_specific_preference.test.json.gz``.

    ``max_response_words`` cuts both responses (median about 115 words; the register shows early); ``None`` keeps them
    whole. ``max_train`` and ``max_suite`` subsample in turns over domain pairs and queries.
    Raises ``ValueError`` for a bad file.
    """
    reading = Intake(strict=strict)
    records = _records(Path(root) / "dsp", reading)
    groups = prompt_groups([turn("user", query) for query, _ in records])
    held_out, validation_groups = hold_out(groups.values(), (0.1, 0.1), seed)
    parts: dict[str, list[Preference]] = {"train": [], "validation": [], "D": [], "C": []}
    identical = 0
    for query, answers in records:
        group = groups[prompt_key(turn("user", query))]
        for first, second in combinations(DOMAINS, 2):
            cut = {name: first_words(answers[name], max_response_words) for name in (first, second)}
            if cut[first] == cut[second]:
                identical += 1
            elif group in held_out:
                parts["D"].append(_preference(query, cut, WORDINGS, seed))
                parts["C"].append(_preference(query, cut, UNSEEN_WORDINGS, seed))
            else:
                part = "validation" if group in validation_groups else "train"
                parts[part].append(_preference(query, cut, WORDINGS, seed))
    counts = {
        **reading.all_counts(),
        "unused_plain_answers": len(records),
        "pairs": 6 * len(records),
        "dropped_identical_responses": identical,
    }
    return subsampled(parts, counts, reading, max_train, max_suite, seed, aspects_of, lambda row: row.query)


def read(folder: Path, reading: Intake) -> Iterator[Preference]:
    """Every pair of domains for every query, whole, with the wordings of training."""
    for query, answers in _records(folder, reading):
        for first, second in combinations(DOMAINS, 2):
            if answers[first] == answers[second]:
                reading.counts["dropped_identical_responses"] += 1
            else:
                yield _preference(query, {name: answers[name] for name in (first, second)}, WORDINGS, 0)


def _records(folder: Path, reading: Intake) -> list[tuple[str, dict[str, str]]]:
    """Queries, each with its answers by domain."""
    path = folder / "domain_specific_preference.test.json.gz"
    rows = list(reading.array(path, lambda row, _: Row.model_validate(row), key=lambda row: folded(row.query)))
    return [(row.query, row.responses.model_dump()) for row in rows]


def _preference(query: str, answers: dict[str, str], bank: dict[str, tuple[str, ...]], seed: int) -> Preference:
    """The flip pair of the two domains in ``answers``."""
    prompt, unseen = turn("user", query), "-unseen" if bank is UNSEEN_WORDINGS else ""
    pair = "-".join((*answers, prompt_key(prompt)))
    name = f"dsp-{pair}{unseen}"
    return flip_pair(name, prompt, answers, bank, source="dsp/construction", seed=seed, drawn_by=pair)
