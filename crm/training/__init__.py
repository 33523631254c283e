"""One training run, and sweeps of runs.

- `AnotherRunError`: a run folder is in use or holds another run
- `LitRewardModel`: the Lightning module
- `check_unfinished`: refuse to begin where a finished run is
- `config`: settings of ``train.py``
- `run_training`: train as configured; returns what came out
- `settle_devices`: ``auto`` in the trainer's hardware becomes what is there
- `settle_precision`: ``trainer.precision=auto`` for this device
- `shard_as_asked`: a model spread over devices where the strategy is FSDP2
- `sweep_jobs`: the jobs of a sweep and how they ended
- `sweep_table`: the table of a sweep
- `sweeps`: one process a job
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
