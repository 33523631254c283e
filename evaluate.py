"""`python evaluate.py ...`: the same as the console script `crm-evaluate`."""

from crm.cli import evaluate

if __name__ == "__main__":
    evaluate()
