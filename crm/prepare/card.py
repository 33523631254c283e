"""The card of a prepared dataset, ``README.md``, whose head names the file of each split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
from huggingface_hub import DatasetCard, DatasetCardData

from crm.criteria.topics import Topics
from crm.data.catalogue import source_named
from crm.io.files import replace_file
from crm.io.installed import commit
from crm.prepare.config import PrepareConfig
from crm.prepare.leakage import Leak
from crm.prepare.split import Placed
from crm.report.tables import markdown_text
from crm.schema import Preference

OWN_LICENSE = "Apache-2.0"
"""Of this project, and so of the texts of its simulation."""
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def write_card(
    out: Path,
    config: PrepareConfig,
    placed: Placed,
    topics: Mapping[str, Topics],
    leaks: Sequence[Leak],
    references: Iterable[str],
    counts: Mapping[str, Mapping[str, int]],
) -> None:
    """Write the card."""
    source, simulated = config.data.name, config.data.name == "simulation"
    licence = config.license or (OWN_LICENSE if simulated else source_named(source).license)
    files = [{"split": name, "path": f"splits/{name}.parquet"} for name, rows in placed.parts.items() if rows]
    card = DatasetCard.from_template(
        DatasetCardData(
            pretty_name=out.name,
            license=(licence or "unknown").lower(),
            task_categories=["text-classification"],
            tags=["preferences", "reward-model", "criteria", "personalization"],
            size_categories=next((name for limit, name in SIZES if counts["split"]["rows"] < limit), "n>1M"),
            configs=[{"config_name": "preferences", "default": True, "data_files": files}],
        ),
        template_path=str(Path(__file__).with_name("card.md.j2")),
        name=out.name,
        source=source,
        about="the simulated arena of this project: known truth, no people"
        if simulated
        else source_named(source).about,
        parts=markdown_text(pd.DataFrame([_part(name, rows) for name, rows in placed.parts.items()])),
        held_out_topics=_code(placed.held_out_topics),
        held_out_criteria=_code(placed.held_out_criteria),
        steps=markdown_text(
            pd.DataFrame([(step, _listed(found)) for step, found in counts.items()], columns=["step", "counts"])
        ),
        annotator=config.annotator,
        topics=", ".join(f"{len(found.names)} of {name}" for name, found in topics.items()),
        leakage=markdown_text(_leaks(leaks)) if leaks else "None found.\n",
        leaked=counts["split"].get("leaked", 0),
        references=", ".join(references),
        licence=licence,
        given=config.license,
        commit=commit(),
        seed=config.seed,
    )
    replace_file(out / "README.md", str(card))


def _part(name: str, rows: Sequence[Preference]) -> dict[str, Any]:
    return {
        "part": name,
        "preferences": len(rows),
        "prompts": len({row.prompt for row in rows}),
        "ties": sum(row.winner == "tie" for row in rows),
        "criteria for both sides": sum(bool(row.criteria_a and row.criteria_b) for row in rows),
        "for one side": sum(bool(row.criteria_a) != bool(row.criteria_b) for row in rows),
    }


def _leaks(leaks: Sequence[Leak]) -> pd.DataFrame:
    """A row a set, how many queries are in it exactly and nearly."""
    frame = pd.DataFrame([asdict(leak) for leak in leaks])
    return pd.crosstab(frame["set"], frame["match"]).reset_index().rename_axis(None, axis=1)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items())


def _code(names: Sequence[str]) -> str:
    """Names in code spans: they come from data, and a comma or a link in one is part of it."""
    return ", ".join(f"`{' '.join(name.split()).replace('`', chr(39))}`" for name in names) or "none"
