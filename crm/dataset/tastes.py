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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import permutations

from crm.criteria.counting import TRAITS, Trait
from crm.criteria.trait_wordings import wording
from crm.io.draws import generator
from crm.schema import Preference, prompt_key
from crm.votes.public.banks import FOLDERS, UNTAGGED, read_published
from crm.votes.sampling import first_words, hold_out, shuffled, turn
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
SENTENCES = 3
"""For one side of a trait, on one query."""
SPOILED = 0.08
"""Share of training pairs in which one response is empty, cut or stuffed."""


@dataclass(frozen=True, slots=True)
class _Query:
    """A query and its answers by LLM."""

    id: str
    text: str
    topic: str
    answers: Mapping[str, str]


Wishes = tuple[tuple[str, int], ...]
"""Traits, and whether more (1) or less (-1) of each is wished for."""


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
    groups = prompt_groups([turn("user", query.text) for query in queries])
    group = {query.id: groups[prompt_key(turn("user", query.text))] for query in queries}
    once = {group[query.id]: query for query in reversed(queries)}  # of near-duplicates the first
    test, held = hold_out(once, (TEST_QUERIES, VALIDATION_QUERIES), seed)
    unseen = unseen_llms(queries, seed)
    parts = {
        name: [once[key] for key in shuffled(keys, seed, "queries")]
        for name, keys in (("train", once.keys() - test - held), ("validation", held), ("test", test))
    }
    known = [trait for trait in TRAITS if trait.name not in UNSEEN_TRAITS]
    new = [trait for trait in TRAITS if trait.name in UNSEEN_TRAITS]
    made = _training(parts["train"], known, train, unseen=unseen, seed=seed)
    make = partial(_suite, queries=parts["test"], wanted=suite, unseen=unseen, seed=seed)
    validating = _suite("validation", parts["validation"], known, validation or 500, unseen=unseen, seed=seed)
    suites = {
        "D": make("D", traits=known),
        "M": make("M", traits=known, llms="unseen"),
        "C": make("C", traits=known, llms="unseen", words="unseen"),
        "A": make("A", traits=new, llms="unseen", words="unseen"),
        "X": make("X", traits=known, llms="unseen", wishes=2),
        "L": make("L", traits=known, words="unseen", row=_spoil),
    }
    counts = {
        "queries_read": len(queries),
        "dropped_near_duplicates": len(queries) - len(once),
        "llms_held_out": len(unseen),
        **sizes(made, validating, suites),
    }
    return Splits(made, validating, suites, counts)


def unseen_llms(queries: Sequence[_Query], seed: int) -> set[str]:
    """LLMs that are in no training pair, by name, in whichever bank they are."""
    names = {name for query in queries for name in query.answers}
    return set(shuffled(names, seed, "llms")[: round(UNSEEN_LLMS * len(names))])


def _queries(name: str, root: str, max_words: int) -> Iterator[_Query]:
    published = read_published(name, root)
    for identifier, query in published.queries.items():
        answers = {llm: texts[query] for llm, texts in published.answers.items()}
        if max_words:
            answers = {llm: first_words(text, max_words) for llm, text in answers.items()}
        yield _Query(identifier, query, published.topics.get(query, UNTAGGED), answers)


