"""Scores for a file of responses: ``score.py``."""
