"""Public sets of votes; what they share is in `pairs` and `rated`.

- `banks`: published responses of many LLMs to the same queries
- `concise_verbose`: two system prompts, opposite wishes
- `dsp`: domain-specific preferences
- `personalized_rewardbench`: rubrics of real users
- `rated`: pairs made of rated responses
- `rewardbench`: RewardBench
- `summeval`: summaries rated in four aspects
- `topicalchat`: chats rated in several aspects
"""

__all__ = [
    "banks",
    "concise_verbose",
    "dsp",
    "personalized_rewardbench",
    "rated",
    "rewardbench",
    "summeval",
    "topicalchat",
]
