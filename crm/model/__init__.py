"""Text to a preference logit.

- `attention`: tree attention, frozen layers
- `backbone`: pretrained or made: a transformers decoder and its tokenizer
- `batching`: comparisons to batches, padded or packed
- `config`: settings of model, head, prompt, batching
- `encoding`: comparisons to token ids
- `export`: a folder that transformers and this project load
- `heads`: states to scores
- `late_reading`: vectors of texts under a late head, whose products are scores
- `manifest`: digests of an exported folder
- `reward_model`: backbone and head, logits to a loss
"""

__all__ = [
    "attention",
    "backbone",
    "batching",
    "config",
    "encoding",
    "export",
    "heads",
    "late_reading",
    "manifest",
    "reward_model",
]
