"""Tastes that are true by construction, on real responses. In: banks of published responses. Out: `Splits`.

Real LLMs answered the same queries. Which of two responses somebody prefers who wishes for more or less of a countable
trait (`crm.criteria.counting`) needs no vote: it is counted. A user holds one wish or several, for and against; the
side with more threshold units wins, and a pair that is nearly even is left out. What this teaches is to read wishes and
to find what they are about in a text, not what people care about.

Held out are a share of the queries (near-duplicates together), some LLMs, some traits and, of every trait, the
wordings that were written apart. Suites, each in both directions: ``D`` unseen queries; ``M`` and unseen LLMs; ``C``
and unseen wordings; ``A`` and traits that training never had; ``X`` as ``M``, with two wishes at once; ``L`` spoiled
responses (empty, cut, or stuffed with the words of the wish) beside whole ones, in one direction: they lose.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from crm.criteria.counting import TRAITS, Trait
from crm.dataset.taste_pairs import PairFinder, Query, Speaker, spoiled_pair, whole_pair
from crm.dataset.taste_tables import TasteTables
from crm.io.draws import generator
from crm.io.words import first_words
from crm.schema import Preference, prompt_key
from crm.votes.public.banks import FOLDERS, read_published
from crm.votes.sampling import hold_out, shuffled, turn
from crm.votes.splits import Splits, prompt_groups, sizes

UNSEEN_TRAITS = ("Advice", "Asides", "Emphatic words", "Past tense")
UNSEEN_LLMS = 0.2
"""Share of the LLMs of each bank."""
TEST_QUERIES, VALIDATION_QUERIES = 0.15, 0.05
PER_QUERY, LLMS = 128, 12
"""Preferences of a training query, and LLMs drawn to answer it: each response is read once for many tastes."""
FEWEST_QUERIES = 40
"""Of a suite: rare traits need many."""
WISHES, WISH_WEIGHTS = (1, 2, 3), (0.7, 0.2, 0.1)
SMALLEST, CLEAR = 0.5, 1.0
"""Threshold units by which the sides of a pair differ at least, in training and in suites."""
SPOILED = 0.08
"""Share of training pairs in which one response is empty, cut or stuffed."""


def load(
    root: str,
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
    queries = [query for name in sources for query in _queries(name, root, max_words)]
    parts = _parts(queries, seed)
    unseen = unseen_llms(queries, seed)
    known = [trait for trait in TRAITS if trait.name not in UNSEEN_TRAITS]
    new = [trait for trait in TRAITS if trait.name in UNSEEN_TRAITS]
    asked = parts["train"][: -(-train // PER_QUERY) if train else None]
    able = [_drawn(query, generator(seed, 0, query.id, "tastes llms"), unseen, "seen") for query in asked]
    made = _training(asked, able, known, seed)[: train or None]
    make = partial(_suite, queries=parts["test"], wanted=suite, unseen=unseen, seed=seed)
    validating = _suite("validation", parts["validation"], known, validation or 500, unseen=unseen, seed=seed)
    suites = {
        "D": make("D", traits=known),
        "M": make("M", traits=known, llms="unseen"),
        "C": make("C", traits=known, llms="unseen", words="unseen"),
        "A": make("A", traits=new, llms="unseen", words="unseen"),
        "X": make("X", traits=known, llms="unseen", wishes=2),
        "L": make("L", traits=known, words="unseen", row=spoiled_pair),
    }
    counts = {
        "queries_read": len(queries),
        "dropped_near_duplicates": len(queries) - sum(map(len, parts.values())),
        "llms_held_out": len(unseen),
        **sizes(made, validating, suites),
    }
    return Splits(made, validating, suites, counts, tables=TasteTables(asked, able, known, seed))


def _parts(queries: Sequence[Query], seed: int) -> dict[str, list[Query]]:
    """``train``, ``validation`` and ``test``, each in a drawn order; of near-duplicate queries the first alone."""
    groups = prompt_groups([turn("user", query.text) for query in queries])
    once: dict[str, Query] = {}
    for query in queries:
        once.setdefault(groups[prompt_key(turn("user", query.text))], query)
    test, validation = hold_out(once, (TEST_QUERIES, VALIDATION_QUERIES), seed)
    named = {"train": once.keys() - test - validation, "validation": validation, "test": test}
    return {name: [once[key] for key in shuffled(keys, seed, "queries")] for name, keys in named.items()}


def unseen_queries(root: str, seed: int, sources: Sequence[str] = tuple(FOLDERS)) -> dict[str, str]:
    """The queries (id to text) that are in suites alone: what a leaderboard of a judge so trained may rest on."""
    queries = [query for name in sources for query in _queries(name, root, 0)]
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
        find, say = PairFinder(query, able, traits, rng, SMALLEST), Speaker(rng, "training")
        for number in range(PER_QUERY):
            names = rng.sample([trait.name for trait in traits], rng.choices(WISHES, WISH_WEIGHTS)[0])
            found = find.pair(names)
            if found is not None:
                row = spoiled_pair if rng.random() < SPOILED else whole_pair
                made.append(row(f"train-{query.id}-{number}", query, *found, say, rng))
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
    wishes: int = 1,
    row: Callable[..., Preference] | None = None,
) -> list[Preference]:
    """Every trait as often as can be: a query is asked for each at most once, until ``wanted`` are found (0: all)."""
    made: list[Preference] = []
    asked: Counter[str] = Counter()
    for query in queries[: max(FEWEST_QUERIES, wanted // 8) if wanted else None]:
        rng = generator(seed, 0, query.id, f"tastes {part}")
        find = PairFinder(query, _drawn(query, rng, unseen, llms), traits, rng, CLEAR)
        say = Speaker(rng, words)
        for trait in traits:
            if wanted and asked[trait.name] >= -(-wanted // len(traits)):
                continue
            others = [other.name for other in traits if other != trait]
            found = find.pair([trait.name, *rng.sample(others, wishes - 1)])
            if found is not None:
                asked[trait.name] += 1
                name = f"{part}-{query.id}-{len(made)}"
                made.append((row or whole_pair)(name, query, *found, say, rng))
    return made


def _drawn(query: Query, rng: random.Random, unseen: set[str], llms: str) -> list[str]:
    able = sorted(name for name in query.answers if (name in unseen) == (llms == "unseen"))
    return rng.sample(able, min(LLMS, len(able)))
