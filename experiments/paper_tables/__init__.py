"""The paper's five tables (`make reproduce-tables`)."""
