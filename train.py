"""`python train.py ...`: the same as the console script `crm-train`.

From here to a logit: docs/architecture.md.
"""

from crm.cli import train

if __name__ == "__main__":
    train()
