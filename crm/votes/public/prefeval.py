"""PrefEval. In: ``prefeval/mcq_options/*.json``. Out: `Preference` records, three for each question.

A user states a preference and asks a question; of four options only the first follows the preference. It makes a pair
with each of the others, and the user's statement, in their own words, is its criterion. Which option stands as A is
drawn. The topic is the file's name. One file is published twice ("travel_hotel copy"): a question that was read before
is dropped and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crm.io.intake import Intake
from crm.io.rows import data_files
from crm.schema import Preference, RecordError, prompt_key
from crm.votes.fields import text
from crm.votes.public.rated import Rated, rated_pair
from crm.votes.sampling import turn

OPTIONS = 4


@dataclass(frozen=True)
class _Question:
    preference: str
    question: str
    options: tuple[str, ...]


def read(folder: Path, reading: Intake) -> Iterator[Preference]:
    """Records of all files; ids are ``prefeval-<topic>-<digest of preference and question>-<the other option>``."""
    seen: set[str] = set()
    for file in data_files(folder / "mcq_options"):
        topic = file.name.split(".json")[0].removesuffix(" copy")
        for question in reading.array(file, _parse):
            name = f"prefeval-{topic}-{prompt_key(turn('user', f'{question.preference}|{question.question}'))}"
            if name in seen:
                reading.counts["dropped_repeated_questions"] += 1
            else:
                seen.add(name)
                yield from _pairs(name, topic, question)


def _parse(row: dict[str, Any], _line: int) -> _Question:
    field = "classification_task_options"
    options = row.get(field)
    if not isinstance(options, list) or len(options) != OPTIONS:
        raise RecordError(field, f"expected a list of {OPTIONS} options, the first of which follows the preference")
    texts = tuple(text({field: option}, field) for option in options)
    if texts[0] in texts[1:]:
        raise RecordError(field, "the first option is repeated, so that it does not tell who follows the preference")
    return _Question(text(row, "preference"), text(row, "question"), texts)


def _pairs(name: str, topic: str, question: _Question) -> Iterator[Preference]:
    follows = Rated(question.options[0], None, {topic: 1})
    for other in range(1, OPTIONS):
        yield rated_pair(
            f"{name}-{other}",
            turn("user", question.question),
            follows,
            Rated(question.options[other], None, {topic: 0}),
            {topic: (question.preference,)},
            source="prefeval/llm",
            topic=topic,
        )
