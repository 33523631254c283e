"""Picking between answers instead of typing: how many picks until a ranking is a person's own."""
