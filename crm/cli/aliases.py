"""Other names of settings: those that users of TRL, Hugging Face and Lightning type, and how ours are written."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from crm.cli.mistakes import hydra_word
from crm.config import config_dir

SAME = {
    **dict.fromkeys(("learning_rate", "lr"), "optimizer.lr"),
    "weight_decay": "optimizer.weight_decay",
    "warmup_ratio": "optimizer.warmup_fraction",
    **dict.fromkeys(("max_grad_norm", "gradient_clip_val", "trainer.gradient_clip_val"), "optimizer.clip"),
    **dict.fromkeys(("num_train_epochs", "num_epochs", "epochs", "max_epochs"), "schedule.epochs"),
    **dict.fromkeys(("trainer.epochs", "trainer.max_epochs"), "schedule.epochs"),
    **dict.fromkeys(("max_steps", "trainer.max_steps"), "schedule.max_steps"),
    **dict.fromkeys(("eval_steps", "trainer.validate_every"), "schedule.validate_every"),
    **dict.fromkeys(("save_steps", "trainer.save_every"), "schedule.save_every"),
    **dict.fromkeys(("early_stopping_patience", "patience", "trainer.patience"), "schedule.patience"),
    **dict.fromkeys(("max_length", "max_seq_length", "cutoff_len"), "model.max_length"),
    **dict.fromkeys(("model_name_or_path", "model_name"), "model"),
    **dict.fromkeys(("dataset_name", "dataset", "train_file", "data_path"), "data"),
    **dict.fromkeys(("output_dir", "default_root_dir"), "hydra.run.dir"),
    **dict.fromkeys(("lora_r", "lora_rank"), "model.lora_rank"),
    "lora_alpha": "model.lora_alpha",
    "lora_dropout": "model.lora_dropout",
    "model_revision": "model.revision",
    "gradient_checkpointing": "model.gradient_checkpointing",
    **dict.fromkeys(("devices", "gpus", "n_gpus", "num_gpus"), "trainer.devices"),
    **dict.fromkeys(("num_nodes", "nodes", "trainer.num_nodes"), "trainer.nodes"),
    "accelerator": "trainer.accelerator",
    "precision": "trainer.precision",
    "strategy": "trainer.strategy",
    "report_to": "logger",
    "run_name": "logger.name",
    **dict.fromkeys(("center_rewards_coefficient", "loss.center_scores"), "loss.centre_scores"),
    "label_smoothing_factor": "loss.label_smoothing",
    "resume_from_checkpoint": "resume",
}
"""Names that mean exactly one of our settings."""

BENCHMARKS = (
    *("reward_bench_2", "rm_bench", "rubric_bench", "judge_bench", "ppe_preference", "ppe_correctness"),
    *("personalized_rewardbench", "prism", "hhh"),
)
"""Public benchmarks that ``suite=`` names; a test compares them with `crm.benchmarks.catalogue`."""
SCORED = {"in": "input", "model": "checkpoint", "out": "out", "explain": "explain", "max_length": "judge.max_length"}
"""What `score.py` calls its settings on the command line: ``in`` is no name that a field can have."""

_STEP = (
    "schedule.comparisons_per_step=32 counts the comparisons of a step on all devices together; gradients are "
    "accumulated as needed, and batching.tokens bounds a forward pass"
)
ANSWERS = {
    **dict.fromkeys(("per_device_train_batch_size", "per_device_batch_size", "train_batch_size", "batch_size"), _STEP),
    **dict.fromkeys(("gradient_accumulation_steps", "accumulate_grad_batches", "trainer.accumulate"), _STEP),
    **dict.fromkeys(("trainer.batch_size", "trainer.accumulate_grad_batches"), _STEP),
    "per_device_eval_batch_size": "batching.tokens bounds a forward pass, in validation too",
    **dict.fromkeys(
        ("bf16", "fp16"), "trainer.precision=bf16 or trainer.precision=fp32; auto chooses (fp16 is not there)"
    ),
    "lr_scheduler_type": "the learning rate warms up linearly (optimizer.warmup_fraction) and falls as a cosine",
    "warmup_steps": "optimizer.warmup_fraction=0.03 is the share of all steps",
    **dict.fromkeys(("optim", "optimizer_type"), "optimizer=paper (AdamW) or optimizer=from_scratch (Muon)"),
    **dict.fromkeys(
        ("val_check_interval", "trainer.val_check_interval"), "schedule.validate_every counts optimizer steps"
    ),
    **dict.fromkeys(("eval_strategy", "evaluation_strategy"), "schedule.validate_every counts optimizer steps"),
    "save_strategy": "schedule.save_every counts optimizer steps",
    "logging_steps": "every optimizer step is logged",
    **dict.fromkeys(("lora", "use_peft", "use_lora"), "model.lora_rank=16 trains LoRA adapters and the head"),
    "lora_target_modules": "model.lora_rank=16 adapts all linear layers",
    **dict.fromkeys(("load_in_4bit", "load_in_8bit"), "weights stay float32; model.lora_rank=16 saves most memory"),
    **dict.fromkeys(("deepspeed", "fsdp"), "trainer=fsdp shards weights, gradients and optimizer (FSDP2)"),
    "attn_implementation": "attention is chosen by the device; see docs/speed.md",
    "num_labels": "head=scalar has one label, head=pairwise two",
    "beta": "the losses have no beta; loss.centre_scores and loss.label_smoothing are there",
    "do_train": "train.py trains and evaluate.py evaluates",
    "seed_everything": "seed=42",
}
"""Names that have no setting of the same meaning, and what to write instead."""


def rewrite_aliases(words: Sequence[str], known: Iterable[str], command: str) -> list[str]:
    """The words of a command line with our names in them; each change is printed to stderr.

    ``known`` are the settings and groups of the ``command``: a name that is one of them keeps its meaning, and a
    setting that the command lacks is not brought in. Raises ``ValueError`` with an answer of `ANSWERS`.
    """
    known = set(known)
    found = []
    for word in words:
        name, equals, value = word.partition("=")
        name = name.removeprefix("--")
        if "input" in known and name in SCORED and "schedule" not in known:
            found.append(hydra_word(SCORED[name], value.strip("'\"")) if equals else f"{name}=true")
            continue
        target = SAME.get(name, "")
        if equals and name not in known and (target in known or target.startswith("hydra.")):
            print(f"{command}: {word} is read as {target}={value}", file=sys.stderr)
            word = f"{target}={value}"
        elif equals and name not in known and name in ANSWERS and "schedule" in known:
            raise ValueError(f"{name}: no such setting; {ANSWERS[name]}")
        found.append(word)
    found = [each for word in found for each in _loggers(word, words)]
    found = [_suites(word) for word in found]
    return _backbone(found) if "schedule" in known else found


def _loggers(word: str, words: Sequence[str]) -> list[str]:
    """``logger=[csv,wandb]``, or without brackets where that is no sweep, as one option with both kinds."""
    name, _, value = word.partition("=")
    if name != "logger" or "," not in value or (value[0] != "[" and {"-m", "--multirun"} & set(words)):
        return [word]
    kinds = value.strip("[]").replace(" ", "").split(",")
    return [f"logger={kinds[0]}", f"logger.kinds=[{','.join(kinds)}]"]


def _suites(word: str) -> str:
    """``suite=D+``, or a list of suites, as their names; options of the group stay."""
    name, _, value = word.partition("=")
    names = value.strip("[]").replace('"', "").replace("'", "").replace(" ", "").split(",")
    if name == "suite" and {each.replace("-", "_") for each in names} <= {*BENCHMARKS, "public"}:
        return f"benchmarks=[{','.join(each.replace('-', '_') for each in names)}]"
    if name != "suite" or not all(
        each.partition("_")[0][-1:] in ("+", "-") or each[-1:] in ("+", "-") for each in names
    ):
        return word
    return "suite.names=[" + ",".join(f'"{each}"' for each in names) + "]"


def _backbone(words: Sequence[str]) -> list[str]:
    """``model=<hub id or folder>`` and ``model.path=`` alone as ``model=pretrained``, with its schedule and rates."""
    names = {word.partition("=")[0] for word in words}
    found = []
    for word in words:
        name, equals, value = word.partition("=")
        path = value.strip("'\"")
        if equals and name == "model" and "," not in path and _is_backbone(path):
            found += ["model=pretrained", hydra_word("model.path", path)]
            continue
        if equals and name == "model.path" and path != "null" and not names & {"model", "experiment"}:
            found.append("model=pretrained")
        found.append(word)
    return found


def _is_backbone(path: str) -> bool:
    """Whether the value of ``model=`` is a hub id or a folder, and no option of the group."""
    return not (config_dir() / "model" / f"{path}.yaml").is_file() and ("/" in path or Path(path).is_dir())
