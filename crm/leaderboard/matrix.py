"""Scores of named criteria for every response of a bank; a person's ranking is their weights on its columns.

Letters: Q queries, M models.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from filelock import FileLock
from pyarrow import parquet as pq
from rich.progress import track

from crm.criteria.counting import DIGEST, MEASURES, Text
from crm.io.files import drafted, typed_path
from crm.leaderboard.bank.bank import Bank, text_key
from crm.leaderboard.outcomes import LEAST_QUERIES

log = logging.getLogger(__name__)
FILE = "criteria.parquet"
COUNTED = "counting"
FACTS = b"crm"
Cells = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Column:
    """Scores of a ``criterion`` ``by`` somebody; ``digest`` is of what gave them.

    ``more`` and ``less`` are the words by which a person asks for it.
    """

    criterion: str
    by: str
    digest: str = ""
    more: str = ""
    less: str = ""

    @property
    def label(self) -> str:
        """The name in the file."""
        return f"{self.criterion} by {self.by}"


class CriteriaMatrix:
    """Scores of criteria for the responses of ``bank``, kept in a Parquet file at ``path``: a row a response.

    A cell is a score in its column's own unit, the higher the more; NaN is missing, never a loss. A row is known by the
    digest of its texts, so that a bank may grow a model or a query at a time; rows of other banks stay. Several may
    score a criterion: ``columns`` has the one that counts, of the scorer ``by`` where it has scored that criterion,
    else the newest that has `LEAST_QUERIES` whole queries; counts are the oldest. Raises ``ValueError`` for
    a file of another kind, and for an unknown ``by``.
    """

    def __init__(self, bank: Bank, path: Path, by: str | None = None) -> None:
        self.bank, self.path, self.by = bank, path, by
        self.columns: dict[str, Column] = {}
        self._stored: dict[str, Column] = {}
        self._scorers: dict[str, str] = {}
        self._frame = pd.DataFrame()
        self._counted: set[str] = set()
        prompts = [query.prompt for query in bank.queries for _ in bank.authors]
        self.keys = [text_key(prompt, text) for prompt, text in zip(prompts, self._texts(), strict=True)]
        self._load()
        known = sorted({COUNTED, *(column.by for column in self._stored.values())})
        if by is not None and by not in known:
            raise ValueError(f"scored_by={by!r}: has scored nothing in {path}; choose one of {', '.join(known)}")

    def raw(self, name: str) -> Cells:
        """(Q, M) scores of a criterion, in the order of the bank's queries and authors. Raises ``KeyError``."""
        return self._cells(self.columns[name].label)

    def scored(self, columns: Sequence[Column]) -> Cells:
        """(responses, columns) scores that are there by just these columns; NaN for those that are not."""
        found, other = np.full((len(self.keys), len(columns)), np.nan, np.float32), self._others(columns)
        if other and columns[0].by != COUNTED:
            why = "their words, settings or scorer have changed"
            log.warning("%s: new scores replace %d columns, such as %r: %s", self.path, len(other), other[0], why)
        for place, column in enumerate(columns):
            if column.label in self._stored and column.label not in other:
                found[:, place] = self._cells(column.label).ravel()
        return found

    def scorer(self, name: str) -> str:
        """Whose scores of a criterion count; empty where too few queries have one for every LLM."""
        return self._scorers.get(name, "")

    def source(self, name: str, words: str) -> tuple[str, str, str]:
        """`scorer`; where that is empty, why ``words`` do not count, and what a command line can do about it."""
        if by := self.scorer(name):
            return by, "", ""
        models, least = self.bank.authors, min(LEAST_QUERIES, len(self.bank.queries))
        known = (~np.isnan(self.raw(name))).sum(axis=0) if name in self.columns else np.zeros(len(models))
        missing = [who for who, count in zip(models, known, strict=True) if count < least]
        why = f"nobody has scored “{words}” on enough questions of this bank"
        if 0 < len(missing) < len(models):
            few = f"{len(models) - len(missing)} of {len(models)} models, by {self.columns[name].by}"
            why = f"“{words}” is scored for {few}; missing: {', '.join(missing)}"
        place = self.bank.name.replace("simulation-", "simulated bank.seed=")
        place = f"folder bank.path={typed_path(self.bank.folder)}" if self.bank.folder else place
        return "", why, f"; to score it: python bank.py score bank={place} judge=llm (or checkpoint=..., ratings=...)"

    def unit(self, name: str) -> float:
        """What is a clear difference in a column: of a measure its own, else a standard deviation over the bank."""
        if self.scorer(name) == COUNTED:
            return MEASURES[name].clear
        known = self.raw(name)[~np.isnan(self.raw(name))]
        return float(known.std()) or 1.0 if len(known) else 1.0

    def scores(self, weights: Mapping[str, float]) -> Cells:
        """(Q, M): ``weights @ matrix``, in clear differences; NaN where a column that counts is missing."""
        parts = [by / self.unit(name) * self.raw(name) for name, by in weights.items()]
        return np.asarray(np.sum(parts, axis=0), np.float32)

    def add(self, columns: Sequence[Column], cells: npt.ArrayLike) -> None:
        """Put scores in and save them, a row a response in the order of ``bank.queries`` x ``bank.authors``.

        Where they are NaN, those of the same column and digest stay.
        """
        scores = np.reshape(np.asarray(cells, np.float32), (len(self.keys), len(columns)))
        self._put(columns, pd.DataFrame(scores, index=self.keys))

    def count(self, names: Sequence[str], progress: bool = False) -> None:
        """Have the counted columns ``names``, keys of `MEASURES`; what is there is not counted again."""
        if self._counted.issuperset(names):
            return
        columns = [Column(name, COUNTED, DIGEST) for name in names]
        # Also what is too short to say, which is soon counted again.
        missing = np.asarray(np.isnan(self.scored(columns)).any(axis=1))
        texts = {key: text for key, text, new in zip(self.keys, self._texts(), missing, strict=True) if new}
        read = map(Text, track(texts.values(), "counting", disable=not progress, transient=True))
        found = [[MEASURES[name](text) for name in names] for text in read]
        if texts:
            self._put(columns, pd.DataFrame(found, list(texts), dtype=np.float32))
        self._counted.update(names)

    def _put(self, columns: Sequence[Column], found: pd.DataFrame) -> None:
        """Merge scores, a row a key, with those in the file, which other processes may have changed, and save it."""
        found = found[~found.index.duplicated()].set_axis([column.label for column in columns], axis=1)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_name(f".{self.path.name}.lock")):
            self._load()
            kept = self._frame.drop(columns=self._others(columns))
            self._frame = found.combine_first(kept).reindex(kept.index)
            for column in columns:
                if column.by != COUNTED:
                    self._stored.pop(column.label, None)  # the newest is the last
                self._stored[column.label] = column
            self._save()
        self._choose()

    def _others(self, columns: Sequence[Column]) -> list[str]:
        """Which of these have scores that something else gave."""
        return [each.label for each in columns if self._stored.get(each.label, each).digest != each.digest]

    def _load(self) -> None:
        """What is in the file, with a row for each response of the bank."""
        self._stored, frame = self._read() if self.path.is_file() else ({}, pd.DataFrame())
        self._frame = frame.reindex(frame.index.union(list(dict.fromkeys(self.keys)), sort=False))
        self._rows = self._frame.index.get_indexer(self.keys)
        self._choose()

    def _choose(self) -> None:
        """Of each criterion the column that counts; what is not counted yet can be."""
        known = {column.label: column for column in (Column(name, COUNTED) for name in MEASURES)} | self._stored
        whole = {label: (~np.isnan(self._cells(label)).any(axis=1)).sum() for label in self._stored}
        least = min(LEAST_QUERIES, len(self.bank.queries))
        enough = {label for label, column in known.items() if column.by == COUNTED or whole[label] >= least}
        rank = {label: (each.by == self.by, label in enough, each.by != COUNTED) for label, each in known.items()}
        chosen = {known[label].criterion: known[label] for label in sorted(known, key=rank.__getitem__)}
        self.columns = {name: column for name, column in chosen.items() if column.label in self._stored}
        self._scorers = {name: column.by for name, column in chosen.items() if column.label in enough}

    def _cells(self, label: str) -> Cells:
        cells: Cells = self._frame[label].to_numpy(np.float32)[self._rows]
        return cells.reshape(len(self.bank.queries), len(self.bank.authors))

    def _texts(self) -> list[str]:
        return [self.bank.responses[name][query.id] for query in self.bank.queries for name in self.bank.authors]

    def _read(self) -> tuple[dict[str, Column], pd.DataFrame]:
        try:
            table = pq.read_table(self.path)
            facts = json.loads(table.schema.metadata[FACTS])
            stored = {label: Column(*map(each.__getitem__, Column.__match_args__)) for label, each in facts.items()}
            return stored, table.to_pandas().set_index("key")[list(stored)].astype(np.float32)
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{self.path}: no criteria matrix that can be read ({error!s:.120}); remove it") from None

    def _save(self) -> None:
        facts = {label: asdict(column) for label, column in self._stored.items()}
        cells = self._frame[list(self._stored)].rename_axis("key").reset_index()
        table = pa.Table.from_pandas(cells, preserve_index=False)
        with drafted(self.path) as draft:
            pq.write_table(table.replace_schema_metadata({FACTS: json.dumps(facts)}), draft)


def open_matrix(bank: Bank, folder: str | Path | None = None, by: str | None = None) -> CriteriaMatrix:
    """The matrix beside a bank in a ``folder``, by default its own; of any other bank below ``outputs``."""
    place = folder or bank.folder
    path = Path(place) / FILE if place else Path("outputs/criteria") / f"{bank.name}.parquet"
    return CriteriaMatrix(bank, path, by)
