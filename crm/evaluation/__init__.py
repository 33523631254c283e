"""A judge on suites: predictions, results, tables.

- `EvaluationDataModule`: suites as prediction loaders of a trainer
- `LitJudge`: a checkpoint that reads them, for ``Trainer.predict``
- `config`: settings of ``evaluate.py``
- `judge_sweep`: tables of several judges
- `prediction_file`: readings of comparisons, each exactly once, in a file
- `results`: predictions to results
- `robustness`: what attacks do to a judge
- `run_evaluation`: evaluate as configured
- `samples`: predictions as right or wrong
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
