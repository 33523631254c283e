"""Flip pairs that are true by construction: nobody voted, each response was asked to be what its criteria say.

- ``dsp``: a query answered for an academic, a business, an entertainment and a literature reader. The fifth, plain
  answer is not used: it is half as long as the others. Suite ``D``: held-out queries; ``C``: the same pairs with
  wordings that training never uses.
- ``concise_verbose``: six LLMs answered AlpacaEval's instructions concisely, plainly and verbosely. The detailed side
  is always the longer one. Suite ``D``: held-out instructions; ``M``: and held-out models; ``C``: the pairs of ``M``
  with wordings that training never uses.

Queries (near-duplicates together) are split 80 train, 10 validation, 10 held out, in 100.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from crm.data.fields import Conversation, PublicRow, Text
from crm.data.public.pairs import Answer, Wordings, aspects_of, two_sided, wordings_of
from crm.data.splits import Splits, prompt_groups
from crm.io.draws import fraction, hold_out, shuffled, turn, wordings
from crm.io.rows import Intake
from crm.io.words import count_words, first_words
from crm.schema import Preference, folded, prompt_key

READERS = ("academy", "business", "entertainment", "literature")
STYLES = ("concise", "plain", "verbose")
"""From least to most detail."""
MODELS = (
    "Mixtral-8x7B-Instruct-v0.1",
    "alpaca-7b",
    "claude-2.1",
    "gpt-3.5-turbo-1106",
    "gpt4_0613",
    "gpt4_1106_preview",
)


class _ForReaders(PublicRow):
    class Answers(PublicRow):
        """One for every reader."""

        academy: str
        business: str
        entertainment: str
        literature: str

    query: Text
    responses: Answers


def load_dsp(folder: Path, reading: Intake, *, seed: int, max_words: int, **sizes: int) -> Splits:
    """Responses cut to ``max_words`` (0: whole); sizes are drawn in turns over reader pairs and queries."""
    answered = _read_dsp(folder, reading)
    part_of = _parts((query for query, _ in answered), seed)
    parts: dict[str, list[Preference]] = {"train": [], "validation": [], "D": []}
    reading.counts.update(unused_plain_answers=len(answered), pairs=6 * len(answered), dropped_identical_responses=0)
    for row in _for_two_readers(answered, reading.counts, seed, max_words):
        parts[part_of[row.query]].append(row)
    unseen = wordings_of("dsp_unseen")
    parts["C"] = [_reworded(row, f"{row.id}-unseen", unseen, seed, row.id.removeprefix("dsp-")) for row in parts["D"]]
    return Splits.of(parts, reading).at_most(aspects_of, lambda row: row.query, seed=seed, **sizes)


def dsp(folder: Path, reading: Intake) -> Iterator[Preference]:
    """Every pair of readers for every query, whole, with the wordings of training."""
    return _for_two_readers(_read_dsp(folder, reading), reading.counts, seed=0, max_words=0)


def _read_dsp(folder: Path, reading: Intake) -> list[tuple[str, dict[str, str]]]:
    """Queries, each with its answers by reader."""
    path = folder / "domain_specific_preference.test.json.gz"
    rows = list(reading.rows(path, lambda row, _: _ForReaders.model_validate(row), lambda row: folded(row.query)))
    return [(row.query, row.responses.model_dump()) for row in rows]


def _for_two_readers(
    answered: Iterable[tuple[str, dict[str, str]]], counts: Counter[str], seed: int, max_words: int
) -> Iterator[Preference]:
    for query, answers in answered:
        for readers in combinations(READERS, 2):
            cut = {name: first_words(answers[name], max_words) for name in readers}
            if len(set(cut.values())) == 1:
                counts["dropped_identical_responses"] += 1
                continue
            prompt = turn("user", query)
            draw = "-".join((*readers, prompt_key(prompt)))
            yield _flip_pair(f"dsp-{draw}", draw, prompt, cut, seed)


def load_concise_verbose(folder: Path, reading: Intake, *, seed: int, max_words: int, **sizes: int) -> Splits:
    """Responses cut to ``max_words`` after the check of which is longer; pairs of two cut ones are dropped.

    Sizes are drawn in turns over kinds of pair, models and instructions.
    """
    answers = _read_concise_verbose(folder, reading)
    unseen = set(shuffled(MODELS, seed, "models")[:2])
    part_of = _parts((instruction for _, instruction in answers), seed)
    parts: dict[str, list[Preference]] = {"train": [], "validation": [], "D": [], "M": []}
    for (model, instruction), texts in answers.items():
        rows, part = _three_pairs(model, instruction, texts, max_words, seed, reading.counts), part_of[instruction]
        if model not in unseen:
            parts[part] += rows
        elif part == "D":
            parts["M"] += rows
        else:
            reading.counts["dropped_held_out_model_on_training_instruction"] += len(rows)
    words = wordings_of("concise_verbose_unseen")
    parts["C"] = [_reworded(row, f"unseen-{row.id}", words, seed, row.id) for row in parts["M"]]
    levels = (lambda row: "-".join(row.id.rsplit("-", 2)[1:]), lambda row: str(row.author_a), lambda row: row.query)
    return Splits.of(parts, reading).at_most(*levels, seed=seed, **sizes)


def concise_verbose(folder: Path, reading: Intake) -> Iterator[Preference]:
    """Every pair of a model's answers to one instruction, whole, whose detailed side is the longer one."""
    for (model, instruction), texts in _read_concise_verbose(folder, reading).items():
        yield from _three_pairs(model, instruction, texts, 0, 0, reading.counts)


