"""Criteria of a preference: extracted, filtered, read off a text, taken from a profile, grouped into topics.

- `extraction`: an LLM names the criteria behind a vote
- `profiles`: criteria from what a user asked before
- `prompts`: the prompts of the annotator
- `subjective`: an LLM keeps the questions of taste
- `topics`: groups of prompts, with names
- `traits`: countable traits, such as length
"""

__all__ = ["extraction", "profiles", "prompts", "subjective", "topics", "traits"]
