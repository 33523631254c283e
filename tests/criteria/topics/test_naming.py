"""Names from a model that answers well, badly or not at all; the keyword name is what stays."""

from __future__ import annotations

import pytest

from crm.criteria.topics.find import find_topics
from crm.criteria.topics.frame import Topics
from crm.criteria.topics.naming import name_with


@pytest.fixture
def topics(sentences: list[str]) -> Topics:
    return find_topics(sentences, count=3)


def test_good_names_are_taken_and_counted(topics: Topics) -> None:
    prompts: list[str] = []

    def ask(asked: list[str]) -> list[str | None]:
        prompts.extend(asked)
        return ["Cooking", " Space travel\n", "Chess"]

    named = name_with(ask, topics)
    assert named.names == ("Cooking", "Space travel", "Chess")
    assert named.labels == topics.labels and named.keywords == topics.keywords
    assert named.counts == {**topics.counts, "named": 3, "unanswered": 0, "refused": 0}
    assert named.frame()["Topic"].tolist() == ["Cooking"] * 5 + ["Space travel"] * 4 + ["Chess"] * 3
    assert "pasta" in prompts[0] and "- Boil the pasta" in prompts[0] and "rocket" not in prompts[0]


@pytest.mark.parametrize(
    "reply", ["", "x", "y" * 61, "two\nlines", "Chess", "CHESS", "Other", "outliers", "bell\a", "new\u2028line"]
)
def test_a_bad_reply_leaves_the_keywords(topics: Topics, reply: str) -> None:
    named = name_with(lambda asked: [reply, None, "Chess"] if reply[:1] not in "Cc" else ["Chess", None, reply], topics)
    assert len(set(named.names)) == 3
    assert named.names[1] == topics.names[1]
    assert (named.counts["named"], named.counts["unanswered"], named.counts["refused"]) == (1, 1, 1)


def test_no_reply_is_never_made_up(topics: Topics) -> None:
    named = name_with(lambda asked: [None] * len(asked), topics)
    assert named.names == topics.names
    assert named.counts["unanswered"] == 3


def test_what_is_no_topic_keeps_its_name() -> None:
    topics = find_topics(["pasta sauce", "", "chess queen"], method="taxonomy", names={"A": "pasta", "B": "chess"})
    named = name_with(lambda asked: [f"Topic number {index}" for index, _ in enumerate(asked)], topics)
    assert named.names == ("Topic number 0", "Topic number 1", "Other")


def test_prompts_are_bounded_and_one_line_a_text() -> None:
    texts = ["long\nword " * 500, "long words"] * 3
    prompts: list[str] = []
    name_with(lambda asked: prompts.extend(asked) or [None] * len(asked), find_topics(texts, count=1))  # type: ignore[func-returns-value]
    assert len(prompts[0]) < 1000
    assert sum(line.startswith("- ") for line in prompts[0].splitlines()) == 2


def test_another_number_of_replies(topics: Topics) -> None:
    with pytest.raises(ValueError, match="1 replies to 3 prompts"):
        name_with(lambda asked: ["one"], topics)
