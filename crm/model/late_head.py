"""A late-interaction head: responses become vectors before any criterion is known, and a score is a product.

A response becomes ``kept`` states of ``width`` numbers, and so does a criterion; a score is the sum of their products,
added up over the user's criteria with their weights. So a bank is read once, and a further user costs one short text
and a matrix product. Late interaction (Khattab and Zaharia, ColBERT, 2020) over states of learned queries (Humeau et
al., poly-encoders, 2020). Length and frequency features are counts, because a mean over tokens cannot represent them.

In a gated head, whether a criterion is for or against is a number of its own, which multiplies the vector: opposites of
the same words are opposite. Under a criterion and its opposite such a head could reject no response, not even an empty
one, so one more vector is added to every criterion. It learns from responses that nobody prefers.

Surface features of a response are found in the lowest layers, negation in a criterion in the middle ones: responses may
be read by fewer layers than criteria, which are short.

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
SIDE_QUERIES, SIDE_WIDTH, SIDE_INNER = 2, 16, 88
TOWARDS = 0.5
"""Most criteria are for something: so far is a new gate open."""
DROPPED = 0.2
"""Share of the numbers of a criterion's states that a gated head does without while it is trained."""
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
    """``kept`` states a response, and as many a criterion, each of ``width`` numbers.

    ``response_layers`` are the lowest layers of the backbone that read a response; 0 means all, as for criteria.
    ``gated`` is whether criteria have a side; then there is also a vector that is added to every criterion.
    """

    def __init__(
        self, hidden_size: int, kept: int = KEPT, width: int = WIDTH, response_layers: int = 0, gated: bool = False
    ) -> None:
        super().__init__()
        self.kept, self.width, self.response_layers, self.gated = kept, width, response_layers, gated
        self.response = TextPooling(hidden_size, kept, width, kept * width, INNER)
        self.criterion = TextPooling(hidden_size, CRITERION_QUERIES, width, kept * width, INNER)
        # Small, so that a new head prefers next to nothing, but not zero: two factors that both have to grow grow late.
        for pooling in (self.response, self.criterion):
            nn.init.normal_(pooling.outer.weight, std=FIRST_STD)
            nn.init.zeros_(pooling.outer.bias)
        self.side = TextPooling(hidden_size, SIDE_QUERIES, SIDE_WIDTH, 1, SIDE_INNER) if gated else None
        self.shared = nn.Parameter(torch.zeros(kept * width)) if gated else None
        self.measures_off_criteria = False
        """Whether `forward` measures by what responses differ under criteria of other comparisons of the batch."""
        self.user_vectors: nn.Parameter | None = None
        """Where set, (W, D): vectors in place of criteria, learned from batches without criteria and not exported."""

    @classmethod
    def seeded(cls, hidden_size: int, seed: int, **sizes: Any) -> LateHead:
        """A new one, initialised from ``seed`` alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return cls(hidden_size, **sizes)

    @classmethod
    def of_weights(cls, weights: Mapping[str, Tensor], response_layers: int = 0) -> LateHead:
        """The head that has these weights; its sizes are theirs. Raises ``ValueError`` where they do not fit."""
        try:
            kept, hidden_size, width = weights["response.values"].shape
            head = cls(hidden_size, kept, width, response_layers, gated="shared" in weights)
            head.load_state_dict(dict(weights))
        except (KeyError, RuntimeError, ValueError) as error:
            raise ValueError(f"weights of the head do not fit it: {str(error).splitlines()[0]}") from None
        return head

    def forward(self, of_responses: Tensor, of_criteria: Tensor, texts: TextTokens) -> HeadOutput:
        """Scores (B, 2) float32, from states (M, H) of a batch's tokens; in float32 whatever is around it.

        ``of_responses`` are those of the layer that reads responses, ``of_criteria`` those of the last one. Each text
        is scored by each criterion once, however many comparisons there are of the two.
        """
        with torch.autocast(of_responses.device.type, enabled=False):
            responses = self.response.of_groups(of_responses.float(), texts.responses)  # (U, D)
            if texts.criteria:
                criteria = self.of_criteria(of_criteria.float(), texts.criteria)  # (V, D)
            else:
                assert self.user_vectors is not None, "a batch without criteria"
                criteria = self._with_shared(self.user_vectors)  # (W, D)
            scores = responses @ criteria.T / math.sqrt(self.kept * self.width)
            asked = (texts.asked >= 0)[:, None]
            of_pairs = scores[texts.shown[:, :, None], texts.asked.clamp(min=0)[:, None]]  # (B, 2, K)
            found = difference((of_pairs * asked).sum(dim=-1))
            return found._replace(off_criteria=_off_criteria(scores, texts)) if self.measures_off_criteria else found

    def of_criteria(self, states: Tensor, groups: Sequence[Tensor]) -> Tensor:
        """(N, D): what criteria are about, of a gated head times their side in (-1, 1), and the shared part."""
        if self.side is None:
            return self.criterion.of_groups(states, groups)
        states = nn.functional.dropout(states, DROPPED, self.training)
        sides = torch.tanh(self.side.of_groups(states, groups) + TOWARDS)  # (N, 1)
        return self._with_shared(sides * self.criterion.of_groups(states, groups))

    def _with_shared(self, criteria: Tensor) -> Tensor:
        """(N, D)."""
        return criteria if self.shared is None else criteria + self.shared


def _off_criteria(scores: Tensor, texts: TextTokens) -> Tensor:
    """(B,): over the criteria of scores (U, V) that a comparison is not asked by, the mean square of what its responses
    differ by; 0 where all are asked.
    """
    gaps = scores[texts.shown[:, 0]] - scores[texts.shown[:, 1]]
    count = gaps.shape[1]
    own = texts.asked.where(texts.asked >= 0, count)  # what fills up falls into a column of its own
    others = gaps.new_ones(len(gaps), count + 1).scatter(1, own, 0.0)[:, :count]
    return (gaps.square() * others).sum(dim=1) / others.sum(dim=1).clamp(min=1)
