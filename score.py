"""`python score.py ...`: the same as the console script `crm-score`."""

from crm.cli import score

if __name__ == "__main__":
    score()
