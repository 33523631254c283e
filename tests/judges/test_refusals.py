"""How far a refusal reaches, on sentences as people type them."""

import pytest

from crm.judges.sentence_reader import bundled_reader

LISTS, HEADINGS = ("Lists", -1), ("Headings and emphasis", -1)


@pytest.mark.parametrize(
    ("sentence", "asked"),
    [
        ("I hate lists and headings", [LISTS, HEADINGS]),
        ("without lists and headings", [LISTS, HEADINGS]),
        ("no lists or headings", [LISTS, HEADINGS]),
        ("I don't want code, lists or headings", [("Code", -1), LISTS, HEADINGS]),
        ("I hate lists, headings and bold", [LISTS, HEADINGS]),
        ("avoid emoji and jargon", [("Liveliness", -1), ("Vocabulary", -1)]),
        ("skip the greeting and the summary", [("Courtesy", -1), ("Summaries", -1)]),
        ("short answers without lists and headings", [("Length", -1), LISTS, HEADINGS]),
        ("not too long or formal", [("Length", -1), ("Professional tone", -1)]),
        ("no lists, short answers", [LISTS, ("Length", -1)]),
        ("no jargon and short sentences", [("Vocabulary", -1), ("Sentence length", -1)]),
        ("no emoji, examples welcome", [("Liveliness", -1), ("Examples", 1)]),
        ("without jargon, with examples", [("Vocabulary", -1), ("Examples", 1)]),
        ("don't skip examples and sources", [("Examples", 1), ("Sources", 1)]),
        ("don't ramble, get to the point", [("Length", -1), ("Directness", 1)]),
        ("lists and headings", [("Lists", 1), ("Headings and emphasis", 1)]),
        ('skip the "Great question!" and the "Hope that helps!"', [("Openings", -1), ("Closings", -1)]),
        ("Please refrain from lists and from headings", [LISTS, HEADINGS]),
    ],
)
def test_a_refusal_reaches_as_far_as_a_person_means_it(sentence: str, asked: list[tuple[str, int]]) -> None:
    assert [(clause.criterion, clause.side) for clause in bundled_reader().read(sentence)] == asked