def _training(
    queries: Sequence[_Query], traits: Sequence[Trait], wanted: int, *, unseen: set[str], seed: int
) -> list[Preference]:
    """``wanted`` preferences at most (0: of all queries), `PER_QUERY` of each query."""
    made: list[Preference] = []
    for query in queries[: -(-wanted // PER_QUERY) if wanted else None]:
        rng = generator(seed, 0, query.id, "tastes train")
        find = _Finder(query, _drawn(query, rng, unseen, "seen"), traits, rng, SMALLEST)
        say = _Speaker(rng, "training")
        for number in range(PER_QUERY):
            names = rng.sample([trait.name for trait in traits], rng.choices(WISHES, WISH_WEIGHTS)[0])
            found = find.pair(names)
            if found is not None:
                row = _spoil if rng.random() < SPOILED else _record
                made.append(row(f"train-{query.id}-{number}", query, *found, say, rng))
    return made[: wanted or None]


def _suite(
    part: str,
    queries: Sequence[_Query],
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
        find = _Finder(query, _drawn(query, rng, unseen, llms), traits, rng, CLEAR)
        say = _Speaker(rng, words)
        for trait in traits:
            if wanted and asked[trait.name] >= -(-wanted // len(traits)):
                continue
            others = [other.name for other in traits if other != trait]
            found = find.pair([trait.name, *rng.sample(others, wishes - 1)])
            if found is not None:
                asked[trait.name] += 1
                name = f"{part}-{query.id}-{len(made)}"
                made.append((row or _record)(name, query, *found, say, rng))
    return made


def _drawn(query: _Query, rng: random.Random, unseen: set[str], llms: str) -> list[str]:
    able = sorted(name for name in query.answers if (name in unseen) == (llms == "unseen"))
    return rng.sample(able, min(LLMS, len(able)))


class _Speaker:
    """Says wishes in a few drawn sentences, the same all through a query: each sentence is read once for many pairs."""

    def __init__(self, rng: random.Random, words: str) -> None:
        self._rng, self._unseen = rng, words == "unseen"
        self._drawn: dict[tuple[str, int], list[str]] = {}

    def __call__(self, wishes: Wishes) -> tuple[str, ...]:
        return tuple(self._rng.choice(self._sentences(wish)) for wish in wishes)

    def _sentences(self, wish: tuple[str, int]) -> list[str]:
        if wish not in self._drawn:
            found = wording(*wish)
            self._drawn[wish] = [found.draw(self._rng, unseen=self._unseen) for _ in range(SENTENCES)]
        return self._drawn[wish]


class _Finder:
    """Draws a taste first and then two responses that it tells apart, so that rare traits are asked as often."""

    def __init__(
        self, query: _Query, llms: Sequence[str], traits: Sequence[Trait], rng: random.Random, smallest: float
    ) -> None:
        self._traits, self._rng, self._smallest = traits, rng, smallest
        self._pairs = list(permutations(llms, 2))
        measures = {llm: measured(query.answers[llm]) for llm in llms}
        self._gaps = {
            trait.name: {
                (one, other): (measures[one][trait.name] - measures[other][trait.name]) / trait.threshold
                for one, other in self._pairs
            }
            for trait in traits
        }

    def pair(self, names: Sequence[str]) -> tuple[str, str, Wishes] | None:
        """Two LLMs, and wishes about these traits that speak for the first; None where no pair is told apart."""
        wishes = tuple((name, self._rng.choice((1, -1))) for name in names)
        able = [pair for pair in self._pairs if self._balance(pair, wishes) >= self._smallest - 1e-9]
        return (*self._rng.choice(able), wishes) if able else None

    def _balance(self, pair: tuple[str, str], wishes: Wishes) -> float:
        """Threshold units by which the wishes speak for the first; not a number counts as no difference."""
        gaps = [sign * self._gaps[name][pair] for name, sign in wishes]
        return sum(gap for gap in gaps if gap == gap)


@cache
def measured(text: str) -> dict[str, float]:
    """What is counted in a text, by trait."""
    return {trait.name: trait.measure(text) for trait in TRAITS}


def _record(
    identifier: str,
    query: _Query,
    better: str,
    worse: str,
    wishes: Wishes,
    say: _Speaker,
    rng: random.Random,
) -> Preference:
    """The pair in a drawn order; the winner is a coin, since either side has a user who prefers it."""
    opposite = tuple((trait, -sign) for trait, sign in wishes)
    sides = [(better, say(wishes)), (worse, say(opposite))]
    rng.shuffle(sides)
    (llm_a, criteria_a), (llm_b, criteria_b) = sides
    topics = tuple(trait for trait, _ in wishes)
    return Preference(
        id=identifier,
        prompt=turn("user", query.text),
        response_a=turn("assistant", query.answers[llm_a]),
        response_b=turn("assistant", query.answers[llm_b]),
        winner=rng.choice("ab"),
        criteria_a=criteria_a,
        criteria_b=criteria_b,
        criteria_topics_a=topics,
        criteria_topics_b=topics,
        topic=query.topic,
        author_a=llm_a,
        author_b=llm_b,
        source="tastes/construction",
    )


def _spoil(
    identifier: str,
    query: _Query,
    better: str,
    worse: str,
    wishes: Wishes,
    say: _Speaker,
    rng: random.Random,
) -> Preference:
    """A whole response beside a spoiled one, which no user prefers: only the winner's side has criteria."""
    whole, criteria = query.answers[better], say(wishes)
    loser = rng.choice((_empty, _cut, _stuffed))
    if loser is _cut and ("Length", -1) in wishes:
        loser = _stuffed
    spoiled = loser(rng, whole, query.answers[worse], criteria)
    first = rng.random() < 0.5
    texts, llms = (whole, spoiled), (better, better if loser is _cut else worse)
    a, b = (0, 1) if first else (1, 0)
    topics = tuple(trait for trait, _ in wishes)
    return Preference(
        id=f"{identifier}-{loser.__name__.strip('_')}",
        prompt=turn("user", query.text),
        response_a=turn("assistant", texts[a]),
        response_b=turn("assistant", texts[b]),
        winner="a" if first else "b",
        criteria_a=criteria if first else (),
        criteria_b=() if first else criteria,
        criteria_topics_a=topics if first else (),
        criteria_topics_b=() if first else topics,
        topic=query.topic,
        author_a=llms[a],
        author_b=llms[b],
        source="tastes/construction",
    )


def _empty(rng: random.Random, whole: str, worse: str, criteria: Sequence[str]) -> str:
    return rng.choice(("", " ", ".", "...", "\n", "-"))


def _cut(rng: random.Random, whole: str, worse: str, criteria: Sequence[str]) -> str:
    """The first tenth to half of the whole, ended anywhere."""
    return whole[: max(1, round(len(whole) * rng.uniform(0.1, 0.5)))]


def _stuffed(rng: random.Random, whole: str, worse: str, criteria: Sequence[str]) -> str:
    """The other response, and the wish said again and again before or after it."""
    words = " ".join([". ".join(criteria)] * rng.randint(2, 8))
    return f"{words}\n\n{worse}" if rng.random() < 0.5 else f"{worse}\n\n{words}"
