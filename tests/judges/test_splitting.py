"""Sentences that are taken apart, and what their parts say about one another."""

import pytest

from crm.judges.sentence_reader import STRONG, WEAK, bundled_reader
from crm.judges.splitting import sentences

Asked = tuple[str, int]
SHORT, LISTS, CODE, EXAMPLES, EMOJI = ("Length", -1), ("Lists", -1), ("Code", 1), ("Examples", 1), ("Liveliness", -1)


def asked_for(sentence: str) -> list[Asked]:
    read = bundled_reader().read(sentence)
    return [(clause.criterion, clause.side) for clause in read if clause.criterion]


@pytest.mark.parametrize(
    ("sentence", "asked"),
    [
        ("less formal, more examples", [("Professional tone", -1), EXAMPLES]),
        ("more examples and fewer lists", [EXAMPLES, LISTS]),
        ("code instead of explanations", [CODE]),
        ("bullet points instead of prose", [("Lists", 1)]),
        ("show me code rather than describing it", [CODE]),
        ("concrete examples not abstract theory", [EXAMPLES]),
        ("I do not like lists", [LISTS]),
        ("No code unless it's needed", [("Code", -1)]),
        ("Answers should be short, unless the topic is complicated", [SHORT]),
        ("emojis? hell no", [EMOJI]),
        ("Bullet points? Not for me.", [LISTS]),
        ("everyone loves lists, I don't", [LISTS]),
        ("I hate lists. I can't stand them.", [LISTS]),
        ("no metaphors or stories, just say it", [("Analogies", -1), ("Storytelling", -1)]),
        ("not too long, not too short", [SHORT, ("Length", 1)]),
        ("I don't care about length", []),
        ("cheap, open weights and short answers", [SHORT]),
        ("1. short answers 2. no emojis 3. sources", [SHORT, EMOJI, ("Sources", 1)]),
        ("formal but without jargon", [("Professional tone", 1), ("Vocabulary", -1)]),
        ("short answers. no lists. thanks", [SHORT, LISTS]),
        ("+ examples, - emojis", [EXAMPLES, EMOJI]),
        ("short w/o emojis", [SHORT, EMOJI]),
        ("no lists no emojis", [LISTS, EMOJI]),
        ("less words more numbers", [SHORT, ("Figures", 1)]),
        ("short, but not too short", [SHORT]),
        ("explain with comparisons, not with code", [("Analogies", 1), ("Code", -1)]),
        ("Emoji? Awful.", [EMOJI]),
        ("My last assistant was terrible: long, formal and full of emojis", [SHORT, ("Professional tone", -1), EMOJI]),
        ("My last assistant was terrible. Short answers please.", [SHORT]),
        ("The answer had no sources and no examples", [("Sources", 1), EXAMPLES]),
        ("The answer had no sources. Short answers please.", [("Sources", 1), SHORT]),
        ("It wrote about pensions for two pages and never summed up", [("Summaries", 1)]),
        ("It came as a wall of text with no breaks", [("Paragraph length", -1)]),
        ("Every paragraph opened with somebody's quotation", [("Quotations", -1)]),
        ("My last assistant was lovely, short and with examples", [SHORT, EXAMPLES]),
        ("riddles in my tax return, no thank you", []),
        ("advice please, I'm lost with my life", [("Advice", 1)]),
    ],
)
def test_all_that_is_asked_is_found_the_right_way_round(sentence: str, asked: list[Asked]) -> None:
    assert asked_for(sentence) == asked


def test_what_was_wrong_is_asked_for_alone_too() -> None:
    """A page shows every clause, and reads it again."""
    read = bundled_reader().read("My last assistant was terrible: long, no sources, full of emojis")
    assert [clause.text for clause in read] == ["too long", "sources", "too full of emojis"]
    assert [asked_for(clause.text) for clause in read] == [[SHORT], [("Sources", 1)], [EMOJI]]


def test_a_word_that_weighs_belongs_to_what_follows() -> None:
    read = bundled_reader().read("above all short answers, a bit of humour, ideally with examples")
    assert [(clause.criterion, clause.weight) for clause in read] == [
        ("Length", STRONG),
        ("Humour", WEAK),
        ("Examples", WEAK),
    ]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("short. no lists! thanks", ["short.", "no lists!"]),
        ("thank you", ["thank you"]),
        ("Every answer ends with a question. Annoying.", ["Every answer ends with a question. Annoying."]),
        ("it never says what comes next, why? no lists", ["it never says what comes next, why?", "no lists"]),
        ("say e.g. why", ["say e.g. why"]),
        ("it ends in 1. 2. 3.", ["it ends in 1. 2. 3."]),
        ("TL;DR first; no bold", ["TL;DR first", "no bold"]),
        ('no "well... let me see" | short', ['no "well... let me see"', "short"]),
        ("\n  \n", []),
    ],
)
def test_where_sentences_end(text: str, parts: list[str]) -> None:
    assert [text[slice(*span)] for span in sentences(text)] == parts


def test_the_time_for_a_long_list_grows_with_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """All runs of 40 parts would be 820 texts to read."""
    reader, asked = bundled_reader(), []
    logits = reader._model.logits
    monkeypatch.setattr(reader._model, "logits", lambda texts: asked.extend(texts) or logits(texts))
    line = ", ".join(f"no {word} {number}" for number in range(10) for word in ("lists", "code", "emoji", "jargon"))
    assert len(reader.read(line)) > 1 and len(asked) <= 4 * 40 + 1
