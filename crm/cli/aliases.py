"""Other names of settings: those that users of TRL, Hugging Face and Lightning type, and how ours are written."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from crm.config import config_dir, hydra_text

MULTIRUN = {"-m", "--multirun"}
QUOTES = "'\""
SUITE = re.compile(r"\w+[+-]\w*")
"""``D+``, ``C_axes-`` or ``D-_add``, and no option of the group."""


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {name: meaning for meaning, names in table.items() for name in names.split()}


SAME = _by_name(
    {
        "optimizer.lr": "learning_rate lr optimizer.learning_rate",
        "optimizer.weight_decay": "weight_decay",
        "optimizer.warmup_fraction": "warmup_ratio",
        "optimizer.clip": "max_grad_norm gradient_clip_val trainer.gradient_clip_val",
        "schedule.epochs": "num_train_epochs num_epochs epochs max_epochs trainer.epochs trainer.max_epochs",
        "schedule.max_steps": "max_steps trainer.max_steps",
        "schedule.validate_every": "eval_steps trainer.validate_every",
        "schedule.save_every": "save_steps trainer.save_every",
        "schedule.patience": "early_stopping_patience patience trainer.patience",
        "model.max_length": "max_length max_seq_length cutoff_len",
        "model": "model_name_or_path model_name",
        "data": "dataset_name dataset train_file data_path",
        "hydra.run.dir": "output_dir default_root_dir",
        "model.lora_rank": "lora_r lora_rank",
        "model.lora_alpha": "lora_alpha",
        "model.lora_dropout": "lora_dropout",
        "model.revision": "model_revision",
        "model.gradient_checkpointing": "gradient_checkpointing",
        "trainer.devices": "devices gpus n_gpus num_gpus",
        "trainer.nodes": "num_nodes nodes trainer.num_nodes",
        "trainer.accelerator": "accelerator",
        "trainer.precision": "precision",
        "trainer.strategy": "strategy",
        "logger": "report_to",
        "logger.name": "run_name",
        "loss.centre_scores": "center_rewards_coefficient loss.center_scores",
        "loss.label_smoothing": "label_smoothing_factor",
        "resume": "resume_from_checkpoint",
    }
)
"""Names that mean exactly one of our settings."""

NOTES = {"optimizer.lr": "; where optimizer.name=muon (model=tiny), the matrices have optimizer.matrix_lr"}
"""What somebody who means a setting may not know of it."""
SCORED = {"in": "input", "model": "checkpoint", "out": "out", "explain": "explain", "max_length": "judge.max_length"}
"""What `score.py` calls its settings on the command line: ``in`` is no name that a field can have."""
BENCHMARKS = (
    *("reward_bench_2", "rm_bench", "rubric_bench", "judge_bench", "ppe_preference", "ppe_correctness"),
    *("personalized_rewardbench", "prism", "arena_personal", "hhh"),
)
"""Public benchmarks that ``suite=`` names; a test compares them with `crm.benchmarks.catalogue`."""
ANSWERS = _by_name(
    {
        "schedule.comparisons_per_step=32 counts the comparisons of a step on all devices together; gradients are "
        "accumulated as needed, and batching.tokens bounds a forward pass": (
            "per_device_train_batch_size per_device_batch_size train_batch_size batch_size trainer.batch_size "
            "gradient_accumulation_steps accumulate_grad_batches trainer.accumulate trainer.accumulate_grad_batches"
        ),
        "batching.tokens bounds a forward pass, in validation too": "per_device_eval_batch_size",
        "trainer.precision=bf16 or trainer.precision=fp32; auto chooses (fp16 is not there)": "bf16 fp16",
        "the learning rate warms up linearly (optimizer.warmup_fraction) and falls as a cosine": "lr_scheduler_type",
        "optimizer.warmup_fraction=0.03 is the share of all steps": "warmup_steps",
        "optimizer=paper (AdamW) or optimizer=from_scratch (Muon)": "optim optimizer_type",
        "schedule.validate_every counts optimizer steps": (
            "val_check_interval trainer.val_check_interval eval_strategy evaluation_strategy"
        ),
        "schedule.save_every counts optimizer steps": "save_strategy",
        "every optimizer step is logged": "logging_steps",
        "logger=wandb, or logger=[csv,wandb] for both": "wandb use_wandb",
        "model.lora_rank=16 trains LoRA adapters and the head": "lora use_peft use_lora",
        "model.lora_rank=16 adapts all linear layers": "lora_target_modules",
        "weights stay float32; model.lora_rank=16 saves most memory": "load_in_4bit load_in_8bit",
        "trainer=fsdp shards weights, gradients and optimizer (FSDP2)": "deepspeed fsdp",
        "attention is chosen by the device; see docs/speed.md": "attn_implementation",
        "head=scalar has one label, head=pairwise two": "num_labels",
        "the losses have no beta; loss.centre_scores and loss.label_smoothing are there": "beta",
        "train.py trains and evaluate.py evaluates": "do_train",
        "seed=42": "seed_everything",
    }
)
"""Names that have no setting of the same meaning, and what to write instead."""


def rewrite_aliases(words: Sequence[str], known: Collection[str], command: str) -> list[str]:
    """The words of a command line with our names in them; each change is printed to stderr.

    ``known`` are the settings and groups of the ``command``: a name that is one of them keeps its meaning, and a
    setting that the command lacks is not brought in. Raises ``ValueError`` with an answer of `ANSWERS`.
    """
    found = []
    for word in words:
        name, equals, value = word.partition("=")
        name = name.removeprefix("--")
        if "input" in known and name in SCORED and "schedule" not in known:
            found.append(f"{SCORED[name]}={hydra_text(value.strip(QUOTES))}" if equals else f"{name}=true")
            continue
        target = SAME.get(name, "")
        if equals and name not in known and (target in known or target.startswith("hydra.")):
            print(f"{command}: {word} is read as {target}={value}{NOTES.get(target, '')}", file=sys.stderr)
            word = f"{target}={value}"
        elif equals and name not in known and name in ANSWERS and "schedule" in known:
            raise ValueError(f"{name}: no such setting; {ANSWERS[name]}")
        found.append(word)
    return [each for word in found for each in _expanded(word, found)]


def _expanded(word: str, words: Sequence[str]) -> list[str]:
    """A word that stands for several settings: suites and loggers in a list, a backbone with what belongs to it."""
    name, _, value = word.partition("=")
    listed = re.sub(r"[\[\]\"' ]", "", value).split(",")
    if name == "suite" and {each.replace("-", "_") for each in listed} <= {*BENCHMARKS, "public"}:
        return [f"benchmarks=[{','.join(listed)}]".replace("-", "_")]
    if name == "suite" and all(map(SUITE.fullmatch, listed)):
        return ["suite.names=[" + ",".join(f'"{each}"' for each in listed) + "]"]
    if name == "logger" and len(listed) > 1 and (value[0] == "[" or not MULTIRUN & set(words)):
        return [f"logger={listed[0]}", f"logger.kinds=[{','.join(listed)}]"]
    path = value.strip("'\"")
    if name == "model" and _is_backbone(path):
        return ["model=pretrained", f"model.path={hydra_text(path)}"]
    chosen = {"model", "experiment"} & {other.partition("=")[0] for other in words}
    if name == "model.path" and path != "null" and not chosen:
        return ["model=pretrained", word]
    return [word]


def _is_backbone(path: str) -> bool:
    """Whether the value of ``model=`` is a hub id or a folder, and no option of the group."""
    option = (config_dir() / "model" / f"{path}.yaml").is_file()
    return not option and "," not in path and ("/" in path or Path(path).is_dir())
