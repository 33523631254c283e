"""Preferences that are true by count, between real responses: the data source ``tastes``.

Real LLMs answered the same queries. Which of two responses a user prefers who asks for more or less of a countable
trait needs no vote: it is counted. A user has one criterion or several, for and against; the side with more threshold
units wins, and a near tie is left out. A model learns from this to read criteria and to find their subject in a text,
not what people care about.

Held out are a share of the queries (near-duplicates together), some LLMs, some traits and, of every trait, the
wordings that were written apart. Suites, each in both directions: ``D`` unseen queries; ``M`` and unseen LLMs; ``C``
and unseen wordings; ``A`` and traits that training never had; ``X`` as ``M``, with two criteria at once; ``L`` degraded
responses (empty, truncated, or stuffed with the criterion's words) beside whole ones, in one direction: they lose.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from crm.criteria.traits import Trait
from crm.data.catalogue import Source
from crm.data.public.banks import FOLDERS, read_published
from crm.data.sampling import hold_out, shuffled, turn
from crm.data.splits import Splits, prompt_groups
from crm.io.draws import generator
from crm.io.intake import Intake
from crm.io.words import first_words
from crm.schema import Preference, prompt_key
from experiments.real_judge.pairs import PairFinder, Phrasing, Query, degraded_pair, whole_pair
from experiments.real_judge.traits import TRAITS

UNSEEN_TRAITS = ("Advice", "Asides", "Emphatic words", "Past tense")
KNOWN_TRAITS = [trait for trait in TRAITS if trait.name not in UNSEEN_TRAITS]
UNSEEN_LLMS = 0.2
"""Share of the LLMs of each bank."""
TEST_QUERIES, VALIDATION_QUERIES = 0.15, 0.05
PER_QUERY, LLMS = 128, 12
"""Preferences of a training query, and LLMs drawn to answer it: each response is read once for many criteria."""
FEWEST_QUERIES = 40
"""Of a suite: rare traits need many."""
CRITERIA_COUNTS, COUNT_WEIGHTS = (1, 2, 3), (0.7, 0.2, 0.1)
SMALLEST, CLEAR = 0.5, 1.0
"""Threshold units by which the sides of a pair differ at least, in training and in suites."""
DEGRADED = 0.08
"""Share of training pairs in which one response is empty, cut or stuffed."""


@dataclass(frozen=True)
class Training:
    """What training is made of: queries, for each the LLMs whose responses are drawn from, and traits."""

    queries: list[Query]
    llms: list[list[str]]
    traits: list[Trait]


def load(
    root: Path,
    *,
    seed: int,
    train: int,
    validation: int,
    suite: int,
    max_words: int,
    sources: Sequence[str] = tuple(FOLDERS),
) -> Splits:
    """Banks under ``root``; ``train`` preferences are of ``train / PER_QUERY`` queries. 0 takes all queries.

    ``max_words`` keeps the first words of a response, before anything is counted. Raises ``ValueError`` as
    `read_published` does.
    """
    queries, parts, unseen = _read(root, seed, max_words, sources)
    known, new = KNOWN_TRAITS, [trait for trait in TRAITS if trait.name in UNSEEN_TRAITS]
    used = _used(parts["train"], unseen, train, seed)
    made = _training(used.queries, used.llms, known, seed)[: train or None]
    make = partial(_suite, queries=parts["test"], wanted=suite, unseen=unseen, seed=seed)
    validating = _suite("validation", parts["validation"], known, validation or 500, unseen=unseen, seed=seed)
    suites = {
        "D": make("D", traits=known),
        "M": make("M", traits=known, llms="unseen"),
        "C": make("C", traits=known, llms="unseen", words="unseen"),
        "A": make("A", traits=new, llms="unseen", words="unseen"),
        "X": make("X", traits=known, llms="unseen", criteria=2),
        "L": make("L", traits=known, words="unseen", row=degraded_pair),
    }
    counts = {
        "queries_read": len(queries),
        "dropped_near_duplicates": len(queries) - sum(map(len, parts.values())),
        "llms_held_out": len(unseen),
    }
    return Splits(made, validating, suites, counts)


def training(root: Path, *, seed: int, train: int, max_words: int, sources: Sequence[str] = tuple(FOLDERS)) -> Training:
    """What `load` makes its training preferences of, for batches that draw their own."""
    _, parts, unseen = _read(root, seed, max_words, sources)
    return _used(parts["train"], unseen, train, seed)


def _read(
    root: Path, seed: int, max_words: int, sources: Sequence[str]
) -> tuple[list[Query], dict[str, list[Query]], set[str]]:
    queries = [query for name in sources for query in _queries(name, str(root), max_words)]
    return queries, _parts(queries, seed), unseen_llms(queries, seed)


def _used(queries: Sequence[Query], unseen: set[str], train: int, seed: int) -> Training:
    asked = list(queries[: -(-train // PER_QUERY) if train else None])
    llms = [_drawn(query, generator(seed, 0, query.id, "tastes llms"), unseen, "seen") for query in asked]
    return Training(asked, llms, KNOWN_TRAITS)


def _parts(queries: Sequence[Query], seed: int) -> dict[str, list[Query]]:
    """``train``, ``validation`` and ``test``, each in a drawn order; of near-duplicate queries the first alone."""
    groups = prompt_groups([turn("user", query.text) for query in queries])
    once: dict[str, Query] = {}
    for query in queries:
        once.setdefault(groups[prompt_key(turn("user", query.text))], query)
    test, validation = hold_out(once, (TEST_QUERIES, VALIDATION_QUERIES), seed)
    named = {"train": once.keys() - test - validation, "validation": validation, "test": test}
    return {name: [once[key] for key in shuffled(keys, seed, "queries")] for name, keys in named.items()}


def unseen_queries(root: str | Path, seed: int, sources: Sequence[str] = tuple(FOLDERS)) -> dict[str, str]:
    """The queries (id to text) that are in suites alone: what a leaderboard of a judge so trained may rest on."""
    queries = [query for name in sources for query in _queries(name, str(root), 0)]
    return {query.id: query.text for query in _parts(queries, seed)["test"]}


def unseen_llms(queries: Sequence[Query], seed: int) -> set[str]:
    """LLMs that are in no training pair, by name, in whichever bank they are."""
    names = {name for query in queries for name in query.answers}
    return set(shuffled(names, seed, "llms")[: round(UNSEEN_LLMS * len(names))])


def _queries(name: str, root: str, max_words: int) -> Iterator[Query]:
    published = read_published(name, root)
    for identifier, query in published.queries.items():
        answers = {llm: texts[query] for llm, texts in published.answers.items()}
        if max_words:
            answers = {llm: first_words(text, max_words) for llm, text in answers.items()}
        yield Query(identifier, query, answers)


def _training(
    queries: Sequence[Query], llms: Sequence[Sequence[str]], traits: Sequence[Trait], seed: int
) -> list[Preference]:
    """At most `PER_QUERY` preferences of each query, between responses of its ``llms``."""
    made: list[Preference] = []
    for query, able in zip(queries, llms, strict=True):
        rng = generator(seed, 0, query.id, "tastes train")
        find, phrase = PairFinder(query, able, traits, rng, SMALLEST), Phrasing(rng, "training")
        for number in range(PER_QUERY):
            names = rng.sample([trait.name for trait in traits], rng.choices(CRITERIA_COUNTS, COUNT_WEIGHTS)[0])
            found = find.pair(names)
            if found is not None:
                row = degraded_pair if rng.random() < DEGRADED else whole_pair
                made.append(row(f"train-{query.id}-{number}", query, *found, phrase, rng))
    return made


def _suite(
    part: str,
    queries: Sequence[Query],
    traits: Sequence[Trait],
    wanted: int,
    *,
    unseen: set[str],
    seed: int,
    llms: str = "seen",
    words: str = "training",
    criteria: int = 1,
    row: Callable[..., Preference] | None = None,
) -> list[Preference]:
    """Every trait as often as can be: a query is asked for each at most once, until ``wanted`` are found (0: all)."""
    made: list[Preference] = []
    asked: Counter[str] = Counter()
    for query in queries[: max(FEWEST_QUERIES, wanted // 8) if wanted else None]:
        rng = generator(seed, 0, query.id, f"tastes {part}")
        find = PairFinder(query, _drawn(query, rng, unseen, llms), traits, rng, CLEAR)
        phrase = Phrasing(rng, words)
        for trait in traits:
            if wanted and asked[trait.name] >= -(-wanted // len(traits)):
                continue
            others = [other.name for other in traits if other != trait]
            found = find.pair([trait.name, *rng.sample(others, criteria - 1)])
            if found is not None:
                asked[trait.name] += 1
                name = f"{part}-{query.id}-{len(made)}"
                made.append((row or whole_pair)(name, query, *found, phrase, rng))
    return made


def _drawn(query: Query, rng: random.Random, unseen: set[str], llms: str) -> list[str]:
    able = sorted(name for name in query.answers if (name in unseen) == (llms == "unseen"))
    return rng.sample(able, min(LLMS, len(able)))


def _records(path: Path, intake: Intake) -> Iterator[Preference]:
    raise ValueError(f"data.path={path}: data.name=tastes has no rows of its own; it is read as a whole")


TASTES = Source(
    "responses of many LLMs under criteria that can be counted",
    _records,
    splits=lambda path, _intake, **sizes: load(path, **sizes),
)
