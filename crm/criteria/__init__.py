"""Criteria of a preference: written by a language model or counted in the text; and their topics."""
