"""Fixed topics. In: texts and names with descriptions. Out: for every text the nearest name, or none.

The twelve names are those of Jia et al. (arXiv 2508.09463); descriptions and keywords are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from crm.criteria.topics.embed import Embed, Matrix
from crm.criteria.topics.frame import UNTOPICAL

PAPER_TOPICS: dict[str, str] = {
    "Creative Writing & Literature": (
        "Writing and reading stories, poems, novels and plays. "
        "Keywords: story, poem, novel, character, plot, fiction, poetry, author, book, narrative, fantasy, chapter"
    ),
    "Humor & Entertainment": (
        "Jokes, comedy, films, television and famous people. "
        "Keywords: joke, funny, comedy, movie, TV show, celebrity, parody, meme, sitcom, punchline, laugh, actor"
    ),
    "Gaming & Virtual Worlds": (
        "Video games, board games, role-playing and virtual worlds. "
        "Keywords: game, player, level, quest, character class, console, multiplayer, dungeon, avatar, score, strategy"
    ),
    "Education & Learning": (
        "Schools, courses, teaching and how to study a subject. "
        "Keywords: school, student, teacher, lesson, course, exam, homework, study, class, university, learn, tutor"
    ),
    "Psychology & Relationships": (
        "Feelings, mental health, family, friendship and love. "
        "Keywords: feeling, emotion, relationship, friend, partner, marriage, anxiety, trust, conflict, love, dating"
    ),
    "Technology & Future": (
        "Computers, software, devices, science and what comes next. "
        "Keywords: technology, computer, software, code, programming, robot, AI, internet, phone, data, science, future"
    ),
    "Society & Politics": (
        "Government, law, history, public debate and social questions. "
        "Keywords: government, politics, law, election, policy, war, rights, history, citizens, vote, tax, economy"
    ),
    "Lifestyle & Hobbies": (
        "Cooking, travel, health, fitness, home, garden and leisure. "
        "Keywords: recipe, food, travel, trip, exercise, health, garden, home, fashion, pet, outdoor, hobby, sport"
    ),
    "Puzzles & Logic": (
        "Riddles, brain teasers, mathematics and step-by-step deduction. "
        "Keywords: puzzle, riddle, logic, math problem, number, clue, solve, equation, proof, chess, crossword, pattern"
    ),
    "Business & Careers": (
        "Companies, marketing, money, jobs and applications. "
        "Keywords: business, company, marketing, customer, product, job, interview, resume, salary, manager, sales"
    ),
    "Arts & Culture": (
        "Music, painting, dance, architecture, museums and traditions. "
        "Keywords: art, music, painting, song, dance, museum, artist, culture, tradition, design, photography, concert"
    ),
    "Language & Linguistics": (
        "Languages, grammar, translation and the meaning of words. "
        "Keywords: language, grammar, translate, word, meaning, sentence, spelling, pronunciation, verb, dialect"
    ),
}

NO_TOPIC = -1
THRESHOLD = 0.0
"""Cosine similarity that a text must exceed to get a topic. At 0 only what has nothing in common with any name
stays out. A higher one costs right answers too: with all-MiniLM-L6-v2 nonsense ("ok", "??") reaches 0.14, where 0.1
already leaves about a third of real queries without a topic."""


def described(names: Sequence[str] | Mapping[str, str] | None) -> dict[str, str]:
    """Names with descriptions ("" where there is none); the paper's twelve for None.

    Raises ``ValueError`` for fewer than two names, blank, repeated or reserved ones.
    """
    if names is None:
        return dict(PAPER_TOPICS)
    if isinstance(names, str):
        raise ValueError(f"names: expected a list of at least two topic names, got the text {names!r}")
    given = list(names)
    for name in given:
        if not isinstance(name, str) or not name.strip() or name in UNTOPICAL:
            raise ValueError(f"names: {name!r} cannot name a topic; give text other than {', '.join(UNTOPICAL)}")
    if len(given) < 2 or len(set(given)) < len(given):
        raise ValueError(f"names: expected at least two that differ, got {', '.join(given) or 'none'}")
    return dict(names) if isinstance(names, Mapping) else dict.fromkeys(given, "")


def assign(
    texts: Sequence[str], names: Mapping[str, str], embed: Embed, *, threshold: float
) -> tuple[npt.NDArray[np.int64], Matrix]:
    """Index of the most similar name for every text, `NO_TOPIC` where its cosine is not above ``threshold``.

    Also returns the embeddings of the texts (n, d). Texts and descriptions are embedded together, since TF-IDF knows
    only the words that it was fitted on. Of equally similar names the first is taken.
    """
    descriptions = [f"{name}. {about}".strip() for name, about in names.items()]
    vectors = embed([*texts, *descriptions])
    documents, topics = vectors[: len(texts)], vectors[len(texts) :]
    similarity = documents @ topics.T
    nearest = similarity.argmax(axis=1).astype(np.int64)
    nearest[similarity.max(axis=1) <= threshold] = NO_TOPIC
    return nearest, documents
