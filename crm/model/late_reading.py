"""A late head on texts instead of batches: vectors of responses and of criteria, whose products are scores."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from crm.model.attention.decoder import read_forest
from crm.model.batching.batches import by_length, length_groups
from crm.model.batching.forest import common_prefix
from crm.model.encoding import Encoder, token_ids
from crm.model.late_head import LateHead, TextPooling
from crm.model.reward_model import RewardModel
from crm.schema import Message

Conversation = tuple[tuple[Message, ...], tuple[Message, ...]]
"""A prompt and the response to it."""
Text = tuple[tuple[int, ...], int]
"""Token ids, and the first of them that is pooled."""


class LateReader:
    """A model with a late head that reads forests, placed and out of training mode, and its encoder.

    Texts go through the backbone in forests of at most ``tokens`` tokens, in the order given, so that the same list has
    the same vectors to the bit.
    """

    def __init__(
        self, model: RewardModel, encoder: Encoder, *, autocast: torch.autocast, precision: str, tokens: int = 4096
    ) -> None:
        assert isinstance(model.score, LateHead) and model.reads_forests
        self.model, self.encoder, self.head, self.tokens = model, encoder, model.score, tokens
        self.precision, self._autocast = precision, autocast

    @property
    def size(self) -> int:
        """D, the numbers of a vector."""
        return self.head.kept * self.head.width

    def responses(self, conversations: Sequence[Conversation]) -> Tensor:
        """(N, D) float32 on the CPU; NaN where a conversation is longer than the model reads."""
        segments = (self.encoder.conversation_segments(*conversation) for conversation in conversations)
        return self._vectors([(query + answer, len(query)) for query, answer in segments], self.head.response)

    def criterion_vectors(self, criteria: Sequence[str]) -> Tensor:
        """(N, D) float32 on the CPU: each criterion as a user of its own; NaN where one is longer than the model reads.

        Divided so that a product with a response's vector is a score.
        """
        turns = (token_ids(self.encoder.criteria_segments((text,))) for text in criteria)
        vectors = self._vectors([(ids, self.encoder.instruction) for ids in turns], self.head.criterion)
        return vectors / math.sqrt(self.size)

    @torch.inference_mode()
    def _vectors(self, texts: Sequence[Text], pooling: TextPooling) -> Tensor:
        vectors = torch.full((len(texts), self.size), float("nan"))
        for portion in self._portions(texts):
            chosen = [texts[place] for place in portion]
            with self._autocast:
                forest, states = read_forest(self.model.backbone, [ids for ids, _ in chosen])
            ends = zip(forest.leaf_of, chosen, strict=True)
            rows = [forest.places(leaf, start, len(ids)) for leaf, (ids, start) in ends]
            number = by_length(rows)
            with torch.autocast(states.device.type, enabled=False):
                groups = [group.to(states.device) for group in length_groups(number)]
                vectors[portion] = pooling.of_groups(states.float(), groups)[[number[row] for row in rows]].cpu()
        return vectors

    def _portions(self, texts: Sequence[Text]) -> list[list[int]]:
        """Places of the texts that are short enough, in portions of at most `tokens` tokens; what a text begins with
        as the one before does is counted once.
        """
        portions: list[list[int]] = []
        room, before = 0, tuple[int, ...]()
        for place, (ids, _) in enumerate(texts):
            if len(ids) > self.encoder.max_length:
                continue
            room -= len(ids) - common_prefix(before, ids)
            if room < 0 or not portions:
                portions.append([])
                room = self.tokens - len(ids)
            portions[-1].append(place)
            before = ids
        return portions


def added_up(vectors: Tensor, weights: Sequence[float] | None) -> Tensor:
    """(D,) the vector of a user with criteria (N, D), each counted ``weights`` times.

    Raises ``ValueError`` for another number of weights.
    """
    shares = torch.ones(len(vectors)) if weights is None else torch.tensor(list(weights), dtype=torch.float32)
    if len(shares) != len(vectors):
        raise ValueError(f"weights: {len(shares)} for {len(vectors)} criteria, expected one each")
    return (shares[:, None] * vectors).sum(dim=0)
