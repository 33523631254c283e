"""Criteria written by a language model. In: preferences. Out: an `Extraction` each, with criteria or a failure.

After Jia et al. (arXiv 2508.09463): for each side of a pair a model writes the criteria under which a user would prefer
that side. A row whose request failed keeps no criteria; none are ever made up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from crm.criteria import prompts, schemas
from crm.criteria.prompts import criteria_messages
from crm.criteria.schemas import CriteriaReply
from crm.io.chat.asker import Asker, OnProgress, Outcome, Plan, Request
from crm.schema import Preference

SOURCES = (prompts, schemas)


@dataclass(frozen=True, slots=True)
class Extraction:
    """A preference and what became of it.

    ``status`` is ``extracted``, ``given`` (it had criteria on a side and is as it was) or ``failed:<kind>`` with a kind
    of `crm.io.chat.failures.FAILURES`; ``detail`` says more about a failure.
    """

    preference: Preference
    status: str
    detail: str = ""


def extract(preferences: Sequence[Preference], asker: Asker, progress: OnProgress | None = None) -> list[Extraction]:
    """Criteria for every preference that has none, in the order given. Topics of criteria stay as they are.

    Raises ``ValueError`` where no request can succeed, see `Asker.ask_all`.
    """
    outcomes = iter(asker.ask_all(requests(preferences), CriteriaReply, SOURCES, progress))
    return [
        Extraction(preference, "given") if has_criteria(preference) else _extraction(preference, next(outcomes))
        for preference in preferences
    ]


def plan(preferences: Sequence[Preference], asker: Asker) -> Plan:
    """What `extract` would cost; nothing is sent."""
    return asker.plan(requests(preferences), CriteriaReply, SOURCES)


def requests(preferences: Iterable[Preference]) -> list[Request]:
    """One request per preference that has no criteria."""
    return [Request(row.id, criteria_messages(row)) for row in preferences if not has_criteria(row)]


def has_criteria(preference: Preference) -> bool:
    """Whether either side has criteria: what somebody wrote is never replaced."""
    return bool(preference.criteria_a or preference.criteria_b)


def count(extractions: Iterable[Extraction]) -> Counter[str]:
    """Rows by status."""
    return Counter(extraction.status for extraction in extractions)


def _extraction(preference: Preference, outcome: Outcome[CriteriaReply]) -> Extraction:
    if outcome.value is None:
        return Extraction(preference, f"failed:{outcome.failure}", outcome.detail)
    written = replace(
        preference, criteria_a=tuple(outcome.value.criteria_a), criteria_b=tuple(outcome.value.criteria_b)
    )
    return Extraction(written, "extracted")
