"""A judge on suites: predictions, results, tables.

- `EvaluationDataModule`: suites as prediction loaders of a trainer
- `LitJudge`: a checkpoint that reads them, for ``Trainer.predict``
- `config`: settings of ``evaluate.py``
- `judge_sweep`: tables of several judges
- `predict`: readings of comparisons, each exactly once, in a file
- `read_predictions`: a prediction file as records
- `reading_digest`: what a prediction file belongs to
- `results`: predictions to results
- `run_evaluation`: evaluate as configured
- `samples`: predictions as right or wrong
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
