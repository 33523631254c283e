"""Formats of votes of one's own."""
