"""The head that reads responses before anybody says what they care about. In: token states. Out: vectors, scores.

A response leaves ``kept`` states of ``width`` numbers, whoever asks; a criterion becomes as many. What a response is
worth to a user is the sum of products of the two, added up over the user's criteria with their weights. So a bank is
read once, and a further user costs one short text and a matrix product. Late interaction (Khattab and Zaharia, ColBERT,
2020) over states of learned queries (Humeau et al., poly-encoders, 2020); what is said of length and frequency is
counted, which a mean over tokens cannot do.

Nothing in a score stands for the response alone: where a criterion says nothing to the model, all responses are equal.

Letters: N texts, L tokens of the longest, H the backbone's hidden size, D = kept * width, M tokens of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from crm.model.batching.batches import TextTokens
from crm.model.heads import KEPT, WIDTH

INNER = 512
DETECTORS = 128
"""Kinds of token whose occurrences in a text are counted."""
CRITERION_QUERIES = 4
FIRST_STD = 0.05


class TextPooling(nn.Module):
    """Token states of a text in ``size`` numbers: what stands out in it, and how often what occurs."""

    def __init__(self, hidden_size: int, queries: int, width: int, size: int, inner: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(hidden_size)
        self.detectors = nn.Linear(hidden_size, DETECTORS)
        self.attention = nn.Linear(hidden_size, queries)
        self.values = nn.Parameter(torch.randn(queries, hidden_size, width) * hidden_size**-0.5)
        # Few kinds of token, each of its own, to begin with: were a token half of every kind, all would count length.
        nn.init.normal_(self.detectors.weight, std=2 * hidden_size**-0.5)
        nn.init.constant_(self.detectors.bias, -2.0)
        self.inner = nn.Linear(queries * width + 2 * DETECTORS + 1, inner)
        self.outer = nn.Linear(inner, size)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(N, size) float32 of ``states`` (N, L, H), where ``mask`` (N, L) is true on tokens; each text has one."""
        states, there = self.norm(states), mask[..., None]
        counts = (torch.sigmoid(self.detectors(states)) * there).sum(dim=1)
        tokens = mask.sum(dim=1, keepdim=True)
        weights = self.attention(states).masked_fill(~there, float("-inf")).softmax(dim=1)
        pooled = torch.einsum("nqh,qhw->nqw", weights.transpose(1, 2) @ states, self.values).flatten(1)
        seen = torch.cat([pooled, counts.log1p() / 2, 4 * counts / tokens, tokens.log() / 4], dim=-1)
        found: Tensor = self.outer(nn.functional.gelu(self.inner(seen)))
        return found

    def of_groups(self, states: Tensor, groups: Sequence[Tensor]) -> Tensor:
        """(N, size) of texts whose tokens are at places (texts, L) of ``states`` (M, H); -1 is none."""
        return torch.cat([self(states[places.clamp(min=0)], places >= 0) for places in groups])


class LateHead(nn.Module):
    """``kept`` states a response, and as many a criterion, each of ``width`` numbers."""

    def __init__(self, hidden_size: int, kept: int = KEPT, width: int = WIDTH, inner: int = INNER) -> None:
        super().__init__()
        self.kept, self.width = kept, width
        self.response = TextPooling(hidden_size, kept, width, kept * width, inner)
        self.criterion = TextPooling(hidden_size, CRITERION_QUERIES, width, kept * width, inner)
        # Small, so that a new head prefers next to nothing, but not zero: two factors that both have to grow grow late.
        for pooling in (self.response, self.criterion):
            nn.init.normal_(pooling.outer.weight, std=FIRST_STD)
            nn.init.zeros_(pooling.outer.bias)

    @classmethod
    def seeded(cls, hidden_size: int, seed: int, kept: int = KEPT, width: int = WIDTH) -> LateHead:
        """A new one, initialised from ``seed`` alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return cls(hidden_size, kept, width)

    @classmethod
    def of_weights(cls, weights: Mapping[str, Tensor]) -> LateHead:
        """The head that has these weights; its sizes are theirs. Raises ``ValueError`` where they do not fit."""
        try:
            kept, hidden_size, width = weights["response.values"].shape
            head = cls(hidden_size, kept, width, len(weights["response.inner.weight"]))
            head.load_state_dict(dict(weights))
        except (KeyError, RuntimeError, ValueError) as error:
            raise ValueError(f"weights of the head do not fit it: {str(error).splitlines()[0]}") from None
        return head

    def forward(self, states: Tensor, texts: TextTokens) -> Tensor:
        """(B, 2) float32 scores, from ``states`` (M, H) of a batch's tokens; in float32 whatever is around it."""
        with torch.autocast(states.device.type, enabled=False):
            states = states.float()
            responses = self.response.of_groups(states, texts.responses)[texts.shown]  # (B, 2, D)
            asked = texts.asked >= 0
            criteria = self.criterion.of_groups(states, texts.criteria)[texts.asked]  # (B, K, D)
            wish = (criteria * asked[..., None]).sum(dim=1)
            return self.scores(responses, wish[:, None])

    def scores(self, responses: Tensor, wish: Tensor) -> Tensor:
        """(...,) scores of ``responses`` (..., D) for a ``wish`` (..., D): a criterion, or a weighted sum of some."""
        return (responses * wish).sum(dim=-1) / math.sqrt(self.kept * self.width)
