"""The stages of one dataset. In: a checked `PrepareConfig`, a folder. Out: what each reads, writes and runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from crm.criteria.profiles import teller
from crm.criteria.topics.find import find_topics
from crm.dataset.config import DataConfig
from crm.dataset.load import OWN_SPLIT, read_source
from crm.dataset.prepare.annotator import ask_names, make_asker, what_is_asked, who
from crm.dataset.prepare.card import Facts, write_card
from crm.dataset.prepare.config import STAGES, PrepareConfig, TopicsConfig
from crm.dataset.prepare.criteria import filter_subjective, find_criteria
from crm.dataset.prepare.ingest import ingest, rejections_file
from crm.dataset.prepare.leakage import leakage
from crm.dataset.prepare.plots import plot_files
from crm.dataset.prepare.references import queries_of, reference_folders
from crm.dataset.prepare.split import assemble, choose_held_out, part_files, split
from crm.dataset.prepare.stages import Record, Stage, read_record
from crm.dataset.prepare.suites import make_suites, planned_suites
from crm.dataset.prepare.topics import Group, topic_files, topics
from crm.dataset.prepare.workspace import Workspace
from crm.io.installed import commit
from crm.io.intake import Intake
from crm.io.parquet import count_rows
from crm.schema import Preference
from crm.votes.catalogue import location, source_named
from crm.votes.simulation.arena import simulate


def votes_of(data: DataConfig) -> Path | None:
    """The file or folder that is read; ``None`` for the simulation."""
    return None if data.name == "simulation" else location(data.name, root=data.root, path=data.path)


class Preparation:
    """The stages of one dataset, as its configuration wants them."""

    def __init__(self, config: PrepareConfig, space: Workspace) -> None:
        self.config = config
        self.space = space
        self.asker = make_asker(config.annotator, space.stages / "replies.sqlite")

    def stage(self, name: str) -> Stage:
        """What a stage reads, with which settings, what it writes, and its function."""
        build: Callable[[], Stage] = getattr(self, f"_{name}")
        return build()

    def _found(self, *stages: str) -> list[Path]:
        """Files with what these stages found of the rows."""
        return [self.space.findings(name) for name in stages]

    def _ingest(self) -> Stage:
        data = self.config.data
        settings = asdict(data) | {"root": "", "path": str(data.path)}
        place = votes_of(data)
        made = [*self._found("ingest"), rejections_file(self.space)]
        return Stage("ingest", settings, [place] if place else [], made, self._run_ingest)

    def _run_ingest(self) -> dict[str, int]:
        data = self.config.data
        reading = Intake(strict=data.strict)
        if data.name == "simulation":
            rows = iter(simulate(seed=data.seed, train=data.train or 10_000, validation=0, suite=0).train)
        else:
            words, own = data.max_words, ("root", "path", "columns", "winners", "oracle_rubric")
            told = teller(
                data.profile, posts=data.profile_posts, model=data.profile_model, max_words=words, seed=data.seed
            )
            rows = read_source(data.name, reading, told=told, **{name: getattr(data, name) for name in own})
        with _bar("ingest", None, self.config.progress) as step:
            return ingest(self.space, _stepped(rows, step), reading)

    def _filter(self) -> Stage:
        asker = self.asker if self.config.annotator.filter else None
        return Stage(
            "filter",
            what_is_asked(self.config.annotator) | {"filter": self.config.annotator.filter},
            self._found("ingest"),
            self._found("filter"),
            partial(self._with_bar, "filter", partial(filter_subjective, self.space, asker)),
        )

    def _criteria(self) -> Stage:
        return Stage(
            "criteria",
            what_is_asked(self.config.annotator) | {"seed": self.config.seed},
            self._found("ingest", "filter"),
            self._found("criteria"),
            partial(self._with_bar, "criteria", partial(find_criteria, self.space, self.asker, self.config.seed)),
        )

    def _with_bar(self, name: str, run: Callable[[Callable[[int], None]], dict[str, int]]) -> dict[str, int]:
        with _bar(name, count_rows(self.space.findings("ingest")), self.config.progress) as step:
            return run(step)

    def _topics(self) -> Stage:
        chosen, seed = self.config.topic_model, self.config.seed
        ask = partial(ask_names, self.asker) if self.asker else None
        return Stage(
            "topics",
            asdict(chosen) | what_is_asked(self.config.annotator) | {"seed": seed},
            [*self._found("ingest", "filter", "criteria"), *_model_folder(chosen)],
            [*self._found("topics"), *topic_files(self.space)],
            partial(topics, self.space, *_groupings(chosen, seed), ask),
        )

    def _leakage(self) -> Stage:
        config = self.config
        folders = reference_folders(config.data.root, config.banks, config.data.name)
        return Stage(
            "leakage",
            {"references": sorted(folders)},
            [*self._found("ingest"), *folders.values()],
            self._found("leakage"),
            lambda: leakage(self.space, {name: queries_of(name, folder) for name, folder in folders.items()}),
        )

    @cached_property
    def held_out(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Topics of queries and of criteria that nothing trains on; to be asked when topics are known."""
        if self._whole_is_test():
            return (), ()
        chosen = self.config.split
        return choose_held_out(
            self.space,
            topics=chosen.unseen_topics,
            named_topics=chosen.held_out_topics,
            criteria=chosen.unseen_criteria,
            named_criteria=chosen.held_out_criteria,
            seed=self.config.data.seed,
        )

    def _whole_is_test(self) -> bool:
        """Whether the set is published to be measured on: nothing of it trains, and nothing is held out of it."""
        name = self.config.data.name
        return self.config.data.split == "all" or (
            name not in (*OWN_SPLIT, "mixture") and source_named(name).evaluation_only
        )

    def _split(self) -> Stage:
        data = self.config.data
        settings = {
            "held_out_topics": self.held_out[0],
            "held_out_criteria": self.held_out[1],
            "drop_leaked": sorted(self.config.split.drop_leaked),
            "validation": data.validation_fraction,
            "test": data.test_fraction,
            "near_duplicates": data.near_duplicates,
            "seed": data.seed,
            "whole_is_test": self._whole_is_test(),
        }
        return Stage(
            "split",
            settings,
            self._found("ingest", "filter", "criteria", "topics", "leakage"),
            self._found("split"),
            partial(split, self.space, **settings),  # type: ignore[arg-type]
        )

    def _dataset(self) -> Stage:
        unseen = self.held_out[1]
        return Stage(
            "dataset",
            {"held_out_criteria": unseen},
            self._found("ingest", "filter", "criteria", "topics", "split"),
            [self.space.preferences, *part_files(self.space)],
            partial(assemble, self.space, unseen),
        )

    def _suites(self) -> Stage:
        noises = self.config.split.noises
        return Stage(
            "suites",
            {"noises": noises, "seed": self.config.seed},
            part_files(self.space),
            [self.space.suite(name) for name in planned_suites(noises)],
            partial(make_suites, self.space, noises, self.config.seed),
        )

    def _card(self) -> Stage:
        config = self.config
        suites = planned_suites(config.split.noises)
        facts = Facts(
            source=config.data.name,
            name=self.space.root.name,
            license=config.license,
            criteria_by=who(config.annotator),
            held_out_topics=self.held_out[0],
            held_out_criteria=self.held_out[1],
            seed=config.seed,
            commit=commit(),
        )
        found = {name: read_record(self.space.stages / f"{name}.json") for name in STAGES[:-1]}
        records: dict[str, Record] = {name: record for name, record in found.items() if record}
        findings = self._found(*STAGES[: STAGES.index("dataset")])
        made = [self.space.preferences, *part_files(self.space), *(self.space.suite(name) for name in suites)]
        return Stage(
            "card",
            asdict(facts) | {"stages": {name: record.counts for name, record in records.items()}},
            [*findings, *topic_files(self.space), *made],
            [self.space.root / "README.md", *plot_files(self.space.root / "plots")],
            partial(write_card, self.space, facts, suites, records),
        )


