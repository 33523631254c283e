"""Every file of conf/ composes, the paper's recipe has the paper's numbers, and impossible settings are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crm.config import compose, config_dir, nearest, schemas, setting_names
from crm.data.catalogue import OWN

CONF = config_dir()
GROUPS = {
    "train": (
        *("model", "head", "prompt", "loss", "noise", "direction", "data"),
        *("optimizer", "schedule", "trainer", "batching", "logger", "experiment", "debug"),
    ),
    "evaluate": ("judge", "suite", "data", "batching"),
    "leaderboard": ("bank", "batching"),
    "prepare": ("data", "annotator", "fetch"),
}
NEEDED = {"evaluate": ["checkpoint=somewhere"], "leaderboard": ["checkpoint=somewhere"], "train": []}
NEEDED |= {"best_of_n": ["judge=length"], "prepare": [], "bank": ["out=folder"]}
OPTIONS = [
    (entry, group, file.stem)
    for entry, groups in GROUPS.items()
    for group in groups
    for file in sorted((CONF / group).glob("*.yaml"))
]


def settings(entry: str, *overrides: str) -> Any:
    return compose(entry, [*NEEDED[entry], *overrides], None if entry in ("prepare", "bank") else Path("run"))


def test_every_group_is_tried() -> None:
    assert {path.name for path in CONF.iterdir() if path.is_dir()} - {"hydra"} == {group for _, group, _ in OPTIONS}
    assert len(OPTIONS) > 50


@pytest.mark.parametrize(("entry", "group", "option"), OPTIONS)
def test_every_option_composes(entry: str, group: str, option: str) -> None:
    extra = ["data.path=somewhere"] if group == "data" and (option in OWN or option == "dataset") else []
    extra += [f"{group}.base_url=http://x/v1", f"{group}.model=y"] if option in ("openai", "llm") else []
    if option == "required":
        with pytest.raises(ValueError, match="data: a pretrained model"):
            settings(entry, "data=required")
        return
    if (group == "model" and option != "tiny") or (option in ("paper", "ablation_real") and group == "experiment"):
        extra += ["data=simulation", *(["model.path=a/b"] if option == "pretrained" else [])]
    extra += ["judge.path=somewhere"] if option == "reward_model" else []
    if (group, option) in (("data", "checkpoint"), ("bank", "own"), ("data", "file")):
        return  # tests/test_own_data.py, tests/data/test_recognise.py
    extra += ["optimizer=paper"] if (group, option) == ("trainer", "fsdp") else []
    if entry == "prepare" and option in ("dataset", "mixture"):
        extra += ["data.sources=[dsp]"] if option == "mixture" else []
        with pytest.raises(ValueError, match=rf"data\.name='{option}'"):
            settings(entry, f"data={option}", *extra)
        return
    extra += ["data.sources=[dsp]"] if option == "mixture" else []
    extra += ["bank.path=folder"] if (group, option) == ("bank", "folder") else []
    if group == "candidates" and option in ("file", "endpoint", "personalized_rewardbench"):
        extra += ["candidates.path=x", "endpoint.base_url=http://x/v1", "endpoint.model=y", "endpoint.temperature=1"]
    extra += ["gold.trait=Length"] if option == "trait" else ["gold.judge=length"] if group == "gold" else []
    config = settings(entry, f"{group}={option}", *extra)
    chosen = getattr(config, group, None)
    if hasattr(chosen, "name") and group not in ("optimizer", "logger"):
        assert chosen.name == option if (group, option) != ("head", "auto") else chosen.name in ("pairwise", "scalar")
    if group == "prompt":
        assert chosen.order == option
    if hasattr(chosen, "kind"):
        assert chosen.kind == option


@pytest.mark.parametrize("option", ["alpacaeval", "justeval", "llmbar"])
def test_a_bank_is_fetched_by_name_and_no_other_set(option: str) -> None:
    if option == "llmbar":
        with pytest.raises(ValueError, match=r"fetch\.name='llmbar': expected alpacaeval or justeval"):
            settings("bank", f"fetch={option}")
    else:
        assert settings("bank", f"fetch={option}").fetch.name == option


@pytest.mark.parametrize("loss", ["cls", "ranking"])
@pytest.mark.parametrize("size", ["0_6b", "1_7b", "4b", "8b"])
def test_paper_experiments_have_the_papers_numbers(size: str, loss: str) -> None:
    config = settings("train", "experiment=paper", "data=simulation", f"model=qwen3_{size}", f"loss={loss}")
    assert config.model.path == f"Qwen/Qwen3-{size.replace('_', '.').upper()}"
    assert (config.loss.name, config.head.name) == (loss, {"cls": "pairwise", "ranking": "scalar"}[loss])
    schedule, optimizer = config.schedule, config.optimizer
    assert (schedule.epochs, schedule.comparisons_per_step) == (3, 32)
    assert (schedule.validate_every, schedule.patience, schedule.max_steps) == (50, 3, 0)
    assert (config.trainer.devices, config.trainer.precision, config.direction.kind) == ("auto", "auto", "random")
    assert (optimizer.lr, optimizer.warmup_fraction, optimizer.weight_decay) == (1e-5, 0.03, 0.0)
    assert (config.model.max_length, config.seed) == (2048, 42)
    # On in the paper; it costs time where memory is plenty, and changes no number.
    assert config.model.gradient_checkpointing == "auto"
    assert config.loss.ties == "drop"


@pytest.mark.parametrize("trainer", ["auto", "ddp", "fsdp", "gpu", "cpu"])
@pytest.mark.parametrize("devices", [1, 2, 4, 8, 16])
def test_the_papers_step_is_32_comparisons_on_any_devices(devices: int, trainer: str) -> None:
    config = settings("train", "experiment=paper", "data=simulation", f"trainer={trainer}")
    assert config.schedule.share(devices) * devices == 32


def test_a_step_that_the_devices_cannot_share_is_refused_with_one_they_can() -> None:
    with pytest.raises(ValueError, match=r"comparisons_per_step=32: expected a multiple of the 3 devices, as .*=33"):
        settings("train").schedule.__class__("x", comparisons_per_step=32).share(3)


def test_a_pretrained_model_wants_its_data_named() -> None:
    for words in (["model=qwen3_4b", "loss=cls"], ["experiment=paper"], ["model=pretrained", "model.path=a/b"]):
        with pytest.raises(ValueError, match=r"data: a pretrained model .*data=pairs\.jsonl .*data=simulation"):
            settings("train", *words)
    assert settings("train", "model=qwen3_4b", "data=simulation").data.name == "simulation"


def test_a_head_and_a_loss_belong_together() -> None:
    chosen = [settings("train", word) for word in ("loss=cls", "loss=ranking", "head=late", "head=pairwise_span")]
    pairs = [("cls", "pairwise"), ("ranking", "scalar"), ("ranking", "late"), ("cls", "pairwise_span")]
    assert [(config.loss.name, config.head.name) for config in chosen] == pairs
    for words in (["loss=cls", "head=scalar"], ["loss=ranking", "head=pairwise"], ["loss=cls", "head=late"]):
        with pytest.raises(ValueError, match=r"write loss=\w+ head=\w+, or loss=\w+ head=\w+"):
            settings("train", *words)


def test_other_names_of_a_precision_and_of_all_devices() -> None:
    words = ("trainer.precision=bf16", "trainer.accelerator=cuda", "trainer.devices=-1", "trainer.nodes=2")
    trainer = settings("train", *words).trainer
    assert (trainer.precision, trainer.accelerator, trainer.devices, trainer.nodes) == ("bf16-mixed", "gpu", "auto", 2)


def test_sizes_belong_to_a_model_from_scratch() -> None:
    sizes = ("vocab_size", "hidden_size", "layers", "heads")
    pretrained, tiny = (settings("train", *words).model for words in (["model=qwen3_4b", "data=simulation"], []))
    assert [getattr(pretrained, name) for name in sizes] == [None] * 4
    assert all(getattr(tiny, name) for name in sizes)


@pytest.mark.parametrize("model", sorted(file.stem for file in (CONF / "model").glob("*.yaml")))
def test_a_pretrained_model_is_not_trained_at_the_rates_of_one_from_scratch(model: str) -> None:
    more = [] if model == "tiny" else ["data=simulation", *(["model.path=a/b"] if model == "pretrained" else [])]
    chosen = settings("train", f"model={model}", *more).optimizer
    assert (chosen.name, chosen.lr) == (("muon", 2e-3) if model == "tiny" else ("adamw", 1e-5))
    other = "paper" if model == "tiny" else "from_scratch"
    assert settings("train", f"optimizer={other}", f"model={model}", *more).optimizer.name != chosen.name


def test_without_criteria_is_the_blind_control() -> None:
    config = settings("train", "experiment=without_criteria")
    assert (config.criteria, config.direction.kind, config.noise.kind) == ("none", "original", "none")


REFUSED = [
    ("train", ["schedule.epochs=0"], "schedule.epochs=0"),
    ("train", ["optimizer.lr=-1"], "optimizer.lr=-1"),
    ("train", ["optimizer.lr=nan"], "optimizer.lr=nan: expected a number above 0"),
    ("train", ["optimizer.lr=inf"], "optimizer.lr=inf: expected a number above 0"),
    ("train", ["optimizer.beta2=1"], "optimizer.beta2=1.0: expected a number in [0, 1)"),
    ("train", ["optimizer.matrix_lr=0"], "optimizer.matrix_lr=0"),
    ("train", ["optimizer.name=sgd"], "optimizer.name='sgd'"),
    ("train", ["prompt.order=last"], "prompt.order='last'"),
    ("train", ["model.heads=0"], "model.heads=0"),
    ("train", ["model.hidden_size=10", "model.heads=3"], "model.hidden_size=10"),
    ("train", ["model.lora_rank=4"], "model.lora_rank=4"),
    ("train", ["model.kept_states=ram"], "model.kept_states='ram'"),
    ("train", ["model.kept_states_gb=-1"], "model.kept_states_gb=-1"),
    ("train", ["model.kept_states_gb=inf"], "model.kept_states_gb=inf"),
    ("train", ["model.kept_states_dtype=int8"], "model.kept_states_dtype='int8'"),
    ("train", ["trainer=fsdp", "model.freeze_layers=1"], "model.kept_states='memory'"),
    ("train", ["loss.centre_scores=0.1", "loss=cls"], "head=pairwise"),
    ("train", ["loss.silence=0.1", "head=scalar", "loss=ranking"], "loss.silence=0.1: expected 0, but with head=late"),
    ("train", ["loss.silence=0.1", "head=scalar"], "loss.silence=0.1: expected 0"),
    ("train", ["loss.silence=-1", "head=late", "loss=ranking"], "loss.silence=-1"),
    (
        "train",
        ["head=late", "prompt=criteria_last"],
        "prompt.order='criteria_last': expected criteria_first",
    ),
    ("train", ["head=late", "head.kept=0"], "head.kept=0: expected 1 or more"),
    ("train", ["head=late", "head.width=-4"], "head.width=-4: expected 1 or more"),
    ("train", ["head=scalar", "head.kept=4"], "head.kept=4: expected null with head=scalar"),
    ("train", ["head.width=4"], "head.width=4: expected null with head=auto"),
    ("train", ["model.use_layers=0"], "model.use_layers=0: expected 1 or more, or null"),
    ("train", ["criteria=none", "noise=replace"], "noise.kind='replace'"),
    ("train", ["trainer.strategy=horovod"], "trainer.strategy='horovod'"),
    ("train", ["model.vocab_size=299"], "expected 300 or more: 256 bytes and the controls"),
    ("train", ["schedule.save_every=-1"], "expected 0 (save none) or more optimizer steps"),
    ("train", ["trainer.precision=16"], "trainer.precision"),
    ("train", ["data=records"], "data.path"),
    ("train", ["data.validation_fraction=0.7"], "data.validation_fraction"),
    ("train", ["+schedule.epoch=3"], "schedule.epoch: no such setting; did you mean schedule.epochs?"),
    ("train", ["+sed=3"], "sed: no such setting; did you mean seed?"),
    ("evaluate", ["batch_size=0"], "batch_size=0"),
    ("evaluate", ["devices=0"], "devices=0"),
    ("evaluate", ["suite.noises=[swap]"], "suite.noises='swap': expected one of none, "),
    ("leaderboard", ["criteria=['  ']"], "criteria"),
    ("leaderboard", ["bank.queries_per_topic=0"], "bank.queries_per_topic=0"),
]


@pytest.mark.parametrize(("entry", "overrides", "said"), REFUSED, ids=lambda value: str(value)[:40])
def test_impossible_settings_are_refused_by_name(entry: str, overrides: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=r"expected|no such setting|with head=") as refused:
        settings(entry, *overrides)
    assert said in str(refused.value)


def test_a_late_head_has_its_sizes_however_it_is_chosen() -> None:
    for chosen in ("head=late", "head.name=late"):
        head = settings("train", chosen, "loss=ranking").head
        assert (head.kept, head.width) == (16, 64)
    head = settings("train", "head=late", "head.kept=4", "head.width=8").head
    assert (head.kept, head.width) == (4, 8)


def test_centred_scores_are_fine_where_there_are_scores() -> None:
    assert settings("train", "loss.centre_scores=0.1", "head=pairwise_span").loss.centre_scores == 0.1


def test_criteria_may_hold_commas_and_quotes() -> None:
    config = settings("leaderboard", """criteria=["be brief, please","say \\"why\\"",'it\\'s kind']""")
    assert config.criteria == ["be brief, please", 'say "why"', "it's kind"]


def test_nearest_names_only_what_is_near() -> None:
    names = setting_names(schemas()["train"])
    assert nearest("schedule.epoch", names) == "; did you mean schedule.epochs?"
    assert nearest("zzzzzz", names) == ""
    assert nearest("rank", names) == "", "half of a name is no slip of the hand"
    assert nearest("max_word", names) == "; did you mean data.max_words?"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["trainer.precision=bf16-true"], r"trainer\.precision='bf16-true': .*use bf16-mixed"),
        (["trainer=cpu", "trainer.liger=true"], r"trainer\.liger=True: expected false with trainer\.accelerator=cpu"),
        (["trainer=gpu", "trainer.liger=true", "trainer.compile=true"], r"trainer\.liger=True: expected false with"),
        (["model.gradient_checkpointing=sometimes"], r"model\.gradient_checkpointing='sometimes': expected auto, true"),
        (["model.gradient_checkpointing=1"], r"model\.gradient_checkpointing=1: expected auto, true or false"),
    ],
)
def test_settings_of_speed_that_cannot_be_are_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        settings("train", *overrides)


def test_gradient_checkpointing_is_auto_or_as_told() -> None:
    assert settings("train").model.gradient_checkpointing == "auto"
    assert settings("train", "model.gradient_checkpointing=true").model.gradient_checkpointing is True
    assert settings("train", "model.gradient_checkpointing=false").model.gradient_checkpointing is False
