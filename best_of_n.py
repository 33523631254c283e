"""`python best_of_n.py ...`: the same as the console script `crm-best-of-n`."""

from crm.cli import best_of_n

if __name__ == "__main__":
    best_of_n()
