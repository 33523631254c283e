"""The paper's six tables (`make reproduce-tables`)."""
