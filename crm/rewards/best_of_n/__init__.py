"""The best of k responses by a judge, and what they are worth.

- `candidates`: the responses that are chosen from
- `config`: settings of ``best_of_n.py``
- `curves`: what picks are worth over k, with intervals
- `estimator`: how likely a response is the best of k
- `gold`: what picks are measured by
- `picking`: who picks: a judge and controls
- `plots`: the curves as a picture
- `run_best_of_n`: as configured
- `selection`: picks of a judge that only compares
- `study`: all that is found of one judge
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
