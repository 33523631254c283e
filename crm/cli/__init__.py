"""The commands: ``train``, ``evaluate``, ``leaderboard``, ``prepare``, ``bank`` and ``app``."""

from crm.cli.commands import app, bank, evaluate, leaderboard, prepare, train

__all__ = ["app", "bank", "evaluate", "leaderboard", "prepare", "train"]
