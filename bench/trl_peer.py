"""TRL's `RewardTrainer` as a peer, built anew in every round, timed from its first batch to its last step.

Its defaults stay (batch 8, gradient checkpointing, its optimizer) but for these: pairs come tokenised by our encoder,
precision is that of the contest (its default is bfloat16), nothing is saved or reported, and the learning rate is 0.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any

from datasets import Dataset, disable_progress_bars
from transformers import PrinterCallback, TrainerCallback
from transformers.utils import logging as transformers_logging

from bench.models import PAD_ID
from bench.pairs import LONGEST
from bench.rounds import Answer, Contestant, Stopwatch
from crm.model.encoding import EncodedComparison, token_ids

BATCH = 8
"""Pairs of one optimizer step: TRL's default batch, without accumulation."""


def trl_steps(
    twin: Any, tokenizer: Any, pairs: Sequence[EncodedComparison], *, batch: int = BATCH, bf16: bool = False
) -> Contestant:
    """All steps over ``pairs``, `BATCH` pairs a step in batches of ``batch``; answers the pairs' mean loss.

    Raises ``ValueError`` for a sequence that the trainer's default ``max_length`` would leave out.
    """
    longest = max(max(pair.lengths) for pair in pairs)
    if longest > LONGEST:
        raise ValueError(f"pairs: one has {longest} tokens; TRL leaves out those above {LONGEST}, choose shorter")
    if len(pairs) % BATCH:
        raise ValueError(f"pairs: {len(pairs)} is no multiple of {BATCH}; a smaller last step would be another mean")
    rows = Dataset.from_list([_row(pair) for pair in pairs])

    def run(stopwatch: Stopwatch) -> Answer:
        with tempfile.TemporaryDirectory() as folder:
            trainer = _trainer(twin, tokenizer, rows, folder, batch, bf16, stopwatch)
            assert len(trainer.train_dataset) == len(pairs), "TRL left out a pair"
            loss = trainer.train().training_loss
            assert trainer.state.global_step == len(pairs) // BATCH, "TRL made another number of steps"
        twin.zero_grad(set_to_none=True)
        return [float(loss)]

    return run


def _row(pair: EncodedComparison) -> dict[str, list[int]]:
    first, second = (list(token_ids(sequence)) for sequence in pair.sequences)
    assert pair.target in (0.0, 1.0), "TRL knows no ties"
    chosen, rejected = (first, second) if pair.target == 1.0 else (second, first)
    return {"chosen_ids": chosen, "rejected_ids": rejected}


def _trainer(
    twin: Any, tokenizer: Any, rows: Dataset, folder: str, batch: int, bf16: bool, stopwatch: Stopwatch
) -> Any:
    from trl.trainer.reward_config import RewardConfig
    from trl.trainer.reward_trainer import RewardTrainer

    disable_progress_bars()
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    config = RewardConfig(
        output_dir=folder,
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=BATCH // batch,
        num_train_epochs=1,
        learning_rate=0.0,
        bf16=bf16,
        use_cpu=str(twin.device) == "cpu",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    config._n_gpu = min(1, config.n_gpu)  # of several the trainer would take all, with a batch for each
    tokenizer.pad_token_id = PAD_ID
    trainer = RewardTrainer(
        model=twin, args=config, train_dataset=rows, processing_class=tokenizer, callbacks=[_Timer(stopwatch)]
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


class _Timer(TrainerCallback):
    def __init__(self, stopwatch: Stopwatch) -> None:
        self._stopwatch = stopwatch

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self._stopwatch.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **__: Any) -> None:
        if state.global_step == state.max_steps:
            self._stopwatch.stop()
