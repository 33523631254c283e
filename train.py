"""`python train.py ...`: the same as the console script `crm-train`."""

from crm.cli import train

if __name__ == "__main__":
    train()
