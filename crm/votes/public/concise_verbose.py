"""Concise or verbose: flip pairs of a model's answers, by how long it was asked to be.

Six LLMs answered the same instructions three times: asked to be concise, left alone, asked to be verbose. Two of a
model's answers to one instruction make a flip pair (`pairs.flip_pair`), by construction: nobody voted. The detailed
side is always the longer one (pairs where it is not are dropped and counted): this source measures whether a model
follows criteria about length and detail, and a judge that reads the criteria and counts words is right everywhere. Both
directions are always there, so a judge that only likes long answers scores one half.

Two of six models are held out. Instructions (near-duplicates together) are split 80 train, 10 validation, 10 held out
(in 100). Suite ``D``: held-out instructions, models seen in training; ``M``: held-out instructions and models; ``C``:
the pairs of ``M`` with wordings that training never uses. The instructions are AlpacaEval's: whoever trains on this has
seen the queries of a leaderboard bank made of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from crm.io.intake import Intake
from crm.io.words import count_words, first_words
from crm.schema import Preference, prompt_key
from crm.votes.fields import PublicRow, Text
from crm.votes.public.pairs import flip_pair, wordings_of
from crm.votes.sampling import hold_out, shuffled, turn, wordings
from crm.votes.splits import Splits, prompt_groups, subsampled

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
WORDINGS, UNSEEN_WORDINGS = wordings_of("concise_verbose"), wordings_of("concise_verbose_unseen")
_Key = tuple[str, str]


class Row(PublicRow):
    """One answer."""

    instruction: Text
    output: str


def load(
    root: str | Path,
    *,
    seed: int = 0,
    strict: bool = True,
    max_response_words: int | None = 120,
    max_train: int | None = None,
    max_suite: int | None = None,
) -> Splits:
    """Read the eighteen files of ``<root>/alpacaeval_concise_verbose``.

    ``max_response_words`` cuts long responses, after the check of which side is longer; a cut text ends in ``...``, and
    a pair of two cut texts is dropped and counted, since what tells its sides apart is gone. ``None`` keeps all whole.
    ``max_train`` and ``max_suite`` subsample in turns over kinds of pair, models and instructions. Raises
    ``ValueError`` for a bad file.
    """
    reading = Intake(strict=strict)
    answers = _read(Path(root) / "alpacaeval_concise_verbose", reading)
    counts = Counter(reading.all_counts())
    new_models = set(shuffled(MODELS, seed, "models")[:2])
    groups = prompt_groups([turn("user", instruction) for _, instruction in answers])
    keys = {instruction: groups[prompt_key(turn("user", instruction))] for _, instruction in answers}
    held_out, validation_keys = hold_out(keys.values(), (0.1, 0.1), seed)
    parts: dict[str, list[Preference]] = {"train": [], "validation": [], "D": [], "M": []}
    for (model, instruction), texts in answers.items():
        held = keys[instruction] in held_out
        rows = _pairs(model, instruction, texts, max_response_words, seed, counts)
        if model in new_models and not held:
            counts["dropped_held_out_model_on_training_instruction"] += len(rows)
        else:
            in_training = "validation" if keys[instruction] in validation_keys else "train"
            parts[("M" if model in new_models else "D") if held else in_training] += rows
    parts["C"] = [_with_unseen_wordings(row, seed) for row in parts["M"]]
    levels = (lambda row: "-".join(row.id.rsplit("-", 2)[1:]), lambda row: str(row.author_a), lambda row: row.query)
    return subsampled(parts, counts, reading, max_train, max_suite, seed, *levels)


def read(folder: Path, reading: Intake) -> Iterator[Preference]:
    """Every pair of a model's answers to one instruction, whole, whose detailed side is the longer one."""
    for (model, instruction), texts in _read(folder, reading).items():
        yield from _pairs(model, instruction, texts, None, 0, reading.counts)


def _read(folder: Path, reading: Intake) -> dict[_Key, dict[str, str]]:
    """Answers by (model, instruction), then by style."""
    answers: dict[_Key, dict[str, str]] = {}
    for model in MODELS:
        for style in STYLES:
            plain = folder / f"{model}{'' if style == 'plain' else '_' + style}.json"
            zipped = plain.with_name(plain.name + ".gz")
            path = zipped if zipped.exists() else plain
            for row in reading.array(path, lambda row, _: Row.model_validate(row), key=lambda row: row.instruction):
                answers.setdefault((model, row.instruction), {})[style] = row.output
    return answers


def _pairs(
    model: str, instruction: str, texts: dict[str, str], max_words: int | None, seed: int, counts: Counter[str]
) -> list[Preference]:
    """The flip pairs of one model's answers to one instruction; adds what was dropped and why to ``counts``."""
    rows = []
    for shorter, longer in combinations(STYLES, 2):
        counts["pairs"] += 1
        if shorter not in texts or longer not in texts:
            counts["dropped_answer_missing"] += 1
        elif count_words(texts[shorter]) >= count_words(texts[longer]):
            counts["dropped_detailed_side_not_longer"] += 1
        else:
            concise, detailed = (first_words(texts[style], max_words) for style in (shorter, longer))
            if concise != texts[shorter]:  # the longer side is cut too
                counts["dropped_both_cut"] += 1
                continue
            prompt, answers = turn("user", instruction), {"detailed": detailed, "concise": concise}
            name = f"concise_verbose-{model}-{prompt_key(prompt)}-{shorter}-{longer}"
            source = "concise_verbose/construction"
            rows.append(flip_pair(name, prompt, answers, WORDINGS, source=source, seed=seed, author=model))
    return rows


def _with_unseen_wordings(row: Preference, seed: int) -> Preference:
    """The same pair and sides; criteria from `UNSEEN_WORDINGS`."""
    (wish_a,), (wish_b,) = row.criteria_topics_a, row.criteria_topics_b
    return replace(
        row,
        id=f"unseen-{row.id}",
        criteria_a=wordings(UNSEEN_WORDINGS[wish_a], seed, row.id, wish_a),
        criteria_b=wordings(UNSEEN_WORDINGS[wish_b], seed, row.id, wish_b),
    )
