"""Scores of named criteria for every response of a bank; a person's ranking is their weights on its columns.

Letters: Q queries, M models.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pyarrow import parquet as pq
from rich.progress import track

from crm.criteria.counting import MEASURES, Text
from crm.io.files import drafted
from crm.leaderboard.bank.bank import Bank, text_key

FILE = "criteria.parquet"
COUNTED = "counting"
FACTS = b"crm"
Cells = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Column:
    """Where the scores of a criterion come from: ``by`` whom, and the ``digest`` of what gave them."""

    by: str
    digest: str = ""


class CriteriaMatrix:
    """Scores of criteria for the responses of ``bank``, kept in a Parquet file at ``path``: a row a response.

    A cell is a score in its column's own unit, the higher the more; NaN is missing, never a loss. A row is known by the
    digest of its texts, so that a bank may grow a model or a query at a time, and columns are added one by one; rows of
    other banks stay. Raises ``ValueError`` for a file of another kind.
    """

    def __init__(self, bank: Bank, path: Path) -> None:
        self.bank, self.path = bank, path
        self.columns: dict[str, Column] = {}
        self._raw: dict[str, Cells] = {}
        self._counted: set[str] = set()
        prompts = [query.prompt for query in bank.queries for _ in bank.authors]
        self._keys = [text_key(prompt, text) for prompt, text in zip(prompts, self._texts(), strict=True)]
        self._frame = self._read() if path.is_file() else pd.DataFrame()
        self._frame = self._frame.reindex(self._frame.index.union(list(dict.fromkeys(self._keys)), sort=False))

    def raw(self, name: str) -> Cells:
        """(Q, M) scores of a column, in the order of the bank's queries and authors. Raises ``KeyError``."""
        if name not in self._raw:
            cells: Cells = self._frame[name].loc[self._keys].to_numpy(np.float32)
            self._raw[name] = cells.reshape(len(self.bank.queries), len(self.bank.authors))
        return self._raw[name]

    def unit(self, name: str) -> float:
        """What is a clear difference in a column: of a measure its own, else a standard deviation over the bank."""
        counted = self.columns[name].by == COUNTED
        return MEASURES[name].clear if counted else float(np.nanstd(self.raw(name))) or 1.0

    def scores(self, weights: Mapping[str, float]) -> Cells:
        """(Q, M): ``weights @ matrix``, in clear differences; NaN where a column that counts is missing."""
        parts = [by / self.unit(name) * self.raw(name) for name, by in weights.items()]
        return np.asarray(np.sum(parts, axis=0), np.float32)

    def missing(self, name: str) -> float:
        """Share in [0, 1] of the bank's responses without a score."""
        return float(np.isnan(self.raw(name)).mean())

    def add(self, name: str, column: Column, cells: Iterable[float]) -> None:
        """Put a column in, a score a response in the order of ``bank.queries`` x ``bank.authors``, and save it."""
        self._put({name: column}, pd.DataFrame({name: list(cells)}, index=self._keys, dtype=np.float32))

    def count(self, names: Sequence[str], progress: bool = False) -> None:
        """Have the counted columns ``names``, keys of `MEASURES`; what is there is not counted again."""
        if self._counted.issuperset(names):
            return
        known = self._frame.reindex(columns=list(names)).loc[self._keys]
        missing = known.isna().any(axis=1)  # also what is too short to say, which is soon counted again
        texts = {key: text for key, text, new in zip(self._keys, self._texts(), missing, strict=True) if new}
        if texts:
            self._put(dict.fromkeys(names, Column(COUNTED)), _measured(texts, names, progress))
        self._counted.update(names)

    def _put(self, columns: Mapping[str, Column], found: pd.DataFrame) -> None:
        found = found[~found.index.duplicated()]
        self._frame = found.combine_first(self._frame)
        self.columns |= columns
        self._raw.clear()
        self._save()

    def _texts(self) -> list[str]:
        return [self.bank.responses[name][query.id] for query in self.bank.queries for name in self.bank.authors]

    def _read(self) -> pd.DataFrame:
        try:
            table = pq.read_table(self.path)
            facts = json.loads(table.schema.metadata[FACTS])
            self.columns = {name: Column(**column) for name, column in facts.items()}
            return table.to_pandas().set_index("key").astype(np.float32)
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{self.path}: no criteria matrix that can be read ({error!s:.120}); remove it") from None

    def _save(self) -> None:
        facts = {name: asdict(column) for name, column in self.columns.items()}
        table = pa.Table.from_pandas(self._frame.rename_axis("key").reset_index(), preserve_index=False)
        with drafted(self.path) as draft:
            pq.write_table(table.replace_schema_metadata({FACTS: json.dumps(facts)}), draft)


def _measured(texts: Mapping[str, str], names: Sequence[str], progress: bool) -> pd.DataFrame:
    """A row a text, under its key, and a column a measure."""
    found = np.empty((len(texts), len(names)), np.float32)
    for row, raw in enumerate(track(texts.values(), "counting", disable=not progress, transient=True)):
        text = Text(raw)
        found[row] = [MEASURES[name](text) for name in names]
    return pd.DataFrame(found, index=list(texts), columns=list(names))


def open_matrix(bank: Bank, folder: str | Path | None = None) -> CriteriaMatrix:
    """The matrix beside a bank in a ``folder``; of any other bank below ``outputs``."""
    return CriteriaMatrix(bank, Path(folder) / FILE if folder else Path("outputs/criteria") / f"{bank.name}.parquet")
