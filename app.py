"""`python app.py ...`: the same as the console script `crm-app`."""

from crm.cli import app

if __name__ == "__main__":
    app()
