"""A late head on texts instead of batches: vectors of responses and of criteria, whose products are scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

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
        texts: list[Text | None] = []
        for prompt, response in conversations:
            query, answer = self.encoder.conversation_segments(prompt, response)
            fits = len(query) + len(answer) <= self.encoder.max_length
            texts.append((query + answer, len(query)) if fits else None)
        return self._vectors(texts, self.head.response)

    def criterion_vectors(self, criteria: Sequence[str]) -> Tensor:
        """(N, D) float32 on the CPU: each criterion as a user of its own; NaN where one is longer than the model reads.

        Divided so that a product with a response's vector is a score.
        """
        texts: list[Text | None] = []
        for text in criteria:
            ids = token_ids(self.encoder.criteria_segments((text,)))
            texts.append((ids, self.encoder.instruction) if len(ids) <= self.encoder.max_length else None)
        return self._vectors(texts, self.head.criterion) / math.sqrt(self.size)

    @torch.inference_mode()
    def _vectors(self, texts: Sequence[Text | None], pooling: TextPooling) -> Tensor:
        vectors = torch.full((len(texts), self.size), float("nan"))
        for portion in self._portions(texts):
            rows, states = self._states([text for place in portion if (text := texts[place])])
            number = by_length(rows)
            with torch.autocast(states.device.type, enabled=False):
                groups = [group.to(states.device) for group in length_groups(number)]
                vectors[portion] = pooling.of_groups(states, groups)[[number[row] for row in rows]].cpu()
        return vectors

    def _portions(self, texts: Sequence[Text | None]) -> Iterator[list[int]]:
        """Places of the texts that are read, in portions of at most `tokens` tokens; a beginning that a text shares
        with the one before it is counted once.
        """
        portion: list[int] = []
        filled, before = 0, tuple[int, ...]()
        for place, text in enumerate(texts):
            if text is None:
                continue
            more = len(text[0]) - common_prefix(before, text[0])
            if portion and filled + more > self.tokens:
                yield portion
                portion, filled, more = [], 0, len(text[0])
            portion.append(place)
            filled, before = filled + more, text[0]
        if portion:
            yield portion

    def _states(self, texts: Sequence[Text]) -> tuple[list[tuple[int, ...]], Tensor]:
        """Where the pooled tokens of each text lie in the states (M, H) float32, and these."""
        with self._autocast:
            forest, states = read_forest(self.model.backbone, [ids for ids, _ in texts])
        ends = zip(forest.leaf_of, texts, strict=True)
        return [forest.places(leaf, start, len(own)) for leaf, (own, start) in ends], states.float()


def added_up(vectors: Tensor, weights: Sequence[float] | None) -> Tensor:
    """(D,) the vector of a user with criteria (N, D), each counted ``weights`` times.

    Raises ``ValueError`` for another number of weights.
    """
    shares = torch.ones(len(vectors)) if weights is None else torch.tensor(list(weights), dtype=torch.float32)
    if len(shares) != len(vectors):
        raise ValueError(f"weights: {len(shares)} for {len(vectors)} criteria, expected one each")
    return (shares[:, None] * vectors).sum(dim=0)