def _read_concise_verbose(folder: Path, reading: Intake) -> dict[tuple[str, str], dict[str, str]]:
    """Answers by (model, instruction), then by style."""
    answers: dict[tuple[str, str], dict[str, str]] = {}
    for model in MODELS:
        for style in STYLES:
            path = folder / f"{model}{'' if style == 'plain' else '_' + style}.json"
            zipped = path.with_name(path.name + ".gz")
            for row in reading.rows(
                zipped if zipped.exists() else path,
                lambda row, _: Answer.model_validate(row),
                lambda row: (model, style, row.instruction),  # noqa: B023 - used at once
            ):
                answers.setdefault((model, row.instruction), {})[style] = row.output
    return answers


def _three_pairs(
    model: str, instruction: str, texts: Mapping[str, str], max_words: int, seed: int, counts: Counter[str]
) -> list[Preference]:
    """The flip pairs of one model's answers to one instruction; adds what was dropped and why to ``counts``."""
    rows, prompt = [], turn("user", instruction)
    for shorter, longer in combinations(STYLES, 2):
        counts["pairs"] += 1
        if shorter not in texts or longer not in texts:
            counts["dropped_answer_missing"] += 1
        elif count_words(texts[shorter]) >= count_words(texts[longer]):
            counts["dropped_detailed_side_not_longer"] += 1
        elif (concise := first_words(texts[shorter], max_words)) != texts[shorter]:
            counts["dropped_both_cut"] += 1  # the longer side is cut too
        else:
            answers = {"detailed": first_words(texts[longer], max_words), "concise": concise}
            name = f"concise_verbose-{model}-{prompt_key(prompt)}-{shorter}-{longer}"
            rows.append(_flip_pair(name, name, prompt, answers, seed, model))
    return rows


def _flip_pair(
    name: str, draw: str, prompt: Conversation, answers: Mapping[str, str], seed: int, author: str | None = None
) -> Preference:
    """The pair of two answers, by what each was asked to be: that is its criterion, and a coin names the winner."""
    kind = name.partition("-")[0]
    keys = list(answers) if fraction(seed, draw, "side") < 0.5 else list(answers)[::-1]
    a, b = ((answers[key], wordings(wordings_of(kind)[key], seed, draw, key), (key,), author) for key in keys)
    winner = "a" if fraction(seed, draw, "winner") < 0.5 else "b"
    return two_sided(name, prompt, a, b, winner, f"{kind}/construction")


def _reworded(row: Preference, name: str, bank: Wordings, seed: int, drawn_by: str) -> Preference:
    """The same pair and sides under another name, with criteria of another bank."""
    (topic_a,), (topic_b,) = row.criteria_topics_a, row.criteria_topics_b
    criteria_a, criteria_b = (wordings(bank[topic], seed, drawn_by, topic) for topic in (topic_a, topic_b))
    return replace(row, id=name, criteria_a=criteria_a, criteria_b=criteria_b)


def _parts(queries: Iterable[str], seed: int) -> dict[str, str]:
    """``train``, ``validation`` or ``D`` for every query."""
    prompts = {query: turn("user", query) for query in queries}
    groups = prompt_groups([*prompts.values()])
    held_out, validation = hold_out(groups.values(), (0.1, 0.1), seed)
    part_of = dict.fromkeys(held_out, "D") | dict.fromkeys(validation, "validation")
    return {query: part_of.get(groups[prompt_key(prompt)], "train") for query, prompt in prompts.items()}
