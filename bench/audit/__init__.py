"""What the project is built on: under which licences, and with which known weaknesses. `make audit` runs it."""
