"""Backbones: a pretrained or new transformers decoder with float32 weights, and its tokenizer."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.utils.tqdm import disable_progress_bars, enable_progress_bars
from safetensors import SafetensorError
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3Model,
)
from transformers.utils import logging as bars

from crm.model.config import ModelConfig
from crm.model.encoding import TURN_END, TURN_START
from crm.model.folders import HINTS, model_folder

PAD, EOS = "<|pad|>", "<|endoftext|>"


def show_loading(wanted: bool) -> None:
    """Show progress bars of transformers and the hub where they are wanted and there is a terminal."""
    if wanted and sys.stderr.isatty():
        bars.enable_progress_bar()  # type: ignore[no-untyped-call]
        enable_progress_bars()
    else:
        bars.disable_progress_bar()  # type: ignore[no-untyped-call]
        disable_progress_bars()


def load_backbone(path: str, revision: str | None, weights: bool = True) -> tuple[PreTrainedModel, Any]:
    """Weights as float32, the master precision, whatever precision the files have, and the tokenizer.

    Without ``weights`` the model is on the meta device: for a process that gets its share of them from another. Raises
    ``ValueError`` for files that are missing or do not fit, and a pad token that also ends a text or a turn.
    """
    folder = str(model_folder(path, revision))
    try:
        if weights:
            model, tokenizer = from_folder(AutoModel, folder)
            model = text_part(model)
        else:
            model = empty_backbone(folder, None)
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"model.path={path}: cannot be loaded ({error}); {HINTS['model']}") from None
    if tokenizer.pad_token_id is None or tokenizer.pad_token in (tokenizer.eos_token, TURN_END):
        raise ValueError(
            f"model.path={path}: its pad token is {tokenizer.pad_token!r} and its end of text {tokenizer.eos_token!r}; "
            f"pooling would read the wrong token. Set an unused token, not {TURN_END}, as pad_token in its tokenizer "
            "files"
        )
    tokenizer.padding_side = "right"
    model.config.pad_token_id = tokenizer.pad_token_id
    model.config.use_cache = False
    return model, tokenizer


def from_folder(auto: Any, folder: str | Path) -> tuple[Any, Any]:
    """A model of the class ``auto`` of transformers, float32, and its tokenizer; no code of the folder is run.

    Raises ``ValueError``, in a sentence without the folder, for weights that are missing, broken or do not fit.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        model, info = auto.from_pretrained(
            folder, dtype=torch.float32, use_safetensors=True, output_loading_info=True, trust_remote_code=False
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ValueError(str(error).strip().partition("\n")[0]) from None
    unfit = sorted(str(name) for key in ("missing_keys", "mismatched_keys") for name in info[key])
    if unfit:
        raise ValueError(f"no fitting weights for {', '.join(unfit[:3])}")
    return model, tokenizer


def empty_backbone(path: str, revision: str | None) -> PreTrainedModel:
    """The backbone of a folder or hub id on the meta device: its shapes, without weights."""
    config = AutoConfig.from_pretrained(path, revision=revision, trust_remote_code=False)
    with torch.device("meta"):
        return text_part(AutoModel.from_config(config, dtype=torch.float32))  # type: ignore[no-untyped-call]


def text_part(model: Any) -> PreTrainedModel:
    """The decoder of a model that reads pictures too (Qwen3.5); any other model is its own."""
    decoder: PreTrainedModel = getattr(model, "language_model", model)
    return decoder


def prepare_layers(model: PreTrainedModel, settings: ModelConfig) -> Any:
    """The backbone with the layers that are used, of them the lowest frozen, and LoRA adapters where there are any."""
    keep_lowest_layers(model, settings.use_layers)
    freeze_lower_layers(model, settings.freeze_layers)
    return add_lora(model, settings.lora_rank, settings.lora_alpha, settings.freeze_layers)


def keep_lowest_layers(model: PreTrainedModel, layers: int | None) -> None:
    """Drop all but the lowest ``layers`` transformer layers; the final norm stays. None keeps all.

    Raises ``ValueError`` where there are fewer.
    """
    blocks, config = model.layers, model.config
    assert isinstance(blocks, nn.ModuleList)
    if layers is None:
        return
    if not 1 <= layers <= len(blocks):
        raise ValueError(f"model.use_layers={layers}: the backbone has {len(blocks)} layers; use 1 to {len(blocks)}")
    model.layers = blocks[:layers]
    config.num_hidden_layers = layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]


def freeze_lower_layers(model: PreTrainedModel, layers: int) -> None:
    """Stop training the embedding and the lowest ``layers`` transformer layers (0: none), of all of them the norm too.

    Raises ``ValueError`` where there are fewer.
    """
    blocks = model.layers
    assert isinstance(blocks, nn.ModuleList)
    if layers > len(blocks):
        raise ValueError(f"model.freeze_layers={layers}: the backbone has {len(blocks)} layers")
    frozen = [model] if layers == len(blocks) else [model.get_input_embeddings(), *blocks[:layers]]
    for module in frozen if layers else ():
        module.requires_grad_(False)


def add_lora(model: PreTrainedModel, rank: int, alpha: int, above: int = 0) -> Any:
    """Wrap the linear layers of the backbone in LoRA adapters of ``rank`` (peft; 0: none); only they are trained.

    The lowest ``above`` transformer layers get none: an adapter there would train what is to be frozen.
    """
    if not rank:
        return model
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise ValueError(f"model.lora_rank={rank} needs peft: pip install 'crm-leaderboard[lora]'") from None
    total = len(model.layers)  # type: ignore[arg-type]
    if above >= total:
        raise ValueError(f"model.freeze_layers={above} with model.lora_rank={rank}: no layer is left for adapters")
    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules="all-linear")
    if above:
        config.layers_pattern, config.layers_to_transform = "layers", list(range(above, total))
    return get_peft_model(model, config)


def without_lora_wrapper(model: Any) -> Any:
    """The transformers backbone whose layers hold the adapters; a backbone without adapters is its own."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def merge_lora(model: Any) -> PreTrainedModel:
    """The plain backbone, adapters merged into its weights; a backbone without adapters comes back as it is."""
    merged = model.merge_and_unload() if hasattr(model, "merge_and_unload") else model
    assert isinstance(merged, PreTrainedModel)
    return merged


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE over ``texts``: any text a user types can be encoded, nothing is unknown. Deterministic."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[PAD, EOS, TURN_START, TURN_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        additional_special_tokens=[TURN_START, TURN_END],
        padding_side="right",
    )


def build_tiny_backbone(
    vocab_size: int, hidden_size: int, layers: int, heads: int, max_length: int, pad_id: int, seed: int
) -> PreTrainedModel:
    """A randomly initialised Qwen3, the paper's architecture at the size of a test, drawn from ``seed`` alone.

    Every layer starts as the identity: what it adds to the residual stream is zero until training moves it.
    """
    config = Qwen3Config(
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=hidden_size // heads,
        intermediate_size=3 * hidden_size,
        max_position_embeddings=max_length,
        pad_token_id=pad_id,
        initializer_range=hidden_size**-0.5,
        use_cache=False,
    )
    # About twice as fast a step as with SDPA, on CPU in bfloat16 at this size (measured).
    config._attn_implementation = "eager"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3Model(config)
    for name, parameter in model.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            nn.init.zeros_(parameter)
    return model
