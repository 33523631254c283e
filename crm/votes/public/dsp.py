"""Domain-specific preferences. In: ``dsp/domain_specific_preference.test.json.gz``. Out: `Splits` of flip pairs.

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
from typing import Any

from crm.io.intake import Intake
from crm.io.words import first_words
from crm.schema import Preference, folded, prompt_key
from crm.votes.fields import inner, response, text
from crm.votes.public.pairs import wished_pair
from crm.votes.sampling import hold_out, turn
from crm.votes.splits import Splits, prompt_groups, subsampled

DOMAINS = ("academy", "business", "entertainment", "literature")
WORDINGS: dict[str, tuple[str, ...]] = {
    "academy": (
        "I want the precise, scholarly answer a university lecturer would give",
        "Write for a researcher: exact terms, careful reasoning, no chit-chat",
        "Prefer an objective and academic treatment of the question",
        "I like answers that read like a passage from a textbook",
        "Use formal, rigorous language and define the concepts",
        "Explain the theory behind it in a neutral, analytical tone",
    ),
    "business": (
        "Write for a manager who has to decide what to do next",
        "I look at everything through markets, customers and costs",
        "Prefer the answer that talks about value for companies and their strategy",
        "Give me the professional view that an executive would find useful",
        "I care about efficiency, profit and practical outcomes for an organisation",
        "It should sound like advice from a seasoned consultant",
    ),
    "entertainment": (
        "Make it fun: I want to be amused while I read",
        "I like a cheeky, playful tone with jokes",
        "Prefer the answer that talks like a show host to the audience",
        "Keep it light and lively, with some pop culture if possible",
        "I enjoy humour and excitement more than seriousness",
        "It should feel like chatting with an entertaining friend",
    ),
    "literature": (
        "Write it beautifully, with images and metaphors",
        "I love poetic language and elegant sentences",
        "Prefer the answer that reads like a page of a novel",
        "I want a writer's voice: lyrical, evocative, full of feeling",
        "Let the prose carry me, like a storyteller or a poet would",
        "Answer in a literary style, as a lover of great books",
    ),
}
UNSEEN_WORDINGS: dict[str, tuple[str, ...]] = {
    "academy": (
        "My field is science, and I expect the tone of a journal article",
        "Scholarly depth is what I am after",
        "Sound like a professor",
        "Dislikes: unscientific chatter",
        "Rigorous, theoretical answers suit me best",
    ),
    "business": (
        "I run a firm and read with the bottom line in mind",
        "Speak the language of the boardroom",
        "Sound like an entrepreneur",
        "Dislikes: anything without a business case",
        "Answers about growth, revenue and management suit me best",
    ),
    "entertainment": (
        "Serve it with a wink and a laugh",
        "I read this to be entertained, like a late-night comedy bit",
        "Sound like a comedian",
        "Dislikes: boring, stiff lectures",
        "Funny, energetic answers suit me best",
    ),
    "literature": (
        "Give me ornate, expressive prose",
        "I read as a novelist does, for the beauty of the words",
        "Sound like a poet",
        "Dislikes: prosaic, matter-of-fact wording",
        "Dreamy, metaphorical answers suit me best",
    ),
}


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
    path = Path(root) / "dsp" / "domain_specific_preference.test.json.gz"
    reading = Intake(strict=strict)
    records = list(reading.array(path, _parse, key=lambda item: folded(item[0])))
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
    return subsampled(parts, counts, reading, max_train, max_suite, seed, _domains, lambda row: row.query)


def read(folder: Path, reading: Intake) -> Iterator[Preference]:
    """Every pair of domains for every query, whole, with the wordings of training."""
    path = folder / "domain_specific_preference.test.json.gz"
    for query, answers in reading.array(path, _parse, key=lambda item: folded(item[0])):
        for first, second in combinations(DOMAINS, 2):
            if answers[first] == answers[second]:
                reading.counts["dropped_identical_responses"] += 1
            else:
                yield _preference(query, {name: answers[name] for name in (first, second)}, WORDINGS, 0)


def _parse(row: dict[str, Any], _line: int) -> tuple[str, dict[str, str]]:
    answers = inner(row, "responses")
    return text(row, "query"), {name: response(answers, f"responses.{name}")[0].content for name in DOMAINS}


def _preference(query: str, answers: dict[str, str], bank: dict[str, tuple[str, ...]], seed: int) -> Preference:
    """The flip pair of the two domains in ``answers``."""
    prompt, unseen = turn("user", query), "-unseen" if bank is UNSEEN_WORDINGS else ""
    pair = "-".join((*answers, prompt_key(prompt)))
    name = f"dsp-{pair}{unseen}"
    return wished_pair(name, prompt, answers, bank, source="dsp/construction", seed=seed, drawn_by=pair)


def _domains(row: Preference) -> str:
    return "+".join(sorted(row.criteria_topics_a + row.criteria_topics_b))
