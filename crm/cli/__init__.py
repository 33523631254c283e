"""The commands: ``train``, ``evaluate``, ``leaderboard``, ``prepare``, ``bank``, ``app`` and ``serve``."""

from crm.cli.commands import app, bank, evaluate, leaderboard, prepare, serve, train

__all__ = ["app", "bank", "evaluate", "leaderboard", "prepare", "serve", "train"]
