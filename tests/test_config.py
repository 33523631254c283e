"""Every option of every group composes, the paper's recipe has the paper's numbers, impossible settings are errors."""

import re
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from crm.config import compose, option_names

NEEDED = {"evaluate": ["judge=length"], "leaderboard": ["judge=length"], "best_of_n": ["judge=length"]}
TOGETHER = {
    "train": (
        ("noise", "direction", "optimizer", "schedule", "logger", "batching", "debug"),
        *(("model", "loss", "trainer"), ("head",), ("experiment",)),
    ),
    "evaluate": (("judge",),),
    "leaderboard": (("bank",),),
    "prepare": (("data",),),
}
"""Groups of a command that do not depend on each other: the first options of all, then the second of all, ..."""
NEEDS = {
    "judge=llm": ["judge.base_url=http://x/v1", "judge.model=y"],
    "judge=crm": ["checkpoint=x"],
    "judge=reward_model": ["judge.path=x"],
    "bank=folder": ["bank.path=x"],
    "trainer=fsdp": ["optimizer=paper"],
    "model=pretrained": ["model.path=a/b"],
    "experiment=paper": ["data=simulation"],
    "experiment=ablation_real": ["data=simulation"],
    "experiment=qwen3_4b_8gpu": ["data=simulation"],
    "experiment=qwen3_0_6b_1gpu": ["data=simulation"],
    "experiment=lora_24gb": ["data=simulation"],
}
ELSEWHERE = {"data=file", "data=checkpoint", "data=mixture"}
"""Defaults that wait for a word of the user's."""


def settings(entry: str, *overrides: str) -> Any:
    needed = [] if any(word.startswith("judge=") for word in overrides) else NEEDED.get(entry, [])
    return compose(entry, [*needed, *overrides], None if entry in ("prepare", "bank") else Path("run"))


@pytest.mark.parametrize(("entry", "groups"), [(entry, groups) for entry, sets in TOGETHER.items() for groups in sets])
def test_every_option_composes(entry: str, groups: tuple[str, ...]) -> None:
    for options in zip_longest(*map(option_names, groups)):
        chosen = [f"{group}={option}" for group, option in zip(groups, options, strict=True) if option]
        chosen = [word for word in chosen if word not in ELSEWHERE]
        extra = [more for word in chosen for more in NEEDS.get(word, [])]
        extra += ["data=simulation"] if "model" in groups and "model=tiny" not in chosen else []
        extra += ["fetch=dsp"] if entry == "prepare" else []
        config = settings(entry, *chosen, *extra)
        for group, _, option in (word.partition("=") for word in chosen):
            part = getattr(config, group, None)
            if group in ("data", "loss", "judge", "bank") or (group == "head" and option != "auto"):
                assert part.name == option
            if hasattr(part, "kind") and option != "auto":
                assert part.kind == option


def test_paper_experiments_have_the_papers_numbers() -> None:
    for size, loss in (("0_6b", "cls"), ("1_7b", "ranking"), ("4b", "cls"), ("8b", "ranking")):
        config = settings("train", "experiment=paper", "data=simulation", f"model=qwen3_{size}", f"loss={loss}")
        assert config.model.path == f"Qwen/Qwen3-{size.replace('_', '.').upper()}"
        assert (config.loss.name, config.head.name) == (loss, {"cls": "pairwise", "ranking": "scalar"}[loss])
    schedule, optimizer = config.schedule, config.optimizer
    assert (schedule.epochs, schedule.comparisons_per_step) == (3, 32)
    assert (schedule.validate_every, schedule.patience, schedule.max_steps) == (50, 3, 0)
    assert (config.trainer.devices, config.trainer.precision, config.direction.kind) == ("auto", "auto", "random")
    assert (optimizer.lr, optimizer.warmup_fraction, optimizer.weight_decay) == (1e-5, 0.03, 0.0)
    assert (config.model.max_length, config.seed, config.loss.ties) == (2048, 42, "drop")
    assert config.model.gradient_checkpointing == "auto"  # on in the paper; it changes no number
    assert [schedule.share(devices) * devices for devices in (1, 2, 4, 8, 16)] == [32] * 5
    with pytest.raises(ValueError, match=r"comparisons_per_step=32: expected a multiple of the 3 devices, as .*=33"):
        schedule.share(3)


def test_a_head_and_a_loss_belong_together() -> None:
    chosen = [settings("train", word) for word in ("loss=cls", "loss=ranking", "head=late", "head=pairwise_span")]
    pairs = [("cls", "pairwise"), ("ranking", "scalar"), ("ranking", "late"), ("cls", "pairwise_span")]
    assert [(config.loss.name, config.head.name) for config in chosen] == pairs
    assert (chosen[2].head.kept, chosen[2].head.width) == (16, 64)


def test_a_pretrained_model_has_its_own_sizes_and_a_lower_learning_rate() -> None:
    pretrained, tiny = settings("train", "model=qwen3_4b", "data=simulation"), settings("train")
    for name in ("vocab_size", "hidden_size", "layers", "heads"):
        assert getattr(pretrained.model, name) is None and getattr(tiny.model, name)
    assert (pretrained.optimizer.name, pretrained.optimizer.lr) == ("adamw", 1e-5)
    assert (tiny.optimizer.name, tiny.optimizer.lr) == ("muon", 2e-3)
    assert settings("train", "optimizer=paper").optimizer.name == "adamw"


@pytest.mark.parametrize("word", ["criteria=none", "experiment=without_criteria"])
def test_the_blind_control_trains_each_vote_once_with_its_own_winner(word: str) -> None:
    """In both directions the same two responses under the same criterion would have opposite labels."""
    config = settings("train", word)
    assert (config.criteria, config.direction.kind, config.noise.kind) == ("none", "original", "none")
    assert settings("train").direction.kind == "both"
    for kind in ("both", "random", "reverse"):
        with pytest.raises(ValueError, match=f"direction.kind='{kind}': expected original with criteria=none"):
            settings("train", word, f"direction={kind}")


@pytest.mark.parametrize("suite", ["'swap'", "['D+', 'swap']"])
def test_a_suite_that_is_none_is_named(suite: str) -> None:
    """By the settings, too: the command line looks for the nearest."""
    with pytest.raises(ValueError, match=rf"suite={re.escape(suite)}: expected standard, noised, all, names in a list"):
        settings("evaluate", f"suite={suite}")


@pytest.mark.parametrize("name", ["fast", "overfit"])
def test_a_debug_run_fits_a_node_of_eight(name: str, tmp_path: Path) -> None:
    compose("train", ["experiment=qwen3_4b_8gpu", "data=simulation", f"debug={name}"], tmp_path).schedule.share(8)
