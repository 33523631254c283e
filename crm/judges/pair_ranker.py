"""A model that compares two responses in one reading, as PairRM does. In: a folder or hub id. Out: readings.

PairRM (LLM-Blender, arXiv 2306.02561, section 3): DeBERTa-v2 reads query and both responses, each behind a token of its
own; what it says at these tokens goes through one head. Order matters, so both orders are read.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from transformers import DebertaV2Config, DebertaV2Model, DebertaV2PreTrainedModel, PreTrainedConfig

from crm.judges.control_tokens import ControlTokens
from crm.judges.hub_files import load_weights, model_digest, model_folder, read_config_and_tokenizer
from crm.judges.judge import Asked, Reading
from crm.judges.placing import placed
from crm.judges.unpadded import Ids, read_unpadded
from crm.model.encoding import system_text
from crm.model.heads import PAIRWISE_INSTRUCTION
from crm.schema import Comparison, Message

WINDOW = 16
"""Batches in a portion, as for a reward model."""
PREFIXES = {
    "source_prefix_id": "<|source|>",
    "cand1_prefix_id": "<|candidate1|>",
    "cand2_prefix_id": "<|candidate2|>",
}
"""Fields of the configuration and the tokens that they are the ids of."""
SOURCE_TOKENS, CANDIDATE_TOKENS = 1224, 412
"""PairRM's limits, control tokens counted; what the source leaves of their sum is shared by the two responses."""


class PairRanker(DebertaV2PreTrainedModel):
    """PairRM's architecture, under the names of its published weights. H is the hidden size, ``n_tasks`` the scores."""

    base_model_prefix = "pretrained_model"

    def __init__(self, config: DebertaV2Config) -> None:
        super().__init__(config)
        hidden = config.hidden_size
        self.pretrained_model = DebertaV2Model(config)  # type: ignore[no-untyped-call]
        self.head_layer = nn.Sequential(
            nn.Dropout(config.drop_out),
            nn.Linear(2 * hidden, hidden),
            nn.Tanh(),
            nn.Dropout(config.drop_out),
            nn.Linear(hidden, config.n_tasks),
        )
        self.post_init()  # type: ignore[no-untyped-call]

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Log-odds (B,) that the response shown first is better, for ids (B, T) without padding.

        Each sequence holds each of the three `PREFIXES` once.
        """
        states = self.pretrained_model(input_ids, attention_mask=torch.ones_like(input_ids)).last_hidden_state
        source, first, second = (states[input_ids == getattr(self.config, name)] for name in PREFIXES)
        scores = [self.head_layer(torch.cat([source, candidate], dim=-1)) for candidate in (first, second)]
        difference: torch.Tensor = (scores[0] - scores[1]).mean(dim=-1)
        return difference


class PairRankerJudge:
    """A pair ranker and its tokenizer. ``criteria_in``: ``system`` and ``user`` both put the criteria before the query,
    since there is no system turn; ``none`` leaves them out.
    """

    left_out = "too_long"

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        criteria_in: str,
        max_length: int,
        batch_size: int,
        precision: str = "32-true",
        weights: str = "",
    ) -> None:
        self.model, self._autocast = placed(model, precision)
        self.tokenizer = tokenizer
        self.criteria_in = criteria_in
        self.max_length = max_length
        self.batch_size = batch_size
        self._weights = weights
        self._precision = precision
        # Its prefixes were added without being called special: all that was added is a control token here.
        self._controls = ControlTokens(tokenizer, [token.content for token in tokenizer.added_tokens_decoder.values()])
        config = model.config
        self._source_limit = int(getattr(config, "source_maxlength", SOURCE_TOKENS))
        self._limit = self._source_limit + 2 * int(getattr(config, "candidate_maxlength", CANDIDATE_TOKENS))

    @property
    def digest(self) -> str:
        """Of weights, wording and place of the criteria, limits and precision."""
        wording = PAIRWISE_INSTRUCTION if self.criteria_in != "none" else ""
        parts = json.dumps([wording, self._source_limit, self._limit, self.max_length])
        return f"{self._weights}-{hashlib.sha256(parts.encode()).hexdigest()[:16]}-{self._precision}"

    @property
    def together(self) -> int:
        """A portion: which rows share a batch decides the order of sums."""
        return self.batch_size * WINDOW

    def fits(self, asked: Asked) -> bool:
        """Whether it is within the limits."""
        return self.ids(*asked) is not None

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        """Readings in portions of a few batches; one beyond PairRM's limits, which it would cut, gives none.

        A logit that is no finite number is the failure ``not_finite``.
        """
        portion = self.batch_size * WINDOW
        for start in range(0, len(comparisons), portion):
            asked = comparisons[start : start + portion]
            sequences = [self.ids(*pair) for pair in asked]
            logits = read_unpadded((ids for ids in sequences if ids), self.batch_size, self.logits)
            yield [_reading(pair, logits[ids], len(ids)) for pair, ids in zip(asked, sequences, strict=True) if ids]

    def ids(self, row: Comparison, order: str) -> Ids | None:
        """Source, first and second response, each as [CLS] prefix text [SEP]; ``None`` where one is too long."""
        responses = (row.response_a, row.response_b) if order == "ab" else (row.response_b, row.response_a)
        texts = (self.source(row), *map(plain_text, responses))
        source, *candidates = (self._part(prefix, text) for prefix, text in zip(PREFIXES.values(), texts, strict=True))
        room = (self._limit - len(source)) // 2
        total = len(source) + sum(map(len, candidates))
        if len(source) > self._source_limit or max(map(len, candidates)) > room or total > self.max_length:
            return None
        return (*source, *candidates[0], *candidates[1])

    def source(self, row: Comparison) -> str:
        """The text that both responses answer: the criteria, a blank line, and the prompt."""
        prompt = plain_text(row.prompt)
        shown = self.criteria_in != "none"
        return f"{system_text(row.criteria, PAIRWISE_INSTRUCTION)}\n\n{prompt}" if shown else prompt

    def _part(self, prefix: str, text: str) -> Ids:
        ids = self._controls.ids([text], lambda texts: prefix + texts[0])
        return (self.tokenizer.cls_token_id, *ids, self.tokenizer.sep_token_id)

    @torch.inference_mode()
    def logits(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Log-odds (B,) float32 that the response shown first is preferred, for ids (B, T) of one length."""
        with self._autocast:
            difference: torch.Tensor = self.model(input_ids.to(self.model.device))
        return difference.float()


