"""Queries and the responses of LLMs to them.

- `Bank`: queries, and responses by model
- `BankQuery`: a query and its topic
- `bank`: banks read and checked
- `collecting`: ask an endpoint for responses
- `config`: settings of a bank
- `load_bank`: a bank from a folder or file
- `public`: banks made of public sets
- `responses`: one more model's responses
- `run_bank`: ``bank.py``
- `simulated`: a bank of the simulated arena
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