def _model_folder(chosen: TopicsConfig) -> list[Path]:
    """The embedder's model where it is a folder: another model may come to lie there."""
    return [Path(chosen.model)] if chosen.model and Path(chosen.model).is_dir() else []


def _groupings(chosen: TopicsConfig, seed: int) -> tuple[Group, Group]:
    embedder: dict[str, Any] = {"embedder": chosen.embedder, "model": chosen.model, "seed": seed}
    names = (chosen.names or None) if chosen.method == "taxonomy" else None
    queries = partial(find_topics, method=chosen.method, count=chosen.count, names=names, **embedder)
    # The paper's twelve names are topics of queries; criteria always find their own.
    method = "clusters" if chosen.method == "taxonomy" else chosen.method
    return queries, partial(find_topics, method=method, count=chosen.criteria_count, **embedder)


@contextmanager
def _bar(name: str, total: int | None, wanted: bool) -> Iterator[Callable[[int], None]]:
    columns = (TextColumn(f"{name:>9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True, disable=not wanted) as bar:
        task = bar.add_task(name, total=total)
        yield lambda rows: bar.advance(task, rows)


def _stepped(rows: Iterator[Preference], step: Callable[[int], None]) -> Iterator[Preference]:
    for row in rows:
        yield row
        step(1)
