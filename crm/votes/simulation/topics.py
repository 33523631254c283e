"""The paper's twelve topics as small lexicons. In: a topic name. Out: its queries, every one different.

Subjects are plural and follow "in" or "with"; nouns are singular and follow "the". A query remembers its subject and
noun, so that responses can speak to it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from crm.votes.simulation.draws import generator

HOW_TAILS: tuple[str, ...] = (
    *("", " as a beginner", " with a friend", " on a small budget", " in one week", " for my class", " after work"),
    *(" with little time", " for a large group", " on my own", " this summer", " with my family", " this time"),
)
WHY_TAILS: tuple[str, ...] = (
    "",
    " these days",
    " for beginners",
    " for children",
    " for experts",
    " for busy people",
    " now",
)
"""Endings of queries that ask for help, and of queries that ask for reasons."""
SHARED_HOW = ("How do I improve the {noun} in {subject}{tail}?", "How can I change the {noun} in {subject}{tail}?")
SHARED_WHY = ("What defines the {noun} in {subject}{tail}?", "Why does the {noun} matter in {subject}{tail}?")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's words: plural subjects, singular nouns, its own query templates, and sentences about its matter."""

    name: str
    subjects: tuple[str, ...]
    nouns: tuple[str, ...]
    how: tuple[str, ...]
    why: tuple[str, ...]
    content: tuple[str, ...]
    held_out: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """One question of a user: its text, and the topic, subject and noun it is about."""

    text: str
    topic: str
    subject: str
    noun: str


def _topic(
    name: str, subjects: str, nouns: str, how: str, why: str, content: tuple[str, str, str], held_out: bool = False
) -> Topic:
    return Topic(
        name,
        tuple(subjects.split(", ")),
        tuple(nouns.split(", ")),
        (how + "{tail}.",),
        (why + "{tail}?",),
        content,
        held_out,
    )


