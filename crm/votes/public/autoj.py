"""Auto-J's pairs. In: ``autoj/testdata_pairwise.jsonl.gz``. Out: `Preference` records without criteria.

People said which of two responses is better, or that neither is. The topic is the scenario, one of 58. The criteria
that are published for a scenario are what to look at in general and speak for neither side, so they are not used. It is
a published test: pairs of equal texts (nine, eight of them ties) stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crm.io.intake import Intake
from crm.schema import Preference
from crm.votes.fields import choice, response, text
from crm.votes.sampling import turn


def read(folder: Path, reading: Intake) -> Iterator[Preference]:
    """One record a row; ids are ``autoj-<line>``. Responses stand as published."""
    for row in reading.lines(folder / "testdata_pairwise.jsonl.gz", _parse):
        reading.counts["ties"] += row.winner == "tie"
        yield row


def _parse(row: dict[str, Any], line: int) -> Preference:
    return Preference(
        id=f"autoj-{line}",
        prompt=turn("user", text(row, "prompt")),
        response_a=response(row, "response 1"),
        response_b=response(row, "response 2"),
        winner=choice(row, "label", {0: "a", 1: "b", 2: "tie"}),
        topic=text(row, "scenario"),
        source="autoj/human",
    )
