"""Votes with a reason. In: ``alpacaeval_cot_rationales/*.annotations.json.gz``. Out: `Preference` records.

An LLM ranked a baseline's output and another model's, which it was shown as ``M`` and ``m``, and explained itself in a
paragraph: the record's ``reason``, with a first sentence of ours that says which response M is. Rows without a reason
were not shown to it (equal outputs) and are dropped and counted. Where it ranked both first it is a tie, though
``preference`` is published as 1; these are counted. Records have no criteria. The instructions are AlpacaEval's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crm.io.intake import Intake
from crm.io.rows import data_files
from crm.schema import Preference, RecordError, prompt_key
from crm.votes.fields import choice, inner, number, response, text
from crm.votes.sampling import turn

OUTPUTS = {"output_1": "a", "output_2": "b"}
OTHER = {"a": "b", "b": "a"}


def read(folder: Path, reading: Intake) -> Iterator[Preference]:
    """Records of all files; ids are ``cot_rationales-<other model>-<key of the instruction>``. The baseline is A."""
    for file in data_files(folder):
        for row in reading.array(file, _parse):
            if row is None:
                reading.counts["dropped_without_reason"] += 1
            else:
                reading.counts["ties"] += row.winner == "tie"
                yield row


def _parse(row: dict[str, Any], _number: int) -> Preference | None:
    if "raw_completion" in row and row["raw_completion"] is None:
        return None
    said = inner(row, "raw_completion")
    side_of_m = choice(inner(row, "referenced_models"), "M", OUTPUTS)
    prompt = turn("user", text(row, "instruction"))
    author = text(row, "generator_2")
    legend = f"M is response {side_of_m.upper()}, m is response {OTHER[side_of_m].upper()}."
    return Preference(
        id=f"cot_rationales-{author}-{prompt_key(prompt)}",
        prompt=prompt,
        response_a=response(row, "output_1"),
        response_b=response(row, "output_2"),
        winner=_winner(_ranks(said), side_of_m, choice(row, "preference", {1: "a", 2: "b"})),
        author_a=text(row, "generator_1"),
        author_b=author,
        source="cot_rationales/llm",
        reason=f"{legend} {text(said, 'concise_explanation')}",
    )


def _ranks(said: dict[str, Any]) -> dict[str, float]:
    """The rank of ``M`` and of ``m``, 1 or 2."""
    models = said.get("ordered_models")
    if not isinstance(models, list) or not all(isinstance(model, dict) for model in models):
        raise RecordError("ordered_models", "expected a list of two objects with model and rank")
    ranks = {choice(model, "model", {"M": "M", "m": "m"}): number(model, "rank", 1, 2) for model in models}
    if len(ranks) != len(models) or len(ranks) != len(OUTPUTS):
        raise RecordError("ordered_models", "expected one rank for M and one for m")
    return ranks


def _winner(ranks: dict[str, float], side_of_m: str, preference: str) -> str:
    if ranks["M"] == ranks["m"]:
        return "tie"
    side = side_of_m if ranks["M"] < ranks["m"] else OTHER[side_of_m]
    if side != preference:
        raise RecordError("preference", "is for the output that ordered_models puts second")
    return side
