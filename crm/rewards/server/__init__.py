"""Rewards over HTTP, in this project's shapes and in those of trainers. In: a judge. Out: a server.

- `ServeConfig`: settings of ``serve.py``
- `make_app`: the ASGI application
- `run_server`: serve as configured
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