def _reading(pair: Asked, logit: float, tokens: int) -> Reading:
    row, order = pair
    if not math.isfinite(logit):
        return Reading(row, order, None, failure="not_finite", tokens=tokens)
    return Reading(row, order, logit if order == "ab" else -logit, tokens=tokens)


def plain_text(turns: Sequence[Message]) -> str:
    """One turn as it is; several as lines of ``role: text``, since there are no turns inside a source or candidate."""
    if len(turns) == 1:
        return turns[0].content
    return "\n".join(f"{turn.role}: {turn.content}" for turn in turns)


def open_pair_ranker(
    path: str, revision: str | None, *, criteria_in: str, max_length: int, batch_size: int, precision: str
) -> PairRankerJudge:
    """The judge of ``judge.path``, weights as float32.

    Raises ``ValueError`` for a model that cannot be had, is not built as PairRM is, or whose files have other weights
    than this architecture, be it fewer or more.
    """
    folder = model_folder(path, revision)
    config, tokenizer = read_config_and_tokenizer(path, folder)
    _check_built_as_pairrm(path, config, tokenizer)
    model, unused = load_weights(PairRanker, path, folder)
    if unused:
        names = ", ".join(unused[:3])
        raise ValueError(f"judge.path={path}: its files hold {names}, which a pair ranker like PairRM does not have")
    return PairRankerJudge(
        model,
        tokenizer,
        criteria_in=criteria_in,
        max_length=max_length,
        batch_size=batch_size,
        precision=precision,
        weights=model_digest(path, folder),
    )


def _check_built_as_pairrm(path: str, config: PreTrainedConfig, tokenizer: Any) -> None:
    lacking = [name for name in (*PREFIXES, "n_tasks", "drop_out") if not hasattr(config, name)]
    if config.model_type != "deberta-v2" or lacking:
        raise ValueError(
            f"judge.path={path}: a {config.model_type} whose config.json lacks {', '.join(lacking) or 'nothing'}; "
            "a pair ranker is a deberta-v2 that has all of them, such as llm-blender/PairRM-hf"
        )
    for name, token in PREFIXES.items():
        if tokenizer.convert_tokens_to_ids(token) != getattr(config, name):
            raise ValueError(
                f"judge.path={path}: its tokenizer has no {token} with the id {getattr(config, name)} of config.json; "
                "take both from one place"
            )
    if tokenizer.cls_token_id is None or tokenizer.sep_token_id is None:
        raise ValueError(f"judge.path={path}: its tokenizer has no [CLS] and [SEP] tokens")
