"""A language model keeps the preferences that are a matter of taste, and writes the criteria behind them.

After Jia et al. (arXiv 2508.09463). A row whose request failed is kept without criteria and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from crm.criteria import prompts, schemas
from crm.criteria.prompts import criteria_messages, subjective_messages
from crm.criteria.schemas import CriteriaReply, SubjectiveReply
from crm.io.chat.asker import Asker, OnProgress, Plan, Request
from crm.schema import Preference, prompt_key

SOURCES = (prompts, schemas)


@dataclass(frozen=True, slots=True)
class Extraction:
    """A preference and what became of it.

    ``status`` is ``kept``, ``dropped`` (objective), ``extracted``, ``given`` (it has criteria and is unchanged), or
    ``failed:<kind>`` with a kind of `crm.io.chat.failures.FAILURES`; ``detail`` says more.
    """

    preference: Preference
    status: str
    detail: str = ""


def keep_subjective(rows: Sequence[Preference], asker: Asker, progress: OnProgress | None = None) -> list[Extraction]:
    """``kept``, ``dropped`` or ``failed:<kind>`` for every preference; one request per prompt (`prompt_key`).

    Raises ``ValueError`` where no request can succeed, see `Asker.ask_all`.
    """
    outcomes = asker.ask_all(subjective_requests(rows), SubjectiveReply, SOURCES, progress)
    found = {}
    for outcome in outcomes:
        value = outcome.value
        if value is None:
            found[outcome.id] = f"failed:{outcome.failure}", outcome.detail
        else:
            found[outcome.id] = "kept" if value.subjective else "dropped", value.why
    return [Extraction(row, *found[prompt_key(row.prompt)]) for row in rows]


def extract(rows: Sequence[Preference], asker: Asker, progress: OnProgress | None = None) -> list[Extraction]:
    """Criteria for every preference that has none, in the order given.

    Raises ``ValueError`` where no request can succeed, see `Asker.ask_all`.
    """
    outcomes = iter(asker.ask_all(criteria_requests(rows), CriteriaReply, SOURCES, progress))
    found = []
    for row in rows:
        if has_criteria(row):
            found.append(Extraction(row, "given"))
        elif (value := (outcome := next(outcomes)).value) is None:
            found.append(Extraction(row, f"failed:{outcome.failure}", outcome.detail))
        else:
            written = replace(row, criteria_a=tuple(value.criteria_a), criteria_b=tuple(value.criteria_b))
            found.append(Extraction(written, "extracted"))
    return found


def plan(rows: Sequence[Preference], asker: Asker) -> dict[str, Plan]:
    """What `keep_subjective` (``filter``) and `extract` (``criteria``) would cost; nothing is sent."""
    return {
        "filter": asker.plan(subjective_requests(rows), SubjectiveReply, SOURCES),
        "criteria": asker.plan(criteria_requests(rows), CriteriaReply, SOURCES),
    }


def subjective_requests(rows: Iterable[Preference]) -> list[Request]:
    """One request per prompt, worded as where it first occurs."""
    first: dict[str, Preference] = {}
    for row in rows:
        first.setdefault(prompt_key(row.prompt), row)
    return [Request(key, subjective_messages(row)) for key, row in first.items()]


def criteria_requests(rows: Iterable[Preference]) -> list[Request]:
    """One request per preference that has no criteria."""
    return [Request(row.id, criteria_messages(row)) for row in rows if not has_criteria(row)]


def has_criteria(row: Preference) -> bool:
    """Whether either side has criteria."""
    return bool(row.criteria_a or row.criteria_b)


def count(extractions: Iterable[Extraction]) -> Counter[str]:
    """Rows by status."""
    return Counter(extraction.status for extraction in extractions)
