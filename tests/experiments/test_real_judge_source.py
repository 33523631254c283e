"""The source `tastes`: held-out parts never train, labels match a second count, degraded texts lose."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from crm.data.splits import Splits
from crm.schema import Preference, query_of
from experiments.real_judge.source import CLEAR, PER_QUERY, UNSEEN_TRAITS, load, training, unseen_queries
from experiments.real_judge.tables import QUERIES as QUERIES_A_TABLE
from experiments.real_judge.tables import WHOLE_WINS, TasteTables
from experiments.real_judge.traits import TRAITS, wording

DATA = Path(os.environ.get("CRM_DATA_ROOT", Path(__file__).parents[3] / "shared" / "data"))
LLMS, QUERIES = 15, 150
TRAIT = {trait.name: trait for trait in TRAITS}
SENTENCES = (
    *("A cat sat on a mat.", "Is it late?", "How lovely!", "- one thing", "I saw my dog.", "You see your cat."),
    *("It doesn't care.", "It may perhaps sleep.", "There are 12 cats.", "For example, a cat.", "**A note**"),
    *("You should sleep (as cats do).", "It was very, really calm.", "We like our cat.", "It slept because of that."),
)
BY_EYE: dict[str, Callable[[str], float]] = {
    "Length": lambda text: len(text.split()),
    "Questions to the reader": lambda text: text.count("?"),
    "Liveliness": lambda text: text.count("!"),
    "Lists": lambda text: sum(line.startswith("- ") for line in text.splitlines()),
    "Examples": lambda text: text.count("For example"),
}
"""Counts of a few traits that need no pattern in texts made of `SENTENCES`."""
DEGRADED = ("-empty", "-cut", "-stuffed")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bank of made-up texts: each LLM writes each of the sentences none to three times."""
    root, rng = tmp_path_factory.mktemp("banks"), random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    queries = [" ".join("".join(rng.choices(letters, k=6)) for _ in range(12)) + "?" for _ in range(QUERIES)]
    (root / "bank_alpacaeval").mkdir()
    for llm in range(LLMS):
        rows = []
        for query in queries:
            answer = [text for text in SENTENCES for _ in range(rng.choice((0, 0, 1, 3)))]
            rng.shuffle(answer)
            rows.append({"instruction": query, "output": "\n".join(answer or ["Yes."])})
        (root / "bank_alpacaeval" / f"llm{llm:02}.json").write_text(json.dumps(rows), encoding="utf-8")
    return root


def read(root: Path, seed: int = 1) -> Splits:
    sizes = {"train": 384, "validation": 60, "suite": 120, "max_words": 0}
    return load(root, seed=seed, sources=("alpacaeval",), **sizes)


@pytest.fixture(scope="module")
def splits(root: Path) -> Splits:
    return read(root)


def asked(rows: list[Preference]) -> set[str]:
    return {query_of(row.prompt) for row in rows}


def authors(rows: list[Preference]) -> set[str | None]:
    return {author for row in rows for author in (row.author_a, row.author_b)}


def sentences(rows: list[Preference]) -> set[str]:
    return {text for row in rows for text in (*row.criteria_a, *row.criteria_b)}


def degraded(row: Preference) -> bool:
    return row.id.endswith(DEGRADED)


def sign_of(trait: str, sentence: str) -> int:
    """Whether a sentence asks for more (1) or less (-1), by looking it up."""
    (sign,) = (
        sign
        for sign in (1, -1)
        for side in [wording(trait, sign)]
        if sentence in {*side.training, *side.framed, *side.unseen}
    )
    return sign


def test_queries_of_suites_and_validation_never_train(splits: Splits, root: Path) -> None:
    tested = {query for rows in splits.suites.values() for query in asked(rows)}
    parts = (asked(splits.train), asked(splits.validation), tested)
    assert all(parts) and not (parts[0] & parts[1] or parts[0] & parts[2] or parts[1] & parts[2])
    assert tested <= set(unseen_queries(str(root), 1, ("alpacaeval",)).values())
    assert set(splits.suites) == set("DMCAXL")


def test_llms_that_are_held_out_are_in_no_training_pair(splits: Splits) -> None:
    seen = authors(splits.train) | authors(splits.validation) | authors(splits.suites["D"])
    unseen = {author for name in "MCAX" for author in authors(splits.suites[name])}
    assert not seen & unseen
    assert len(unseen) == splits.counts["llms_held_out"] == LLMS // 5


