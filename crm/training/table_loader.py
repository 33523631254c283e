"""Tables as batches. In: `TableSource`. Out: forward passes that read each text once, and where to go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crm.model.batching.packs import ForestBatch
from crm.model.batching.text_batches import collate_texts
from crm.model.encoding import Encoder
from crm.votes.tables import TableSource


class TableLoader:
    """A step a table: the first ``without_words`` of them ask for wishes, those after in words.

    ``state_dict`` is for resuming after the last one handed out. An epoch has no meaning here: it is all ``steps``.
    """

    def __init__(self, tables: TableSource, encoder: Encoder, *, steps: int, without_words: int) -> None:
        self._tables, self._encoder = tables, encoder
        self._steps, self._without_words = steps, without_words
        self._next = 0

    def __len__(self) -> int:
        return self._steps

    def __iter__(self) -> Iterator[ForestBatch]:
        while self._next < self._steps:
            number, self._next = self._next, self._next + 1  # before it is handed out: a checkpoint points past it
            yield self.batch(number)

    def batch(self, number: int) -> ForestBatch:
        """That of a step. Raises ``ValueError`` where no comparison is short enough for the model."""
        table = self._tables(number, in_words=number >= self._without_words)
        return collate_texts(table.conversations, table.criteria, table.shown, table.asked, table.target, self._encoder)

    def state_dict(self) -> dict[str, Any]:
        """Where to go on."""
        return {"next_table": self._next, "without_words": self._without_words}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved position. Raises ``ValueError`` where the words began at another step."""
        if state.get("without_words") != self._without_words:
            raise ValueError(
                f"resume: the checkpoint's run began with words at step {state.get('without_words')}, this one at "
                f"{self._without_words}; use the same schedule.max_steps or start a new run"
            )
        self._next = int(state["next_table"])
