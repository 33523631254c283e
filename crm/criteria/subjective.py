"""Which preferences ask for what is a matter of taste. In: preferences. Out: those to keep, and every verdict.

A prompt with one answer that can be checked says nothing about a user's taste. A prompt on which the model gave no
usable verdict is kept and counted, so that a bad endpoint cannot empty a data set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from crm.criteria import prompts, schemas
from crm.criteria.prompts import subjective_messages
from crm.criteria.schemas import SubjectiveReply
from crm.io.chat.asker import Asker, OnProgress, Outcome, Plan, Request
from crm.schema import Preference, prompt_key

SOURCES = (prompts, schemas)


@dataclass(frozen=True, slots=True)
class Screening:
    """About the preference ``id``: ``status`` is ``kept``, ``dropped`` or ``failed:<kind>`` (kept as well).

    ``why`` is the model's reason, or what went wrong.
    """

    id: str
    status: str
    why: str


@dataclass(frozen=True, slots=True)
class Sorted:
    """The preferences to keep, in their order, one verdict per preference that came in, and rows by status."""

    kept: list[Preference]
    verdicts: list[Screening]

    @property
    def counts(self) -> Counter[str]:
        """Rows by status; their sum is the number of rows that came in."""
        return Counter(verdict.status for verdict in self.verdicts)


def keep_subjective(preferences: Sequence[Preference], asker: Asker, progress: OnProgress | None = None) -> Sorted:
    """Ask once per prompt and keep the preferences whose prompt is not found to be objective.

    Raises ``ValueError`` where no request can succeed, see `Asker.ask_all`.
    """
    asked = requests(preferences)
    outcomes = {outcome.id: outcome for outcome in asker.ask_all(asked, SubjectiveReply, SOURCES, progress)}
    verdicts = [_verdict(row.id, outcomes[prompt_key(row.prompt)]) for row in preferences]
    kept = [row for row, verdict in zip(preferences, verdicts, strict=True) if verdict.status != "dropped"]
    return Sorted(kept, verdicts)


def plan(preferences: Sequence[Preference], asker: Asker) -> Plan:
    """What `keep_subjective` would cost; nothing is sent."""
    return asker.plan(requests(preferences), SubjectiveReply, SOURCES)


def requests(preferences: Sequence[Preference]) -> list[Request]:
    """One request per prompt (see `prompt_key`), named by its key, worded as where it first occurs."""
    first: dict[str, Preference] = {}
    for row in preferences:
        first.setdefault(prompt_key(row.prompt), row)
    return [Request(key, subjective_messages(row)) for key, row in first.items()]


def _verdict(identifier: str, outcome: Outcome[SubjectiveReply]) -> Screening:
    if outcome.value is None:
        return Screening(identifier, f"failed:{outcome.failure}", outcome.detail)
    return Screening(identifier, "kept" if outcome.value.subjective else "dropped", outcome.value.why)
