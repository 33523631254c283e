"""Criteria of a preference: extracted, filtered, read off a text, taken from a profile, grouped into topics.

- `counting`: what can be counted in a response: list items, hedges, contractions
- `extraction`: an LLM names the criteria behind a vote
- `profiles`: criteria from what a user asked before
- `prompts`: the prompts of the annotator
- `subjective`: an LLM keeps the questions of taste
- `topics`: groups of prompts, with names
- `trait_wordings`: wishes about traits in words, some for training and some never
- `traits`: countable traits, such as length
"""

__all__ = ["counting", "extraction", "profiles", "prompts", "subjective", "topics", "trait_wordings", "traits"]
