"""Batches of many comparisons over few texts: ``batching.name=user_vectors``, then ``batching.name=criteria_tables``.

A step's table has tens of thousands of comparisons of some dozens of responses, and each text is read once. In the
first run a criterion is a vector that is learned without words, which teaches the head what to keep of a response; the
second run starts from its model, keeps that side fixed and learns the criteria's words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crm.model.batching.batches import ROW_STEP, ForestBatch, TextTokens, by_length, length_groups
from crm.model.batching.forest import fill_up, grow_forest
from crm.model.batching.tree_mask import full_mask, read_mask
from crm.model.encoding import Encoder, token_ids
from crm.model.late_head import LateHead
from crm.model.reward_model import RewardModel
from crm.training.config import TrainConfig
from experiments.real_judge.source import training
from experiments.real_judge.tables import ComparisonTable, TasteTables

USER_VECTOR_STD = 0.75


def user_vectors(config: TrainConfig, encoder: Encoder, model: RewardModel) -> TableLoader:
    """Entry point of ``crm.batching``: tables without words; a vector is learned for each trait and side."""
    tables, head = _tables(config, model)
    drawn = torch.randn(tables.vectors, head.kept * head.width, generator=torch.Generator().manual_seed(config.seed))
    head.user_vectors = torch.nn.Parameter(USER_VECTOR_STD * drawn)
    return TableLoader(tables, encoder, config.schedule.max_steps, in_words=False)


def criteria_tables(config: TrainConfig, encoder: Encoder, model: RewardModel) -> TableLoader:
    """Entry point of ``crm.batching``: tables in words; what the head keeps of responses stays as it is."""
    tables, head = _tables(config, model)
    head.response.requires_grad_(False)
    return TableLoader(tables, encoder, config.schedule.max_steps, in_words=True)


def _tables(config: TrainConfig, model: RewardModel) -> tuple[TasteTables, LateHead]:
    given = f"data={config.data.name} head={config.head.name} schedule.max_steps={config.schedule.max_steps}"
    if config.data.name != "tastes" or not isinstance(model.score, LateHead) or not config.schedule.max_steps:
        raise ValueError(
            f"batching.name={config.batching.name} with {given}: it is for data.name=tastes, head=late and a number of "
            "steps; set these, or use batching=tree"
        )
    data = config.data
    used = training(Path(str(data.path)), seed=data.seed, train=data.train, max_words=data.max_words)
    return TasteTables(used.queries, used.llms, used.traits, data.seed), model.score


class TableLoader:
    """A table a step; an epoch is all ``steps``. ``state_dict`` is for resuming after the last one handed out."""

    def __init__(self, tables: TasteTables, encoder: Encoder, steps: int, *, in_words: bool) -> None:
        self._tables, self._encoder, self._steps, self._in_words = tables, encoder, steps, in_words
        self._next = 0

    def __len__(self) -> int:
        return self._steps

    def __iter__(self) -> Iterator[ForestBatch]:
        while self._next < self._steps:
            number, self._next = self._next, self._next + 1  # before it is handed out: a checkpoint points past it
            yield self.batch(number)

    def batch(self, number: int) -> ForestBatch:
        """That of a step. Raises ``ValueError`` where no comparison is short enough for the model."""
        return collate_table(self._tables(number, in_words=self._in_words), self._encoder)

    def counts(self) -> dict[str, int]:
        """Comparisons of the run, by its last table: made, too long, trained on; and the tokens of that table."""
        last = self._steps - 1
        batch, made = self.batch(last), len(self._tables(last, in_words=self._in_words).target)
        return {
            "made": made * self._steps,
            "overlong": (made - len(batch)) * self._steps,
            "trained_on": len(batch) * self._steps,
            "largest_batch_tokens": batch.tokens,
        }

    def state_dict(self) -> dict[str, Any]:
        """Where to go on."""
        return {"next_table": self._next}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved position."""
        self._next = int(state["next_table"])


def collate_table(table: ComparisonTable, encoder: Encoder) -> ForestBatch:
    """One forward pass over the texts of a table.

    Comparisons with a text that is longer than the model reads are left out; raises ``ValueError`` where these are all.
    """
    segments = [encoder.conversation_segments(*conversation) for conversation in table.conversations]
    sequences = [token_ids(parts) for parts in segments]
    starts = [len(parts[0]) for parts in segments]
    sequences += [token_ids(encoder.criteria_segments((text,))) for text in table.criteria]
    starts += [encoder.instruction] * len(table.criteria)
    fits = np.array([len(ids) <= encoder.max_length for ids in sequences])
    count = len(table.conversations)
    fitting = np.asarray(fits[:count][table.shown].all(axis=1))
    if table.criteria:
        fitting &= fits[count:][table.asked]
    if not fitting.any():
        raise ValueError(f"model.max_length={encoder.max_length}: no comparison of a whole table fits; raise it")
    # A text that is too long is in no comparison left: its first token represents it.
    texts = [(ids, start) if fit else (ids[:1], 0) for ids, start, fit in zip(sequences, starts, fits, strict=True)]
    return _forest_batch(texts, count, *(_tensor(part[fitting]) for part in (table.shown, table.asked, table.target)))


def _tensor(array: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(array)


def _forest_batch(
    texts: Sequence[tuple[tuple[int, ...], int]],
    count: int,
    shown: torch.Tensor,
    asked: torch.Tensor,
    target: torch.Tensor,
) -> ForestBatch:
    """Texts as token ids and the first of them that is pooled; ``count`` conversations, then criteria."""
    forest = grow_forest([ids for ids, _ in texts])
    tokens = len(forest.ids)
    fill_up(forest, ROW_STEP)
    ends = zip(forest.leaf_of, texts, strict=True)
    places = [forest.places(leaf, start, len(ids)) for leaf, (ids, start) in ends]
    responses, criteria = by_length(places[:count]), by_length(places[count:])
    if criteria:
        asked = torch.tensor([criteria[own] for own in places[count:]])[asked]
    number = torch.tensor([responses[own] for own in places[:count]])
    comparisons = len(target)
    return ForestBatch(
        input_ids=torch.tensor([forest.ids]),
        position_ids=torch.tensor([forest.positions]),
        read_tokens=torch.tensor([0]),
        reads=torch.zeros(comparisons, 2, dtype=torch.int64),
        nodes=forest.nodes,
        tree_mask=full_mask(forest),
        read_mask=read_mask(forest, [0]),
        tokens=tokens,
        target=target,
        sign=torch.ones(comparisons),
        reverse=torch.zeros(comparisons, dtype=torch.bool),
        texts=TextTokens(length_groups(responses), length_groups(criteria), number[shown], asked[:, None]),
    )
