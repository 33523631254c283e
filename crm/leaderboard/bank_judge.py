"""Make a checkpoint ready for one bank: an index of the responses (``head=late``), or their token ids in an Arrow file.

The file is memory-mapped: 24,000 responses of 240 words are 35 MB that processes on one machine share, and no later
process makes them again.
"""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from crm.io.files import drafted
from crm.io.processes import ALONE, Processes
from crm.judges import CrmJudge, Judge
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.indexed_bank import IndexedBank as IndexedBank

log = logging.getLogger(__name__)
SCHEMA = pa.schema([("text", pa.binary(32)), ("ids", pa.list_(pa.int32()))])
"""Digest of a text, and its token ids."""
FORMAT = "1"
"""In a file's metadata."""
BATCH = 1000
"""Texts tokenised in one call: the tokenizer spreads them over all cores."""


def judge_of_bank(judge: CrmJudge, bank: Bank, folder: Path) -> CrmJudge:
    """``judge`` with the token ids of the bank's responses, kept in ``folder``."""
    texts = [
        text
        for answers in bank.responses.values()
        for answer in answers.values()
        for text in judge.encoder.response_texts(answer)
    ]
    judge.encoder.use(stored_ids(folder, judge.encoder.tokenizer, texts))
    return judge


def index_bank(
    judge: Judge, bank: Bank, folder: Path, *, progress: bool, processes: Processes = ALONE
) -> IndexedBank | None:
    """The bank under ``folder``, read by ``judge`` where that was not done yet; ``None`` for one without vectors."""
    if not isinstance(judge, CrmJudge) or judge.late_reader is None:
        return None
    return IndexedBank(
        judge.late_reader, bank, folder, model_digest=judge.model_digest, progress=progress, processes=processes
    )


class StoredIds(Mapping[str, Sequence[int]]):
    """Token ids by text, read from ``table`` (of `SCHEMA`) when asked for."""

    def __init__(self, table: pa.Table) -> None:
        texts, ids = (table[name].combine_chunks() for name in SCHEMA.names)
        self._rows = {text: row for row, text in enumerate(texts.to_pylist())}
        self._offsets, self._values = ids.offsets.to_numpy(), ids.values.to_numpy()

    def __getitem__(self, text: str) -> Sequence[int]:
        row = self._rows[_digest(text)]
        ids: list[int] = self._values[self._offsets[row] : self._offsets[row + 1]].tolist()
        return ids

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and _digest(text) in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        raise TypeError("texts: only their digests are stored")


def stored_ids(folder: Path, tokenizer: Any, texts: Sequence[str]) -> StoredIds:
    """Ids of all ``texts``, without control tokens, from ``folder/tokens-<digest of the tokenizer>.arrow``.

    Texts that the file lacks are tokenised and added. A file that is damaged or of another tokenizer is left aside
    with a warning and made anew. It is replaced in one step: of two processes that add texts at once the later one
    wins, and nothing but time is lost.
    """
    tokenizer_digest = hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest()[:16]
    path = folder / f"tokens-{tokenizer_digest}.arrow"
    table = _open(path, tokenizer_digest) if path.exists() else SCHEMA.empty_table()
    known = StoredIds(table)
    new = [text for text in dict.fromkeys(texts) if text not in known]
    if not new:
        return known
    log.info("token ids of %d texts are in %s, %d are made now", len(known), path, len(new))
    table = pa.concat_tables([table, _tokenised(tokenizer, new)]).combine_chunks()
    _write(path, table, tokenizer_digest)
    return StoredIds(table)


def _tokenised(tokenizer: Any, texts: Sequence[str]) -> pa.Table:
    ids: list[Any] = []
    for start in range(0, len(texts), BATCH):
        part = list(texts[start : start + BATCH])
        found = tokenizer(
            part, add_special_tokens=False, split_special_tokens=True, return_attention_mask=False, verbose=False
        )
        ids += [np.array(row, dtype=np.int32) for row in found["input_ids"]]
    columns = [pa.array([_digest(text) for text in texts], pa.binary(32)), pa.array(ids, pa.list_(pa.int32()))]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _open(path: Path, tokenizer_digest: str) -> pa.Table:
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all().combine_chunks()
        found = table.schema.metadata or {}
        if not table.schema.equals(SCHEMA):
            raise ValueError(f"its columns are {table.schema.names}")
        if found.get(b"format") != FORMAT.encode():
            raise ValueError(f"its format is {found.get(b'format')!r:.20}, this version reads {FORMAT!r}")
        if found.get(b"tokenizer") != tokenizer_digest.encode() or found.get(b"content") != _content(table):
            raise ValueError("its content is not what was written")
    except (pa.ArrowException, OSError, ValueError) as error:
        warnings.warn(f"{path}: not used and made anew ({error})", stacklevel=3)
        return SCHEMA.empty_table()
    return table.replace_schema_metadata(None)


def _write(path: Path, table: pa.Table, tokenizer_digest: str) -> None:
    marked = table.replace_schema_metadata(
        {"format": FORMAT, "tokenizer": tokenizer_digest, "content": _content(table)}
    )
    with drafted(path) as draft, pa.OSFile(str(draft), "wb") as sink, pa.ipc.new_file(sink, marked.schema) as writer:
        writer.write_table(marked)


def _content(table: pa.Table) -> bytes:
    """Digest of all ids, where each text's begin, and the texts' own digests."""
    texts, ids = (table[name].combine_chunks() for name in SCHEMA.names)
    digest = hashlib.sha256(b"".join(texts.to_pylist()))
    digest.update(ids.offsets.to_numpy().tobytes())
    digest.update(ids.values.to_numpy().tobytes())
    return digest.hexdigest().encode()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
