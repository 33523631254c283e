"""DSP's plain pairs. In: ``dsp/{helpful,harmless,webgpt}.test.json.gz``. Out: `Preference` records without criteria.

Two dialogues that differ in how they end, and a score for each; people preferred the higher one, equal scores are ties.
The prompt is what both share up to an answer. In 14 pairs a response goes on behind its first turn; it is kept whole,
and counted. The topic is the file. Which side stands as A is drawn, as most files put the winner first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from crm.io.intake import Intake
from crm.schema import Preference
from crm.votes.fields import number, text, two
from crm.votes.public.dialogues import dialogue
from crm.votes.public.pairs import chosen_pair, split_shared

FILES = ("helpful", "harmless", "webgpt")


def read(folder: Path, reading: Intake) -> Iterator[Preference]:
    """One record a row; ids are ``dsp_plain-<file>-<item of the file>``."""
    for file in FILES:
        for row in reading.array(folder / f"{file}.test.json.gz", partial(_parse, topic=file)):
            reading.counts["ties"] += row.winner == "tie"
            reading.counts["pairs_with_a_response_of_several_turns"] += len(row.response_a + row.response_b) > 2
            yield row


def _parse(row: dict[str, Any], item: int, *, topic: str) -> Preference:
    first, second = (dialogue(text({"text": side}, "text")) for side in two(row, "text"))
    prompt, a, b = split_shared(first, second, ("text[0]", "text[1]"))
    score_a, score_b = (number({"score": score}, "score", 0, 2) for score in two(row, "score"))
    better, worse = (a, b) if score_a >= score_b else (b, a)
    record = chosen_pair(f"dsp_plain-{topic}-{item}", prompt, better, worse, source="dsp_plain/human", topic=topic)
    return replace(record, winner="tie") if score_a == score_b else record
