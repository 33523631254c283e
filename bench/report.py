"""Ratios as a table. In: what `bench.run` measured. Out: Markdown."""

from __future__ import annotations

from typing import Any

TITLES = {
    "vs_authors": "pointwise, the authors' loop",
    "vs_authors_no_checkpointing": "pointwise, the authors' loop without checkpointing",
    "vs_trl_default": "pointwise, TRL `RewardTrainer`, its defaults",
    "pairwise_vs_authors": "pairwise, the authors' loop",
    "m8_vs_arrival_b4": "8 candidates, batches of 4 in arrival order",
    "m8_vs_dynamic_cache": "8 candidates, `DynamicCache` prefix",
    "m20_vs_arrival_b4": "20 candidates, batches of 4 in arrival order",
    "m8_swapped_vs_arrival_b4": "8 candidates shown first, batches of 4 in arrival order",
    "train_vs_trl_batch_1": "pointwise, TRL `RewardTrainer`, batches of 1",
    "pairwise_vs_authors_no_checkpointing": "pairwise, the authors' loop without checkpointing",
    "score_m8_vs_sorted_b4": "8 candidates, batches of 4 sorted by length",
    "score_m20_vs_dynamic_cache": "20 candidates, `DynamicCache` prefix",
    "score_m8_swapped_vs_dynamic_cache": "8 candidates shown first, `DynamicCache` prefix",
}
PARTS = {"train": "Training", "score": "Scoring", "further": "Further peers"}


def to_markdown(measured: dict[str, Any]) -> str:
    """One table a part: median ratio and, in brackets, the least and the greatest of the rounds."""
    sizes, found = measured["sizes"], measured["versions"]
    lines = [
        "# Speed on CPU",
        "",
        f"Peer time over our time for the same work: above 1 we are faster. Median of {sizes['rounds']} rounds in "
        "which all contestants alternate, least and greatest in brackets; "
        f"{measured['clock']}, {measured['precision']}.",
        f"{sizes['pairs']} pairs and {sizes['queries']} queries, responses of {sizes['response_tokens']} tokens in the "
        f"median (log-normal, {sizes['log_sd_of_response_tokens']}), a Qwen3 of "
        f"{sizes['model']['layers']} layers and hidden size {sizes['model']['hidden']}.",
    ]
    for part, title in PARTS.items():
        lines += ["", f"| {title} against | without pruning | last layer pruned |", "|---|---|---|"]
        for name, entry in measured[part].items():
            lines.append(f"| {TITLES[name]} | {_cell(entry['without_pruning'])} | {_cell(entry['with_pruning'])} |")
    about = ", ".join(f"{name} {version}" for name, version in found.items())
    seeds = ", ".join(map(str, measured["seeds"]))
    return "\n".join([*lines, "", f"{about}; commit {measured['commit']}; seed {seeds}.", ""])


def _cell(entry: dict[str, Any]) -> str:
    return f"{entry['median']:.2f} ({min(entry['rounds']):.2f} to {max(entry['rounds']):.2f})"
