"""Last stage. In: a finished dataset and the records of its stages. Out: its card, ``README.md``, and its plots.

The card's head tells `datasets` and the hub which file is which split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2
import pandas as pd
from huggingface_hub import DatasetCardData

from crm.dataset.prepare.leakage import leaked_queries
from crm.dataset.prepare.licence import about, license_of, note
from crm.dataset.prepare.place import PARTS
from crm.dataset.prepare.plots import draw, survey
from crm.dataset.prepare.split import NOT_USED, placed
from crm.dataset.prepare.stages import Record, listed
from crm.dataset.prepare.topics import read_quality
from crm.dataset.prepare.workspace import Workspace
from crm.io.files import replace_file
from crm.io.parquet import count_rows, read_rows
from crm.report.tables import markdown_text

SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


@dataclass(frozen=True)
class Facts:
    """What the card says that no stage has counted."""

    source: str
    name: str
    license: str | None
    criteria_by: str
    held_out_topics: Sequence[str]
    held_out_criteria: Sequence[str]
    seed: int
    commit: str


def write_card(space: Workspace, facts: Facts, suites: Sequence[str], records: Mapping[str, Record]) -> dict[str, int]:
    """Write the card and its plots; counts of plots and suites that are not empty."""
    used = ((row, part) for row, part in placed(space) if part not in NOT_USED)
    plots = [path.name for path in draw(space.root / "plots", survey(used))]
    filled = [name for name in suites if count_rows(space.suite(name))]
    page = _template().render(
        front_matter=_front_matter(space, facts, filled),
        name=facts.name,
        about=about(facts.source),
        parts=markdown_text(_parts(space)),
        held_out_topics=_named(facts.held_out_topics),
        held_out_criteria=_named(facts.held_out_criteria),
        has_criteria="criteria.png" in plots,
        has_lengths="lengths.png" in plots,
        stages=markdown_text(_stages(records)),
        who=f"Criteria: {facts.criteria_by}.",
        topics=_topics(read_quality(space)),
        leakage=markdown_text(leaked_queries(space)) if count_rows(space.findings("leakage")) else "None found.\n",
        leakage_note=_leakage_note(records),
        licence=note(facts.source, facts.license),
        commit=facts.commit,
        seed=facts.seed,
    )
    replace_file(space.root / "README.md", page)
    return {"plots": len(plots), "suites_filled": len(filled)}


def _named(topics: Sequence[str]) -> str:
    """Names in code spans: they come from data, and a comma or a link in one is part of it."""
    return ", ".join(f"`{' '.join(name.split()).replace('`', chr(39))}`" for name in topics) or "none"


def split_name(suite: str) -> str:
    """A suite's name as a split of `datasets`, which allows no signs: ``D-_add`` is ``D_minus_add``."""
    return suite.replace("+", "_plus").replace("-", "_minus")


def _template() -> jinja2.Template:
    loader = jinja2.PackageLoader("crm.dataset.prepare", ".")
    # What comes from data goes through `markdown_text`.
    made = jinja2.Environment(loader=loader, autoescape=False, undefined=jinja2.StrictUndefined)  # noqa: S701 - no HTML
    return made.get_template("card.md.j2")


def _front_matter(space: Workspace, facts: Facts, suites: Sequence[str]) -> str:
    rows = count_rows(space.preferences)
    parts = [{"split": part, "path": f"splits/{part}.parquet"} for part in PARTS if count_rows(space.part(part))]
    fixed = [{"split": split_name(name), "path": f"suites/{name}.parquet"} for name in suites]
    configs: list[dict[str, Any]] = [{"config_name": "preferences", "default": True, "data_files": parts}]
    if fixed:
        configs.append({"config_name": "suites", "data_files": fixed})
    head = DatasetCardData(
        pretty_name=facts.name,
        license=(license_of(facts.source, facts.license) or "unknown").lower(),
        task_categories=["text-classification"],
        tags=["preferences", "reward-model", "criteria", "personalization"],
        size_categories=next((name for limit, name in SIZES if rows < limit), "n>1M"),
        configs=configs,
    )
    return head.to_yaml()


def _parts(space: Workspace) -> pd.DataFrame:
    rows = []
    for part in PARTS:
        columns = ["prompt", "winner", "criteria_a", "criteria_b"]
        found = list(read_rows(space.part(part), columns))
        rows.append(
            {
                "part": part,
                "preferences": len(found),
                "prompts": len({str(row["prompt"]) for row in found}),
                "ties": sum(row["winner"] == "tie" for row in found),
                "criteria for both sides": sum(bool(row["criteria_a"] and row["criteria_b"]) for row in found),
                "for one side": sum(bool(row["criteria_a"]) != bool(row["criteria_b"]) for row in found),
            }
        )
    return pd.DataFrame(rows)


def _stages(records: Mapping[str, Record]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"stage": name, "counts": listed(record.counts), "seconds": str(record.seconds)}
            for name, record in records.items()
        ]
    )


def _topics(quality: pd.DataFrame) -> str:
    if quality.empty:
        return "Topics: as the source gives them."
    said = "Topics: as the source gives them; where it gives none, found (`topics/`). Silhouette: 1 apart, 0 mixed."
    return f"{said}\n\n{markdown_text(quality)}"


def _leakage_note(records: Mapping[str, Record]) -> str:
    dropped = records["split"].counts.get("leaked", 0)
    compared = ", ".join(records["leakage"].settings["references"]) or "nothing: no set or bank was there"
    return f"For it, {dropped or 'no'} rows were left out of train and validation. Compared with: {compared}."
