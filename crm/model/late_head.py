"""A late-interaction head: responses become vectors before any criterion is known, and a score is a product.

A response becomes ``kept`` states of ``width`` numbers, and so does a criterion; a score is the sum of their products,
added up over the user's criteria with their weights. So a bank is read once, and a further user costs one short text
and a matrix product. Late interaction (Khattab and Zaharia, ColBERT, 2020) over states of learned queries (Humeau et
al., poly-encoders, 2020). Length and frequency features are counts, because a mean over tokens cannot represent them.

Letters: N texts, L tokens of the longest, H the backbone's hidden size, D = kept * width, M tokens of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from crm.model.batching.batches import TextTokens
from crm.model.heads import KEPT, WIDTH, HeadOutput, difference

INNER = 384
DETECTORS = 128
"""Kinds of token whose occurrences in a text are counted."""
CRITERION_QUERIES = 4
FIRST_STD = 0.05


class TextPooling(nn.Module):
    """Token states of a text in ``size`` numbers: what stands out in it, and how often what occurs.

    States are standardised by ``centre`` and ``spread`` (H,), which change nothing until `LateHead.standardise` sets
    them.
    """

    centre: Tensor
    spread: Tensor

    def __init__(self, hidden_size: int, queries: int, width: int, size: int, inner: int) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(hidden_size))
        self.register_buffer("spread", torch.ones(hidden_size))
        self.dropout = nn.Dropout(0.0)
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
        states, there = self.norm((states - self.centre) / self.spread), mask[..., None]
        counts = (torch.sigmoid(self.detectors(states)) * there).sum(dim=1)
        tokens = mask.sum(dim=1, keepdim=True)
        weights = self.attention(states).masked_fill(~there, float("-inf")).softmax(dim=1)
        pooled = torch.einsum("nqh,qhw->nqw", weights.transpose(1, 2) @ states, self.values).flatten(1)
        seen = torch.cat([pooled, counts.log1p() / 2, 4 * counts / tokens, tokens.log() / 4], dim=-1)
        inner = nn.functional.gelu(self.inner(self.dropout(seen)))
        found: Tensor = self.outer(self.dropout(inner))
        return found

    def of_groups(self, states: Tensor, groups: Sequence[Tensor]) -> Tensor:
        """(N, size) of texts whose tokens are at places (texts, L) of ``states`` (M, H); -1 is none."""
        return torch.cat([self(states[places.clamp(min=0)], places >= 0) for places in groups])


class LateHead(nn.Module):
    """``kept`` states a response, and as many a criterion, each of ``width`` numbers."""

    def __init__(self, hidden_size: int, kept: int = KEPT, width: int = WIDTH) -> None:
        super().__init__()
        self.kept, self.width = kept, width
        self.response = TextPooling(hidden_size, kept, width, kept * width, INNER)
        self.criterion = TextPooling(hidden_size, CRITERION_QUERIES, width, kept * width, INNER)
        # Small, so that a new head prefers next to nothing, but not zero: two factors that both have to grow grow late.
        for pooling in (self.response, self.criterion):
            nn.init.normal_(pooling.outer.weight, std=FIRST_STD)
            nn.init.zeros_(pooling.outer.bias)

    @classmethod
    def seeded(cls, hidden_size: int, seed: int, **sizes: Any) -> LateHead:
        """A new one, initialised from ``seed`` alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return cls(hidden_size, **sizes)

    @classmethod
    def of_weights(cls, weights: Mapping[str, Tensor], hidden_size: int) -> LateHead:
        """The head that has these weights, on states of ``hidden_size`` numbers; its other sizes are theirs.

        Raises ``KeyError`` or ``RuntimeError`` where they do not fit.
        """
        kept, _, width = weights["response.values"].shape
        head = cls(hidden_size, kept, width)
        head.load_state_dict(dict(weights))
        return head

    @torch.no_grad()
    def standardise(self, states: Tensor, texts: TextTokens) -> None:
        """Have a new head take centre and spread of states (M, H), over the tokens of responses.

        In pretrained backbones a few numbers of a state are a hundred times as large as others and drown them.
        """
        if not self.response.outer.bias.any():  # else it was trained
            seen = states[torch.cat([group[group >= 0] for group in texts.responses])]
            spread = seen.std(dim=0)
            for pooling in (self.response, self.criterion):
                pooling.centre.copy_(seen.mean(dim=0))
                pooling.spread.copy_(spread.clamp(min=spread.median() / 100))

    def forward(self, states: Tensor, texts: TextTokens) -> HeadOutput:
        """Scores (B, 2) float32, from states (M, H) of a batch's tokens; in float32 whatever is around it.

        Each text is scored by each criterion once, however many comparisons there are of the two.
        """
        with torch.autocast(states.device.type, enabled=False):
            responses = self.response.of_groups(states.float(), texts.responses)  # (U, D)
            criteria = self.criterion.of_groups(states.float(), texts.criteria)  # (V, D)
            scores = responses @ criteria.T / math.sqrt(self.kept * self.width)
            asked = (texts.asked >= 0)[:, None]
            of_pairs = scores[texts.shown[:, :, None], texts.asked.clamp(min=0)[:, None]]  # (B, 2, K)
            found = difference((of_pairs * asked).sum(dim=-1))
            return found._replace(off_criteria=_off_criteria(scores, texts)) if self.training else found


def _off_criteria(scores: Tensor, texts: TextTokens) -> Tensor:
    """(B,): over the criteria of scores (U, V) that a comparison is not asked by, the mean square of what its responses
    differ by; 0 where all are asked.
    """
    gaps = scores[texts.shown[:, 0]] - scores[texts.shown[:, 1]]
    count = gaps.shape[1]
    own = texts.asked.where(texts.asked >= 0, count)  # what fills up falls into a column of its own
    others = gaps.new_ones(len(gaps), count + 1).scatter(1, own, 0.0)[:, :count]
    return (gaps.square() * others).sum(dim=1) / others.sum(dim=1).clamp(min=1)
