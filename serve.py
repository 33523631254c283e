"""`python serve.py ...`: the same as the console script `crm-serve`."""

from crm.cli import serve

if __name__ == "__main__":
    serve()
