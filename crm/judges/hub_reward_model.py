"""A reward model that others trained, as a judge. In: a folder or hub id. Out: readings, each response by itself.

Any sequence-classification model of transformers with one label, through its tokenizer's own chat template. A number is
what transformers gives for the sequence alone: it reads the last token that is not the ``pad_token_id`` of the model's
configuration (the last token where there is none), and here no sequence is padded.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from jinja2 import TemplateError
from transformers import AutoModelForSequenceClassification, PreTrainedConfig

from crm.judges.control_tokens import ControlTokens
from crm.judges.hub_files import load_weights, model_digest, model_folder, read_config_and_tokenizer
from crm.judges.judge import Asked, Reading
from crm.judges.placing import placed
from crm.judges.unpadded import Ids, read_unpadded
from crm.model.encoding import Order, pointwise_messages, system_text
from crm.model.heads import POINTWISE_INSTRUCTION
from crm.schema import Comparison, Message

log = logging.getLogger(__name__)

WINDOW = 16
"""Batches in a portion: rows of one length come together, and predictions still reach the file in small portions."""
PROBE = ("likes tests", "Is this a test?", "This is one.")
"""Criterion, query and response that a template is tried with."""


class HubRewardModel:
    """A model with one label and its tokenizer; pointwise, so that both orders of a pair have the same numbers.

    ``criteria_in`` says where the criteria stand: ``system``, a system turn before the conversation; ``user``, before
    the query in the first user turn; ``none``, nowhere. Raises ``ValueError`` for a template that cannot show them.
    """

    left_out = "too_long"
    pointwise = True

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
        config = model.config.get_text_config()
        if config.pad_token_id is None:
            # An id that no sequence has: transformers then reads the last token, and takes batches.
            config.pad_token_id = -1
        self.tokenizer = tokenizer
        self.criteria_in = criteria_in
        self.max_length = max_length
        self.batch_size = batch_size
        self._weights = weights
        self._precision = precision
        self._controls = ControlTokens(tokenizer)
        self._probe = self._written_probe()
        if tokenizer.encode(self._probe, add_special_tokens=False)[-1] == config.pad_token_id:
            log.warning("judge: conversations end in the model's pad token; transformers reads the token before it")

    @property
    def digest(self) -> str:
        """Of weights, template, place and wording of the criteria, length and precision."""
        return f"{self._weights}-{self.prompt_digest}-{self._precision}"

    @property
    def prompt_digest(self) -> str:
        """16 hex digits of what turns a comparison into tokens: template, place and wording, longest sequence.

        A conversation as written counts too: some templates write today's date, and readings of two days do not mix.
        """
        parts = [str(self.tokenizer.chat_template), self.criteria_in, self._probe, str(self.max_length)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    @property
    def together(self) -> int:
        """A portion, in both orders: which rows share a batch decides the order of sums."""
        return 2 * self.batch_size * WINDOW

    def fits(self, asked: Asked) -> bool:
        """Whether both responses are short enough; what the template refuses fits, and fails."""
        pair = self._pair(asked[0])
        return pair is None or self._fits(pair)

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        """Readings in portions of a few batches. A comparison with a response too long gives none.

        Failures: ``template_refused`` (turns that the template does not take), ``not_finite`` (a number that is none).
        """
        wanted: dict[str, list[Asked]] = {}
        for pair in comparisons:
            wanted.setdefault(pair[0].id, []).append(pair)
        groups = list(wanted.values())
        portion = self.batch_size * WINDOW
        for start in range(0, len(groups), portion):
            yield self._read_portion(groups[start : start + portion])

    def _read_portion(self, groups: list[list[Asked]]) -> list[Reading]:
        sequences: list[tuple[Ids, Ids] | None] = [self._pair(group[0][0]) for group in groups]
        fitting = [ids for pair in sequences if pair for ids in pair if self._fits(pair)]
        scores = read_unpadded(fitting, self.batch_size, self.scores)
        readings = []
        for group, pair in zip(groups, sequences, strict=True):
            if pair is None:
                readings += [Reading(row, order, None, failure="template_refused") for row, order in group]
            elif self._fits(pair):
                a, b = (scores[ids] for ids in pair)
                readings += [reading_of(row, order, a, b, sum(map(len, pair))) for row, order in group]
        return readings

    def _fits(self, pair: tuple[Ids, Ids]) -> bool:
        return max(map(len, pair)) <= self.max_length

    def _pair(self, row: Comparison) -> tuple[Ids, Ids] | None:
        try:
            return self.ids(row, row.response_a), self.ids(row, row.response_b)
        except TemplateError:
            return None

    def ids(self, row: Comparison, response: Sequence[Message]) -> Ids:
        """Token ids of the conversation that ends in ``response``. Raises jinja2's error where the template does."""
        turns = self.messages(row, response)
        return tuple(self._controls.ids([turn["content"] for turn in turns], self._written(turns)))

    def messages(self, row: Comparison, response: Sequence[Message]) -> list[dict[str, str]]:
        """What the template is given."""
        turns = pointwise_messages(row.criteria, row.prompt, response)
        if self.criteria_in == "system":
            return turns
        turns = turns[1:]
        if self.criteria_in == "user":
            first = next((turn for turn in turns[: len(row.prompt)] if turn["role"] == "user"), turns[0])
            first["content"] = f"{system_text(row.criteria, POINTWISE_INSTRUCTION)}\n\n{first['content']}"
        return turns

    def _written(self, turns: list[dict[str, str]]) -> Callable[[Sequence[str]], str]:
        def write(texts: Sequence[str]) -> str:
            filled = [{**turn, "content": text} for turn, text in zip(turns, texts, strict=True)]
            return str(self.tokenizer.apply_chat_template(filled, tokenize=False))

        return write

    @torch.inference_mode()
    def scores(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Scores (B,) float32 of sequences (B, T) of one length."""
        input_ids = input_ids.to(self.model.device)
        with self._autocast:
            output = self.model(input_ids=input_ids, attention_mask=torch.ones_like(input_ids))
        logits: torch.Tensor = output.logits
        return logits[:, 0].float()

    def _written_probe(self) -> str:
        """What the template makes of a conversation; refusing a turn, or dropping it in silence, hides the criteria."""
        criterion, query, response = PROBE
        turns = ((Message("user", query),), (Message("assistant", response),))
        row = Comparison("probe", "probe", (criterion,), *turns, turns[1], "a")
        shown = self.messages(row, row.response_a)
        way_out = "; set judge.criteria_in=user" if self.criteria_in == "system" else ""
        try:
            written = self._written(shown)([turn["content"] for turn in shown])
        except TemplateError as error:
            raise ValueError(
                f"judge.criteria_in={self.criteria_in}: the chat template refuses the conversation ({error}){way_out}"
            ) from None
        lost = [text for text in (criterion, query, response) if text not in written]
        if lost and not (self.criteria_in == "none" and lost == [criterion]):
            raise ValueError(f"judge.criteria_in={self.criteria_in}: the chat template leaves {lost[0]!r} out{way_out}")
        return written


def reading_of(row: Comparison, order: Order, score_a: float, score_b: float, tokens: int) -> Reading:
    """Both scores and their difference; a score that is no finite number is a failure."""
    if not (math.isfinite(score_a) and math.isfinite(score_b)):
        return Reading(row, order, None, failure="not_finite", tokens=tokens)
    return Reading(row, order, score_a - score_b, score_a, score_b, tokens=tokens)


def open_reward_model(
    path: str, revision: str | None, *, criteria_in: str, max_length: int, batch_size: int, precision: str
) -> HubRewardModel:
    """The judge of ``judge.path``, weights as float32.

    Raises ``ValueError`` for a model that cannot be had, that has not one label, whose head is not in its files, or
    that has fewer positions than ``max_length``; for a tokenizer without a chat template.
    """
    folder = model_folder(path, revision)
    config, tokenizer = read_config_and_tokenizer(path, folder)
    _check_config(path, config, max_length)
    if not tokenizer.chat_template:
        raise ValueError(
            f"judge.path={path}: its tokenizer has no chat template, so that nobody knows how a conversation is "
            "written for it; take a folder with one (chat_template.jinja)"
        )
    model, unused = load_weights(AutoModelForSequenceClassification, path, folder)
    if unused:
        log.warning("judge.path=%s: %d weights are not used, the first is %s", path, len(unused), unused[0])
    return HubRewardModel(
        model,
        tokenizer,
        criteria_in=criteria_in,
        max_length=max_length,
        batch_size=batch_size,
        precision=precision,
        weights=model_digest(path, folder),
    )


def _check_config(path: str, config: PreTrainedConfig, max_length: int) -> None:
    architectures = ", ".join(config.architectures or ["unknown"])
    if "CausalLM" in architectures:
        raise ValueError(
            f"judge.path={path}: is a language model ({architectures}) without a head that scores; give a reward model "
            "(sequence classification, num_labels=1)"
        )
    if config.num_labels != 1:
        raise ValueError(
            f"judge.path={path}: has num_labels={config.num_labels} ({architectures}), expected 1; give a reward model"
        )
    positions = getattr(config.get_text_config(), "max_position_embeddings", None) or max_length
    if max_length > positions:
        raise ValueError(f"judge.max_length={max_length}: {path} has {positions} positions; use at most that")
