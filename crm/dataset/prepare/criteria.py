"""In: rows as read, and who annotates. Out: which rows ask for taste at all, and criteria for both sides of each.

With a language model (an `Asker`) rows go by in portions; what it answered is in its cache, so that a stage that was
stopped or had failures asks only for what is missing. Where the endpoint is down, the stage stops. Without a model
nothing is filtered, and traits that can be counted stand in for criteria (`crm.criteria.traits`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from crm.criteria import extraction, subjective, traits
from crm.dataset.prepare.workspace import CRITERIA, FILTER, Workspace, with_findings
from crm.io.chat.asker import Asker, Plan
from crm.io.chat.failures import UNANSWERED
from crm.io.parquet import count_rows, read_parquet, write_rows
from crm.schema import Preference

PORTION, ASKED_AT_ONCE = 2_000, 256
"""Rows in memory at a time, without a model and with one: progress is shown after each portion."""
DOWN = "failed:endpoint_down"
SILENT = {DOWN, *(f"failed:{kind}" for kind in UNANSWERED)}
"""Statuses of rows to which no model has said anything."""
Advance = Callable[[int], None]
"""Called with the number of rows that are done, each time some are."""


@dataclass(frozen=True)
class Finding:
    """What is found about one row: ``status``, what a finding consists of, and ``detail`` of a failure."""

    status: str
    values: dict[str, Any]
    detail: str = ""


def filter_subjective(space: Workspace, asker: Asker | None, progress: Advance) -> dict[str, int]:
    """Write ``kept``, ``dropped``, ``not_asked`` or ``failed:<kind>`` (kept too) for every row; counts of each."""

    def verdicts(rows: Sequence[Preference]) -> list[Finding]:
        if asker is None:
            return [Finding("not_asked", {"why": None}) for _ in rows]
        found = subjective.keep_subjective(rows, asker).verdicts
        return [Finding(verdict.status, {"why": verdict.why}, verdict.why) for verdict in found]

    return _write(space, "filter", FILTER, verdicts, asker, progress)


def find_criteria(space: Workspace, asker: Asker | None, seed: int, progress: Advance) -> dict[str, int]:
    """Write the criteria of every row: ``given`` ones as they are, else ``extracted`` by the model, or ``described``.

    Rows that the filter dropped are not asked for (``dropped``). A row that ``failed:<kind>`` has no criteria.
    """
    dropped = (found["status"] == "dropped" for _, (found,) in with_findings(space, "filter"))

    def verdicts(rows: Sequence[Preference]) -> list[Finding]:
        out = list(islice(dropped, len(rows)))
        kept = [row for row, is_out in zip(rows, out, strict=True) if not is_out]
        found: Iterator[Any] = iter(extraction.extract(kept, asker) if asker else traits.describe(kept, seed))
        return [
            _criteria(row, "dropped") if is_out else _found(next(found)) for row, is_out in zip(rows, out, strict=True)
        ]

    return _write(space, "criteria", CRITERIA, verdicts, asker, progress)


def plan(space: Workspace, asker: Asker, *, filtering: bool) -> dict[str, Plan]:
    """What the two stages would cost at most: criteria are planned as if the filter dropped nothing."""
    total: dict[str, list[Plan]] = {"filter": [], "criteria": []}
    for rows in _portions(read_parquet(space.findings("ingest"), Preference), PORTION):
        if filtering:
            total["filter"].append(subjective.plan(rows, asker))
        total["criteria"].append(extraction.plan(rows, asker))
    return {name: _sum(plans) for name, plans in total.items()}


def _found(found: Any) -> Finding:
    return _criteria(found.preference, found.status, getattr(found, "detail", ""))


def _criteria(row: Preference, status: str, detail: str = "") -> Finding:
    values = {name: getattr(row, name) for name in CRITERIA.names if name not in ("id", "status")}
    return Finding(status, values, detail)


def _write(
    space: Workspace,
    stage: str,
    columns: Any,
    verdicts: Callable[[Sequence[Preference]], list[Finding]],
    asker: Asker | None,
    progress: Advance,
) -> dict[str, int]:
    counts: Counter[str] = Counter()
    silence: list[str] = []

    def findings() -> Iterator[dict[str, Any]]:
        size = ASKED_AT_ONCE if asker else PORTION
        for rows in _portions(read_parquet(space.findings("ingest"), Preference), size):
            for row, verdict in zip(rows, verdicts(rows), strict=True):
                counts[verdict.status] += 1
                if verdict.status in SILENT:
                    silence.append(verdict.detail)
                yield {"id": row.id, "status": verdict.status, **verdict.values}
            if counts[DOWN]:
                raise _down(silence[0])
            progress(len(rows))
        if counts.keys() <= SILENT:
            raise _down(silence[0])

    write_rows(space.findings(stage), columns, findings())
    return {"rows": count_rows(space.findings(stage)), **dict(sorted(counts.items()))}


def _down(first: str) -> ValueError:
    """Without this the rest would be counted as failed, row by row, and the stages behind would work on nothing."""
    return ValueError(
        f"annotator: the endpoint does not answer ({first}); see that it runs and that annotator.base_url is its "
        "address, then run the same command again: what it has answered is kept"
    )


def _portions(rows: Iterator[Preference], size: int) -> Iterator[list[Preference]]:
    while portion := list(islice(rows, size)):
        yield portion


def _sum(plans: list[Plan]) -> Plan:
    names = ("requests", "cached", "calls", "prompt_tokens", "max_completion_tokens")
    return Plan(**{name: sum(getattr(plan, name) for plan in plans) for name in names})
