"""Picking between answers instead of typing criteria: what to ask next, what somebody cares about, their ranking.

- `choice_model`: how people choose: left, same or right, and why
- `contrasts`: what criteria and their opposites say of every response of a bank
- `from_votes`: the criteria that votes show
- `in_words`: the criteria that matter, in words and with weights
- `pool`: criteria that people may have, each with its opposite
- `session`: picks so far; the next pair, the weights, the ranking, the end
"""

__all__ = ["choice_model", "contrasts", "from_votes", "in_words", "pool", "session"]
