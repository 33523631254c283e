"""`python bank.py ...`: the same as the console script `crm-bank`."""

from crm.cli import bank

if __name__ == "__main__":
    bank()
