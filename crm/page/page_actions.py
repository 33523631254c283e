"""What the page does. In: the values of its fields. Out: the values it shows next, step by step where it takes time."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import gradio as gr
import pandas as pd
from PIL import Image

from crm.leaderboard import Leaderboard
from crm.page import page_tables
from crm.page.additions import Additions
from crm.page.export import FORMATS
from crm.page.index_ranker import AnyRanker
from crm.page.profile import Profile, ProfileError, from_query, lines_of
from crm.page.reasons import change, duels, effect, without_each
from crm.page.scoring_queue import QueueFullError, ScoringError
from crm.report.plots import two_leaderboards

MISTAKES = (ProfileError, QueueFullError, ScoringError)
TOP = 3
RANK_FIRST = "Make a ranking under My leaderboard first."


class Actions:
    """The handlers of the page's events; no method keeps anything of a person."""

    def __init__(self, ranker: AnyRanker) -> None:
        self.ranker = ranker
        counts = ranker.selector.topic_counts()
        self.topic_choices = [(f"{topic} ({count})", topic) for topic, count in counts.items()]
        self.all_topics = list(counts)
        self.baseline = ranker.bank.baseline

    @property
    def models(self) -> list[str]:
        """Of the bank as it is now."""
        return list(self.ranker.bank.authors)

    def choices(self) -> list[Any]:
        """Lists of models: to compare with, to take part, to explain."""
        return [gr.Dropdown(choices=self.models)] * 3

    def add(self, said: str) -> list[Any]:
        """State and lists of models after a file was sent, and the server ``said`` what became of it."""
        return [said, *self.choices()]

    def ask(self, additions: Additions, name: str) -> Iterator[list[Any]]:
        """State and lists of models while the endpoint is asked."""
        try:
            for done, total in additions.ask(name or ""):
                yield [f"{done} of {total} responses", *[gr.skip()] * 3]
        except (ValueError, OSError) as error:
            yield [str(error), *[gr.skip()] * 3]
            return
        yield [f"Added: the bank has {len(self.models)} models now.", *self.choices()]

    def rank_default(self, columns: list[str]) -> Iterator[tuple[Any, ...]]:
        """State, models and topics of the leaderboard of what most people would find better."""
        yield from (step[1:4] for step in self._steps(Profile(), columns))

    def default_columns(self, columns: list[str]) -> pd.DataFrame:
        """The same table with other columns."""
        return page_tables.overall(self.ranker.known(Profile()), columns)

    def rank(self, *given: Any) -> Iterator[tuple[Any, ...]]:
        """Profile, state, models, topics, link and files, for the fields of the form, the columns and the address."""
        *fields, columns, address = given
        try:
            profile = self._profile(*fields)
        except ProfileError as error:
            yield gr.skip(), str(error), gr.skip(), gr.skip(), gr.skip(), gr.skip()
            return
        yield from self._steps(profile, columns, address)

    def rank_link(self, *given: Any) -> Iterator[tuple[Any, ...]]:
        """`rank`, if the page was opened by a link that asks for something."""
        if "?" in given[-1]:
            yield from self.rank(*given)
        else:
            yield (gr.skip(),) * 6

    def _steps(self, profile: Profile, columns: list[str], address: str = "/") -> Iterator[tuple[Any, ...]]:
        query = profile.to_query()
        try:
            last = None
            for progress in self.ranker.rank(profile):
                status = page_tables.status(progress, self.ranker.in_line)
                if progress is last:
                    yield query, status, *[gr.skip()] * 4
                    continue
                last = progress
                yield (
                    query,
                    status,
                    page_tables.overall(progress, columns),
                    page_tables.by_topic(progress),
                    f"{address.partition('?')[0]}?{query}",
                    _files(query) if progress.complete and progress.board else gr.skip(),
                )
        except MISTAKES as error:
            yield query, str(error), gr.skip(), gr.skip(), gr.skip(), gr.skip()

    def stopped(self, query: str) -> tuple[str, str]:
        """State and files of what was read until then."""
        progress = self.ranker.known(from_query(query))
        return "Stopped. " + page_tables.status(progress, 0), _files(query) if progress.board else ""

    def columns(self, query: str, columns: list[str]) -> pd.DataFrame:
        """My table with other columns."""
        return page_tables.overall(self.ranker.known(from_query(query)), columns)

    def from_link(self, address: str) -> tuple[Any, ...]:
        """The address of the page, and the fields of the form as its link says; what is typed stays without one."""
        if "?" not in address:
            return address, *[gr.skip()] * 7
        try:
            profile = from_query(urlsplit(address).query)
        except ProfileError:
            gr.Warning("The link asks for something that cannot be ranked; these are the usual settings.")
            profile = Profile()
        return address, *self._fields(profile)

    def save(self, saved: dict[str, str], name: str, *fields: Any) -> tuple[dict[str, str], Any]:
        """Settings with one more, and their names."""
        try:
            query = self._profile(*fields).to_query()
        except ProfileError:  # whose words may be the person's own, and a note in the corner is not plain text
            raise gr.Error("These settings cannot be ranked, so they are not saved; press Rank to see why.") from None
        kept = {**(saved or {}), (name or "").strip() or "unnamed": query}
        return kept, gr.Dropdown(choices=list(kept), value=next(reversed(kept)))

    def take(self, saved: dict[str, str], name: str) -> tuple[Any, ...]:
        """The fields of the form as they were saved."""
        if name not in (saved or {}):
            raise gr.Error("Choose one of the saved settings first.")
        return self._fields(from_query(saved[name]))

    def names(self, saved: dict[str, str]) -> Any:
        """Names of saved settings."""
        return gr.Dropdown(choices=list(saved or {}))

    def why(self, query: str, model: str | None) -> tuple[Any, ...]:
        """State, the queries of a model, and nothing chosen yet."""
        if model is None:
            return RANK_FIRST, page_tables.duel_rows([]), "", "", ""
        try:
            found = duels(self.ranker.known(from_query(query)), model)
        except ProfileError as error:
            return str(error), page_tables.duel_rows([]), "", "", ""
        won = sum(duel.probability > 0.5 for duel in found)
        state = f"{len(found)} queries, {won} of them won" if found else RANK_FIRST
        return state, page_tables.duel_rows(found), "", "", ""

    def duel(self, query: str, model: str, event: gr.SelectData) -> tuple[str, str, str]:
        """The query of a row and both responses. The row is known by what it shows, since tables can be sorted."""
        found = duels(self.ranker.known(from_query(query)), model)
        row = event.row_value[:3]
        chosen = next((duel for duel in found if list(page_tables.duel_rows([duel]).iloc[0])[:3] == row), None)
        return (chosen.query, chosen.response, chosen.baseline_response) if chosen else ("", "", "")

    def compare(self, query: str, other: str) -> Iterator[tuple[Any, ...]]:
        """State, picture and table of my criteria against other ones, on the same queries."""
        try:
            mine = from_query(query)
            theirs = replace(mine, criteria=lines_of(other or ""), dislikes=())
            boards = []
            for profile in (mine, theirs):
                for progress in self.ranker.rank(profile):
                    yield page_tables.status(progress, self.ranker.in_line), gr.skip(), gr.skip()
                boards.append((progress.board, " · ".join(profile.told)))
        except MISTAKES as error:
            yield str(error), gr.skip(), gr.skip()
            return
        (first, first_name), (second, second_name) = boards
        if first is None or second is None:
            yield "No comparison could be read.", gr.skip(), gr.skip()
            return
        found = change(first, second)
        tau = f"Kendall's tau {found.tau.mean:.2f} [{found.tau.low:.2f}, {found.tau.high:.2f}]"
        picture = _picture(first, second, (first_name, second_name), found.tau.mean)
        yield f"{tau}, {len(first.wins)} queries", picture, page_tables.changes(found)

    def decides(self, query: str) -> Iterator[tuple[Any, ...]]:
        """State and a row a criterion, as they become known."""
        rows: list[dict[str, Any]] = []
        try:
            profile = from_query(query)
            full = self._last(profile)
            for line, rest in without_each(profile):
                yield f"Without: {line}", pd.DataFrame(rows)
                without = self._last(rest)
                moved = {f"{name}, points": round(100 * by, 1) for name, by in effect(full, without, TOP).items()}
                rows.append({"Left out": line, "Kendall's tau": round(change(full, without).tau.mean, 2), **moved})
        except MISTAKES as error:
            yield str(error), pd.DataFrame(rows)
            return
        yield f"Done. Points: what the criterion adds to the win rate of my first {TOP} models.", pd.DataFrame(rows)

    def _last(self, profile: Profile) -> Leaderboard:
        *_, last = self.ranker.rank(profile)
        if last.board is None:
            raise ScoringError("no comparison could be read")
        return last.board

    def _profile(
        self,
        criteria: str,
        dislikes: str,
        topics: list[str],
        about: str,
        baseline: str,
        models: list[str],
        queries: Any,
    ) -> Profile:
        if not topics and not (about or "").strip():
            raise ProfileError("topics: none is chosen; choose at least one, or say in a sentence what you do")
        chosen = () if set(topics) == set(self.all_topics) or (about or "").strip() else tuple(topics)
        own = "" if baseline == self.baseline else baseline or ""
        told = lines_of(criteria or ""), lines_of(dislikes or "")
        return Profile(*told, chosen, about or "", own, tuple(models), int(queries or 0))

    def _fields(self, profile: Profile) -> tuple[Any, ...]:
        return (
            "\n".join(profile.criteria),
            "\n".join(profile.dislikes),
            list(profile.topics) or self.all_topics,
            profile.about,
            profile.baseline or self.baseline,
            list(profile.models),
            profile.queries,
        )


def _files(query: str) -> str:
    """Links to files; a profile's query is percent-encoded, so that no text of a person can end the link."""
    return "Keep it: " + " · ".join(f"[{ending.upper()}](/api/export/{ending}?{query})" for ending in FORMATS)


def _picture(first: Leaderboard, second: Leaderboard, names: tuple[str, str], tau: float) -> Image.Image:
    with tempfile.TemporaryDirectory() as folder:
        path = two_leaderboards(Path(folder) / "bump.png", first.frame(), second.frame(), names, tau)
        return Image.open(io.BytesIO(path.read_bytes()))
