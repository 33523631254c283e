"""`python leaderboard.py ...`: the same as the console script `crm-leaderboard`."""

from crm.cli import leaderboard

if __name__ == "__main__":
    leaderboard()
