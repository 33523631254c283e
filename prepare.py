"""`python prepare.py ...`: the same as the console script `crm-prepare`."""

from crm.cli import prepare

if __name__ == "__main__":
    prepare()
