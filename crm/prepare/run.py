"""Prepare a dataset folder from votes, with its card, or fetch the files of a public set."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd
from huggingface_hub import DatasetCard, DatasetCardData
from rich.progress import Progress

from crm.criteria import extraction, traits
from crm.criteria.extraction import Extraction, has_criteria
from crm.criteria.topics import find_topics
from crm.data.catalogue import location, source_named
from crm.data.load import read_rows
from crm.data.own import write_preferences
from crm.data.public.banks import FOLDERS as BANKS
from crm.endpoint.client import ChatClient
from crm.endpoint.replies import ReplyCache
from crm.io.files import replace_file
from crm.io.hub import PREFIX
from crm.io.installed import commit
from crm.io.rows import listed
from crm.prepare.config import PrepareConfig, TopicsConfig
from crm.prepare.fetch import fetch
from crm.prepare.split import SUITES, Placed, check_names, find_leaks, place, queries_of, reference_folders
from crm.report.tables import csv_text, markdown_text
from crm.schema import Preference

log = logging.getLogger(__name__)
LOCAL = "local"
"""Folder of what is no part of the dataset: rejected rows, replies of a language model, counts."""
LogCounts = Callable[[str, Mapping[str, int]], None]


def run_prepare(config: PrepareConfig) -> Path:
    """Read votes, add criteria and topics, split, and write the dataset; returns its folder.

    With ``fetch`` fetch the files of a public set instead; returns the folder they are in.
    """
    if config.fetch is not None:
        fetch(config.fetch, Path(str(config.out)), mirror=config.mirror, progress=config.progress)
        kind = "bank" if config.fetch in BANKS else "data"
        log.info("use it as %s=%s %s.root=%s", kind, config.fetch, kind, config.out)
        return Path(str(config.out))
    out, data, seed = Path(str(config.out)), config.data, config.seed
    references = reference_folders(data.root, config.banks, data.name)
    _check(config, out, references)
    counts: dict[str, dict[str, int]] = {}

    def log_counts(step: str, found: Mapping[str, int]) -> None:
        counts[step] = dict(found)
        log.info("%s: %s", step, listed(found))

    rows, reading = read_rows(data)
    rejected = pd.DataFrame(map(asdict, reading.rejections), columns=["file", "line", "field", "why"])
    replace_file(out / LOCAL / "rejected.csv", csv_text(rejected))
    ties = sum(row.winner == "tie" for row in rows)
    log_counts("read", reading.all_counts() | {"preferences": len(rows), "ties": ties})
    client = None
    if config.annotator.base_url:
        client = ChatClient(config.annotator, ReplyCache(out / LOCAL / "replies.sqlite"))
    if config.dry_run:
        _log_cost(rows, client, config.annotator.filter)
        return out
    rows = _annotated(rows, client, config, log_counts)
    rows, topics, grouped = _with_topics(rows, config.topic_model, seed)
    log_counts("topics", grouped)
    leaks = find_leaks({row.query for row in rows}, {name: queries_of(name, at) for name, at in references.items()})
    log_counts("leakage", {"sets": len(references), **{name: len(found) for name, found in leaks.items() if found}})
    leaked = {query for name in config.split.drop_leaked for query in leaks[name]}
    # A set that is published to be measured on trains nothing, and nothing is held out of it.
    measured_on = data.split == "all" or source_named(data.name).evaluation_only
    placed = place(rows, config.split, data, leaked_queries=leaked, all_test=measured_on)
    log_counts("split", placed.counts)
    if not any(has_criteria(row) and row.winner != "tie" for name in SUITES for row in placed.parts[name]):
        log.warning("suites: all are empty: no held-out vote has criteria and a winner; bring more votes")
    _write(out, placed.parts, topics)
    replace_file(out / LOCAL / "counts.json", json.dumps(counts, indent=1) + "\n")
    write_card(out, config, placed, topics, leaks, counts)
    log.info("dataset: %s", out)
    return out


def _check(config: PrepareConfig, out: Path, references: Mapping[str, Path]) -> None:
    """Raise ``ValueError`` at once for what would otherwise fail after hours, and make the folder."""
    check_names("split.drop_leaked", config.split.drop_leaked, references)
    data = config.data
    votes = location(data.name, root=data.root, path=data.path)
    if votes.is_dir() and out.resolve().is_relative_to(votes.resolve()):
        raise ValueError(f"out={str(out)!r}: is in {str(votes)!r}, where the votes are; name a folder elsewhere")
    if out.is_dir() and any(out.iterdir()) and not (out / LOCAL).is_dir():
        raise ValueError(f"out={str(out)!r}: holds files that are no prepared dataset; name a new folder")
    place = data.path and (data.path if data.path.startswith(PREFIX) else str(votes.resolve()))
    origin, source = out / LOCAL / "source.txt", f"{place or data.name}\n"
    if not config.out_given and origin.is_file() and (other := origin.read_text("utf-8")) != source:
        raise ValueError(f"out: not given, and {out} was made of {other.strip()}; name a folder, such as out={out}_2")
    replace_file(origin, source)


def _annotated(
    rows: Sequence[Preference], client: ChatClient | None, config: PrepareConfig, log_counts: LogCounts
) -> list[Preference]:
    """The rows that are a matter of taste, with criteria: written by the model, or from traits that can be counted."""
    if client is None:
        found = [traits.describe(row, config.seed) for row in rows]
    else:
        if config.annotator.filter:
            found = _asked(extraction.keep_subjective, rows, client, "filter", config.progress)
            log_counts("filter", Counter(each.status for each in found))
            rows = [each.preference for each in found if each.status != "dropped"]
        found = _asked(extraction.extract, rows, client, "criteria", config.progress)
    log_counts("criteria", Counter(each.status for each in found))
    return [each.preference for each in found]


def _asked(
    ask: Callable[..., list[Extraction]], rows: Sequence[Preference], client: ChatClient, name: str, progress: bool
) -> list[Extraction]:
    """What the model makes of the rows; raises ``ValueError`` if it is down: later steps would be in vain."""
    with Progress(transient=True, disable=not progress) as bar:
        task = bar.add_task(name, total=None)
        found = ask(rows, client, lambda done, total: bar.update(task, completed=done, total=total))
    failed = [each for each in found if each.status.startswith("failed")]
    if failed:
        such = {each.status: f"{each.status.removeprefix('failed:')}: {each.detail}" for each in failed}
        text = "%s: %d requests failed (%s); run the same command again to ask only those"
        log.warning(text, name, len(failed), "; ".join(such.values()))
    if failed and (len(failed) == len(found) or any(each.status == "failed:endpoint_down" for each in failed)):
        raise ValueError(
            f"annotator: no answer of the endpoint can be used ({failed[0].detail}); check that it runs and that "
            "annotator.base_url is its address, then run the same command again: its replies so far are cached"
        )
    return found


def _with_topics(
    rows: Sequence[Preference], chosen: TopicsConfig, seed: int
) -> tuple[list[Preference], dict[str, pd.DataFrame], dict[str, int]]:
    """Rows with a topic and broad topics of criteria where the source names none; what was found, and counts."""
    texts = {
        "queries": [row.query for row in rows if row.topic is None],
        "criteria": [
            text
            for row in rows
            for own, given in ((row.criteria_a, row.criteria_topics_a), (row.criteria_b, row.criteria_topics_b))
            if not given
            for text in own
        ],
    }
    topics: dict[str, pd.DataFrame] = {}
    topic_of: dict[str, dict[str, str]] = {}
    counts = {"rows": len(rows), "queries_with_own_topic": len(rows) - len(texts["queries"])}
    for name, count in (("queries", chosen.count), ("criteria", chosen.criteria_count)):
        if texts[name]:
            topic_of[name], topics[name] = find_topics(texts[name], model=chosen.model, count=count, seed=seed)
            counts |= {f"{name}_grouped": len(texts[name]), f"topics_of_{name}": len(topics[name])}
    of_query, of_criterion = (topic_of.get(name, {}) for name in ("queries", "criteria"))
    placed = [
        replace(
            row,
            topic=row.topic if row.topic is not None else of_query[row.query],
            criteria_topics_a=row.criteria_topics_a or tuple(of_criterion[text] for text in row.criteria_a),
            criteria_topics_b=row.criteria_topics_b or tuple(of_criterion[text] for text in row.criteria_b),
        )
        for row in rows
    ]
    return placed, topics, counts


def _log_cost(rows: list[Preference], client: ChatClient | None, filtering: bool) -> None:
    if client is None:
        log.info("dry run: without annotator.base_url there are no calls")
        return
    for name, cost in extraction.plan(rows, client).items():
        if name != "filter" or filtering:
            log.info(
                "dry run: %s: %d calls (%d more are cached), about %d prompt tokens and at most %d reply tokens; "
                "retries and repairs come on top",
                *(name, cost.calls, cost.cached, cost.prompt_tokens, cost.max_completion_tokens),
            )


def _write(out: Path, parts: Mapping[str, list[Preference]], topics: Mapping[str, pd.DataFrame]) -> None:
    """Write parts and tables of topics; those of an earlier run go first, so that a kill leaves no mixture."""
    for old in (*(f"splits/{name}.parquet" for name in parts), "topics/queries.csv", "topics/criteria.csv"):
        (out / old).unlink(missing_ok=True)
    for name, rows in parts.items():
        write_preferences(out / "splits" / f"{name}.parquet", rows)
    for name, found in topics.items():
        replace_file(out / "topics" / f"{name}.csv", csv_text(found))


def write_card(
    out: Path,
    config: PrepareConfig,
    placed: Placed,
    topics: Mapping[str, pd.DataFrame],
    leaks: Mapping[str, Collection[str]],
    counts: Mapping[str, Mapping[str, int]],
) -> None:
    """Write the card."""
    source = source_named(config.data.name)
    licence = config.license or source.license
    shared = [(name, len(queries)) for name, queries in leaks.items() if queries]
    steps = [(step, listed(found)) for step, found in counts.items()]
    files = [{"split": name, "path": f"splits/{name}.parquet"} for name, rows in placed.parts.items() if rows]
    card = DatasetCard.from_template(
        DatasetCardData(
            pretty_name=out.name,
            license=(licence or "unknown").lower(),
            task_categories=["text-classification"],
            tags=["preferences", "reward-model", "criteria", "personalization"],
            configs=[{"config_name": "preferences", "default": True, "data_files": files}],
        ),
        template_path=str(Path(__file__).with_name("card.md.j2")),
        name=out.name,
        source=config.data.name,
        about=source.about,
        parts=markdown_text(pd.DataFrame([_part(name, rows) for name, rows in placed.parts.items()])),
        held_out_topics=_code(placed.held_out_topics),
        held_out_criteria=_code(placed.held_out_criteria),
        steps=markdown_text(pd.DataFrame(steps, columns=["step", "counts"])),
        annotator=config.annotator,
        topics=", ".join(f"{len(found)} of {name}" for name, found in topics.items()),
        leakage=markdown_text(pd.DataFrame(shared, columns=["set", "queries"])) if shared else "None found.\n",
        leaked=counts["split"].get("leaked", 0),
        references=", ".join(leaks),
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


def _code(names: Sequence[str]) -> str:
    """Names in code spans: they come from data, and a comma or a link in one is part of it."""
    return ", ".join(f"`{' '.join(name.split()).replace('`', chr(39))}`" for name in names) or "none"
