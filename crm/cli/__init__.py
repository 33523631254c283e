"""The commands: ``train``, ``evaluate``, ``leaderboard``, ``prepare``, ``bank``, ``best_of_n``, ``app`` and
``serve``."""

from crm.cli.commands import app, bank, best_of_n, evaluate, leaderboard, prepare, serve, train

__all__ = ["app", "bank", "best_of_n", "evaluate", "leaderboard", "prepare", "serve", "train"]
