"""The paper's published numbers (arXiv 2508.09463): what is shown beside ours, and what compares."""

from __future__ import annotations

from collections.abc import Mapping

VOTES = 9_714
"""To train and validate on."""
CRM_4B = "97.27 % (CRM-4B)"
BLIND = "70 to 80 % at most"
TAU = "-0.83"
WITHOUT_NOISE = "about 4 points lower (D-_replace)"
LOSS_AND_SIZE: Mapping[tuple[str, str], str] = {
    ("cls", "4B"): "95.6 % (topics: T)",
    ("ranking", "4B"): "71.1 % (topics: T)",
}
TITLES: Mapping[str, str] = {
    "1_judges": "Table 1. Judges and suites",
    "2_loss_and_size": "Table 2. Loss and size of the backbone",
    "3_noise": "Table 3. Noise in training and in the suites",
    "4_direction": "Table 4. Direction in training and in the suites",
    "5_contradictory": "Table 5. Leaderboards of users who contradict each other",
}
THEIRS = "Theirs: votes of LMArena, criteria written for each side by GPT-4o, Qwen3 of 0.6B to 8B."
NUMBERS: Mapping[str, str] = {
    "1_judges": "Paper: preference recognition 97.27 % (CRM-4B) and 91.96 % (GPT-4.1); without criteria a ceiling of "
    "70 to 80 %.",
    "2_loss_and_size": "Paper: topic generalization 95.6 % (cls, 4B) and 71.1 % (ranking, 4B); 51.8 % at 0.6B, on "
    "criterion generalization (another reading says topic).",
    "3_noise": "Paper: without noise in training about 4 points lower on D-_replace.",
    "4_direction": "Paper: no single number to put here.",
    "5_contradictory": "Paper: Kendall's tau -0.83 between `prefers detailed` and `prefers concise`.",
}
COMPARABLE: Mapping[str, str] = {
    "1_judges": "Comparable: the order of judges, and that a judge without criteria has acc(+) + acc(-) = 1. Not "
    "comparable: the levels; the paper's accuracy is over a set that we do not have, and its ceiling without criteria "
    "depends on how far its users agree.",
    "2_loss_and_size": "Comparable: which loss gains more from size. Not comparable: the levels and the sizes{start}.",
    "3_noise": "Comparable: the sign of what noise in training does on each noised suite. Not comparable: the points; "
    "our `remove` and `replace` leave a user a majority of own criteria, and do nothing to a single one.",
    "4_direction": "Comparable: the gap between + and - under each training direction. `both` is ours alone: every "
    "vote from both sides in one batch.",
    "5_contradictory": "Comparable: the sign, and our tau with that of the truth. Not comparable: -0.83 itself; "
    "the paper ranks LLMs on DailyBench, which is not released, and a truth is known for simulated LLMs only.",
}


def notes(key: str, ours: str, joint_after_scalar: bool) -> tuple[str, str]:
    """Two lines for under a table: the paper's numbers, and what is comparable; ``ours`` says what we measured on."""
    after = "; joint heads (cls) start from the ranking model of the same size, so that they have seen more"
    comparable = COMPARABLE[key].format(start=after if joint_after_scalar else "")
    return NUMBERS[key], f"{comparable} {THEIRS} Ours: {ours}."
