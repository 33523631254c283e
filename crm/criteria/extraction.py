"""A language model keeps the preferences that are a matter of taste, and writes the criteria behind them.

After Jia et al. (arXiv 2508.09463). A row whose request failed is kept without criteria and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from crm.criteria.prompts import CriteriaReply, SubjectiveReply, criteria_messages, subjective_messages
from crm.endpoint.client import ChatClient, Plan
from crm.schema import Message, Preference, prompt_key

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Extraction:
    """A preference and what became of it.

    ``status`` is ``kept``, ``dropped`` (objective), ``extracted``, ``given`` (it has criteria and is unchanged), or
    ``failed:<kind>`` with a kind of `crm.endpoint.replies.CallFailed`; ``detail`` says more.
    """

    preference: Preference
    status: str
    detail: str = ""


def keep_subjective(
    rows: Sequence[Preference], client: ChatClient, progress: Progress | None = None
) -> list[Extraction]:
    """``kept``, ``dropped`` or ``failed:<kind>`` for every preference; one request per prompt (`prompt_key`).

    Raises ``ValueError`` where no request can succeed, see `ChatClient.ask`.
    """
    requests = subjective_requests(rows)
    found = {}
    for key, outcome in zip(requests, client.ask_for(SubjectiveReply, [*requests.values()], progress), strict=True):
        value = outcome.value
        if value is None:
            found[key] = f"failed:{outcome.failure}", outcome.detail
        else:
            found[key] = "kept" if value.subjective else "dropped", value.why
    return [Extraction(row, *found[prompt_key(row.prompt)]) for row in rows]


def extract(rows: Sequence[Preference], client: ChatClient, progress: Progress | None = None) -> list[Extraction]:
    """Criteria for every preference that has none, in the order given.

    Raises ``ValueError`` where no request can succeed, see `ChatClient.ask`.
    """
    outcomes = iter(client.ask_for(CriteriaReply, criteria_requests(rows), progress))
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


def plan(rows: Sequence[Preference], client: ChatClient) -> dict[str, Plan]:
    """What `keep_subjective` (``filter``) and `extract` (``criteria``) would cost; nothing is sent."""
    return {
        "filter": client.plan_for(SubjectiveReply, [*subjective_requests(rows).values()]),
        "criteria": client.plan_for(CriteriaReply, criteria_requests(rows)),
    }


def subjective_requests(rows: Iterable[Preference]) -> dict[str, Sequence[Message]]:
    """One request per prompt (`prompt_key`), worded as where it first occurs."""
    first: dict[str, Preference] = {}
    for row in rows:
        first.setdefault(prompt_key(row.prompt), row)
    return {key: subjective_messages(row) for key, row in first.items()}


def criteria_requests(rows: Iterable[Preference]) -> list[Sequence[Message]]:
    """One request per preference that has no criteria."""
    return [criteria_messages(row) for row in rows if not has_criteria(row)]


def has_criteria(row: Preference) -> bool:
    """Whether either side has criteria."""
    return bool(row.criteria_a or row.criteria_b)
