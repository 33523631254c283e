"""Responses show the levels they claim, in short readable text, and authors differ in style alone."""

from __future__ import annotations

import statistics

import pytest
from scipy.stats import kendalltau

from crm.data.simulation.lexicon import AUTHORS, PROFILES, TOPICS, levels_of, queries, write

SAMPLE = [
    (author, query, write(5, author, query))
    for topic in TOPICS
    for query in queries(topic.name, "votes")[:12]
    for author in AUTHORS
]


def test_levels_can_be_read_back_from_the_text() -> None:
    for _, _, response in SAMPLE[::7]:
        assert dict(levels_of(response.text) or ()) == response.levels, response.text


def test_a_response_depends_on_seed_author_and_query_only() -> None:
    author, query, response = SAMPLE[17]
    write(6, author, query)
    assert write(5, author, query) == response
    assert len({write(seed, author, query).text for seed in range(5)}) == 5


def mean_level(axis: str, author: str) -> float:
    return statistics.mean(response.levels[axis] for name, _, response in SAMPLE if name == author)


@pytest.mark.parametrize("axis", ["detail", "humor", "stories", "teamwork"])
def test_authors_write_as_their_profiles_say(axis: str) -> None:
    shown = [mean_level(axis, author) for author in AUTHORS]
    assert kendalltau(shown, [PROFILES[author][axis] for author in AUTHORS]).statistic > 0.75


def test_queries_are_all_different_short_and_never_shared_with_banks() -> None:
    votes = [query.text for topic in TOPICS for query in queries(topic.name, "votes")]
    banks = [query.text for topic in TOPICS for query in queries(topic.name, "bank")]
    assert len(set(votes + banks)) == len(votes) + len(banks)
    lengths = sorted(len(text.split()) for text in votes)
    assert 8 <= statistics.median(lengths) <= 12
    assert lengths[-1] <= 16