TOPICS: tuple[Topic, ...] = (
    _topic(
        "Creative Writing & Literature",
        "short stories, love poems, mystery novels, fairy tales, stage plays, memoirs, fantasy sagas, ballads",
        "plot, hero, ending, narrator, opening line, villain, setting, rhyme, twist, chapter",
        "Help me write the {noun} for my {subject}",
        "What makes the {noun} work in {subject}",
        (
            "Readers of {subject} remember the {noun}.",
            "Writers of {subject} revise the {noun} often.",
            "The {noun} carries most {subject}.",
        ),
    ),
    _topic(
        "Humor & Entertainment",
        "comedy shows, talent contests, sitcoms, cartoons, magic acts, karaoke nights, parody songs, sketch revues",
        "punchline, timing, costume, host, audience, catchphrase, stage, gag, warm-up, encore",
        "Plan the {noun} for my {subject}",
        "Why do people love the {noun} in {subject}",
        (
            "Viewers of {subject} wait for the {noun}.",
            "Performers in {subject} rehearse the {noun}.",
            "The {noun} keeps {subject} lively.",
        ),
    ),
    _topic(
        "Gaming & Virtual Worlds",
        "board games, racing games, card games, online quests, puzzle dungeons, arcade games, virtual cities, shooters",
        "level, score, avatar, map, boss fight, controller, guild, quest log, power-up, tutorial",
        "Show me how to master the {noun} in {subject}",
        "Why do players argue about the {noun} in {subject}",
        (
            "Players of {subject} care about the {noun}.",
            "Designers of {subject} balance the {noun}.",
            "The {noun} decides many {subject}.",
        ),
    ),
    _topic(
        "Education & Learning",
        "online courses, evening classes, science lessons, school projects, study groups, workshops, lectures, exams",
        "syllabus, homework, notebook, teacher, grade, quiz, lesson plan, deadline, classroom, tutor",
        "Help me prepare the {noun} for my {subject}",
        "What role does the {noun} play in {subject}",
        (
            "Students in {subject} rely on the {noun}.",
            "Schools run {subject} around the {noun}.",
            "The {noun} guides most {subject}.",
        ),
    ),
    _topic(
        "Psychology & Relationships",
        "close friendships, marriages, first dates, family dinners, office romances, breakups, reunions, roommates",
        "trust, conflict, habit, apology, boundary, mood, promise, silence, compliment, argument",
        "Help me handle the {noun} in my {subject}",
        "Why is the {noun} so hard in {subject}",
        (
            "Couples and friends in {subject} face the {noun}.",
            "Counselors see the {noun} in many {subject}.",
            "The {noun} can change {subject}.",
        ),
        held_out=True,
    ),
    _topic(
        "Technology & Future",
        "smart homes, electric cars, space stations, delivery drones, home robots, solar farms, phone apps, chatbots",
        "battery, sensor, software, screen, network, password, update, robot arm, camera, charger",
        "Help me choose the {noun} for my {subject}",
        "How will the {noun} change in {subject}",
        (
            "Engineers of {subject} test the {noun}.",
            "Owners of {subject} check the {noun}.",
            "The {noun} powers many {subject}.",
        ),
    ),
    _topic(
        "Society & Politics",
        "city councils, elections, public debates, town meetings, labor unions, petitions, parliaments, protests",
        "vote, law, budget, mayor, speech, campaign, tax, committee, policy, ballot",
        "Explain how to influence the {noun} in {subject}",
        "Who decides on the {noun} in {subject}",
        (
            "Citizens in {subject} discuss the {noun}.",
            "Reporters at {subject} follow the {noun}.",
            "The {noun} divides many {subject}.",
        ),
    ),
    _topic(
        "Lifestyle & Hobbies",
        "home gardens, camping trips, baking days, yoga sessions, fishing trips, model trains, picnics, long hikes",
        "soil, tent, oven, routine, backpack, recipe, fence, blanket, schedule, shoe",
        "Recommend the {noun} for my {subject}",
        "What is special about the {noun} in {subject}",
        (
            "Fans of {subject} enjoy the {noun}.",
            "Hobbyists plan {subject} around the {noun}.",
            "The {noun} makes {subject} pleasant.",
        ),
    ),
    _topic(
        "Puzzles & Logic",
        "riddles, number grids, chess problems, mazes, crosswords, jigsaws, logic tests, secret codes",
        "clue, pattern, corner, hint, symbol, proof, row, trick, answer key, grid line",
        "Guide me to the {noun} in {subject}",
        "What does the {noun} reveal in {subject}",
        (
            "Solvers of {subject} search for the {noun}.",
            "Makers of {subject} hide the {noun}.",
            "The {noun} unlocks most {subject}.",
        ),
        held_out=True,
    ),
    _topic(
        "Business & Careers",
        "small startups, job interviews, sales calls, family shops, trade fairs, internships, meetings, online stores",
        "salary, customer, contract, pitch, invoice, manager, brand, website, resume, product",
        "Help me present the {noun} in {subject}",
        "How important is the {noun} in {subject}",
        (
            "Managers in {subject} watch the {noun}.",
            "Workers in {subject} talk about the {noun}.",
            "The {noun} drives most {subject}.",
        ),
    ),
    _topic(
        "Arts & Culture",
        "street murals, portraits, folk dances, operas, museums, jazz concerts, sculptures, photo exhibits",
        "color, rhythm, frame, melody, brush, light, curtain, gallery, texture, chorus",
        "Teach me to use the {noun} in {subject}",
        "What does the {noun} express in {subject}",
        (
            "Artists use the {noun} in {subject}.",
            "Visitors of {subject} notice the {noun}.",
            "The {noun} gives {subject} their charm.",
        ),
    ),
    _topic(
        "Language & Linguistics",
        "sign languages, dialects, dictionaries, spelling bees, idioms, letters, translations, speeches",
        "grammar, accent, vowel, spelling, verb, comma, word order, phrase, suffix, alphabet",
        "Correct the {noun} in my {subject}",
        "Where does the {noun} come from in {subject}",
        (
            "Speakers and scholars of {subject} debate the {noun}.",
            "Linguists study the {noun} in {subject}.",
            "The {noun} marks many {subject}.",
        ),
        held_out=True,
    ),
)

TOPIC: dict[str, Topic] = {topic.name: topic for topic in TOPICS}
TRAIN_TOPICS = tuple(topic.name for topic in TOPICS if not topic.held_out)
HELD_OUT_TOPICS = tuple(topic.name for topic in TOPICS if topic.held_out)
BANK_SHARE = 0.1
"""Share of a topic's queries set aside for banks, so that no bank query is ever a training prompt."""


def _all_queries(topic: Topic) -> list[Query]:
    asks = [(template, HOW_TAILS) for template in SHARED_HOW + topic.how]
    asks += [(template, WHY_TAILS) for template in SHARED_WHY + topic.why]
    return [
        Query(template.format(noun=noun, subject=subject, tail=tail), topic.name, subject, noun)
        for template, tails in asks
        for tail in tails
        for subject in topic.subjects
        for noun in topic.nouns
    ]


@functools.cache
def queries(topic: str, purpose: str) -> tuple[Query, ...]:
    """Every query of a topic for a purpose, ``votes`` or ``bank``, in a fixed random order; the two never meet."""
    everything = _all_queries(TOPIC[topic])
    generator("queries", topic).shuffle(everything)
    cut = int(len(everything) * BANK_SHARE)
    return tuple(everything[:cut] if purpose == "bank" else everything[cut:])
