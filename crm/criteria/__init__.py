"""Criteria of a preference: written by a language model, counted in the text, taken from a profile; and their topics.

- `counting`: measurable traits of a response, such as list items, hedges, contractions
- `extraction`: a language model keeps the matters of taste and writes the criteria behind a vote
- `profiles`: criteria from what a user asked before
- `prompts`: what the language model is asked
- `schemas`: what it must reply
- `topics`: groups of texts, with names
- `trait_wordings`: criteria about traits in words, some for training and some never
- `traits`: a first guess at criteria from measurable traits
"""

__all__ = [
    "counting",
    "extraction",
    "profiles",
    "prompts",
    "schemas",
    "topics",
    "trait_wordings",
    "traits",
]