def test_wordings_and_traits_that_are_held_out_never_train(splits: Splits) -> None:
    unseen = {text.casefold() for trait in TRAITS for sign in (1, -1) for text in wording(trait.name, sign).unseen}
    taught = {text.casefold() for text in sentences(splits.train) | sentences(splits.validation)}
    assert not taught & unseen
    assert {text.casefold() for name in "CAL" for text in sentences(splits.suites[name])} <= unseen
    assert not {text.casefold() for name in "DMX" for text in sentences(splits.suites[name])} & unseen
    trained = {trait for row in splits.train for trait in (*row.criteria_topics_a, *row.criteria_topics_b)}
    assert not trained & set(UNSEEN_TRAITS)
    assert {row.topic for row in splits.suites["A"]} <= set(UNSEEN_TRAITS)


def test_labels_are_what_counting_says(splits: Splits) -> None:
    seen: Counter[str] = Counter()
    for row in [row for name in "DMCA" for row in splits.suites[name]]:
        (trait,) = row.criteria_topics_a
        a, b = row.response_a[0].content, row.response_b[0].content
        likes_a, likes_b = (sign_of(trait, text) for (text,) in (row.criteria_a, row.criteria_b))
        assert likes_a == -likes_b
        measure = TRAIT[trait].measure
        assert likes_a * (measure(a) - measure(b)) >= CLEAR * TRAIT[trait].measure.clear - 1e-6
        if trait in BY_EYE:
            assert likes_a * (BY_EYE[trait](a) - BY_EYE[trait](b)) > 0, trait
            seen[trait] += 1
    assert len(seen) >= 3


def test_degraded_responses_only_lose(splits: Splits) -> None:
    rows = [row for row in (*splits.train, *splits.suites["L"]) if degraded(row)]
    assert {row.id.rsplit("-", 1)[1] for row in rows} == {"empty", "cut", "stuffed"}
    assert all(degraded(row) for row in splits.suites["L"])
    assert 0.02 < sum(map(degraded, splits.train)) / len(splits.train) < 0.2
    for row in rows:
        sides = [(row.response_a, row.criteria_a), (row.response_b, row.criteria_b)]
        (won, criteria), (lost, none) = sides if row.winner == "a" else sides[::-1]
        assert criteria and not none
        if row.id.endswith("-empty"):
            assert not lost[0].content.strip(" .-\n")
        elif row.id.endswith("-cut"):
            assert won[0].content.startswith(lost[0].content) and len(lost[0].content) <= len(won[0].content) / 2 + 1
        else:
            assert lost[0].content.count(criteria[0]) >= 2


def training_sentences(taste: tuple[str, int]) -> set[str]:
    found = wording(*taste)
    return {*found.training, *found.framed}


@pytest.fixture(scope="module")
def tables(root: Path) -> TasteTables:
    used = training(root, seed=1, sources=("alpacaeval",), train=15 * PER_QUERY, max_words=0)
    return TasteTables(used.queries, used.llms, used.traits, seed=1)


def test_targets_of_a_table_are_what_a_count_by_eye_says(tables: TasteTables) -> None:
    table = tables(0, in_words=True)
    texts = [response[0].content for _, response in table.conversations]
    checked = even = 0
    for name, count in BY_EYE.items():
        for sign in (1, -1):
            rows = np.isin(
                table.asked,
                [table.criteria.index(text) for text in training_sentences((name, sign)) & set(table.criteria)],
            )
            for (first, second), target in zip(table.shown[rows].tolist(), table.target[rows].tolist(), strict=True):
                if abs(target - WHOLE_WINS) < 1e-6 or abs(target - 1 + WHOLE_WINS) < 1e-6:
                    continue  # a whole response beside a degraded one
                gap = sign * (count(texts[first]) - count(texts[second]))
                assert np.sign(gap) == np.sign(target - 0.5)
                even += gap == 0
                checked += 1
    assert checked > 300 and 20 < even < checked / 2, "pairs that hardly differ are asked for too"


def test_a_table_is_the_same_each_time_and_an_epoch_asks_each_query_once(tables: TasteTables) -> None:
    one, again, other = (tables(number, in_words=True) for number in (1, 1, 2))
    assert one.criteria == again.criteria and (one.shown == again.shown).all() and (one.target == again.target).all()
    assert one.criteria != other.criteria
    made = [tables(step, in_words=False) for step in range(15 // QUERIES_A_TABLE[False])]
    of_epoch = [{query_of(prompt) for prompt, _ in table.conversations} for table in made]
    assert sum(map(len, of_epoch)) == len(set.union(*of_epoch)), "no query twice"
    assert 0.4 < float((one.target[one.target != 0.5] > 0.5).mean()) < 0.6, "either side wins"
