"""Customizable reward models: read a user's criteria, a query and two responses; say which one that user prefers.

    from crm import load_bank, load_judge, train

- `load_judge`: a trained model, from a folder or a hub
- `load_bank`: responses of many LLMs, to be ranked
- `train`: train a model
- `Judge`: scores, compares and ranks; what `load_judge` returns
- `Run`: a training that has ended; what `train` returns
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"api": ["Judge", "Run", "load_bank", "load_judge", "train"]}
)
