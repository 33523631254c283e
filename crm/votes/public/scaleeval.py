"""ScaleEval. In: ``scaleeval/responses`` and ``results``. Out: 680 pairs without a winner: the published ones are lost.

Two LLMs' responses were shown in a random order, and an LLM said for each of two criteria which of them, first or
second, is better. That order was not published, and was drawn anew for each criterion (``random.randint`` in the
authors' ``evaluation.py``, c822752f), so nobody can tell whom a verdict is for. Read as if the order never changed,
220 pairs change winner between the two criteria, close to what a coin would give (`FLIPS`); these are no flips.
The pairs are kept, as ties without criteria, because their texts are of use: to find leakage, or to be judged anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crm.io.intake import Intake
from crm.schema import Message, Preference, RecordError
from crm.votes.fields import Conversation, choice, response, text, whole
from crm.votes.sampling import turn

CRITERIA = ("creativity", "helpfulness", "interpretability", "reasoning")
MATCHES = {
    "claude_vs_gemini": ("claude-instant", "gemini"),
    "gpt3.5_vs_claude": ("gpt3.5", "claude-instant"),
    "gpt3.5_vs_gemini": ("gpt3.5", "gemini"),
}
PLACES = {"0": "neither", "1": "first", "2": "second"}
FLIPS = "verdicts_that_differ_as_published"
_Texts = dict[tuple[str, str, int], tuple[Conversation, Conversation]]


def read(folder: Path, reading: Intake) -> Iterator[Preference]:
    """Every pair that was judged under two criteria; ids are ``scaleeval-<match>-<scenario>-<number>``."""
    texts = _responses(folder / "responses", reading)
    verdicts: dict[tuple[str, str, int], list[str]] = {}
    for match in MATCHES:
        for criterion in CRITERIA:
            for path in sorted((folder / "results" / match / criterion).glob("*/*.jsonl*")):
                for number, place in reading.array(path, _parse_verdict, key=lambda verdict: verdict[0]):
                    verdicts.setdefault((match, _scenario(path), number), []).append(place)
    for (match, scenario, number), places in verdicts.items():
        author_a, author_b = MATCHES[match]
        sides = [texts.get((author, scenario, number)) for author in (author_a, author_b)]
        if sides[0] is None or sides[1] is None or sides[0][0] != sides[1][0]:
            reading.counts["dropped_responses_missing"] += 1
        elif len(places) < 2:
            reading.counts["dropped_one_criterion_only"] += 1
        else:
            reading.counts[FLIPS] += {"first", "second"} <= set(places)
            yield Preference(
                id=f"scaleeval-{match}-{scenario}-{number}",
                prompt=sides[0][0],
                response_a=sides[0][1],
                response_b=sides[1][1],
                winner="tie",
                topic=scenario,
                author_a=author_a,
                author_b=author_b,
                source="scaleeval/llm",
            )


def _responses(folder: Path, reading: Intake) -> _Texts:
    """Prompt and response by model, scenario and number of the line, from 1: the number that verdicts name."""
    texts: _Texts = {}
    for model in sorted({name for pair in MATCHES.values() for name in pair}):
        for path in sorted((folder / model).glob("*.jsonl*")):
            for number, said in reading.lines(path, _parse_response):
                texts[model, _scenario(path), number] = said
    if not texts:
        raise ValueError(
            f"{folder}: no file in this folder ends in .jsonl; expected a folder a model and a file a scenario"
        )
    return texts


def _parse_response(row: dict[str, Any], line: int) -> tuple[int, tuple[Conversation, Conversation]]:
    prompt: tuple[Message, ...] = turn("user", text(row, "prompt"))
    return line, (prompt, response(row, "response"))


def _parse_verdict(row: dict[str, Any], _line: int) -> tuple[int, str]:
    number = whole(row, "ID")
    if number < 1:
        raise RecordError("ID", f"{number} is no line of the responses; they count from 1")
    return number, choice(row, "Score", PLACES)


def _scenario(path: Path) -> str:
    return path.name.split(".", 1)[0]
