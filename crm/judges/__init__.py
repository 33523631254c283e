"""Whoever answers ``preference_logit``: reward models, language models, controls.

- `AnyJudgeConfig`: the settings of a judge
- `Asked`: a comparison and the order of its responses
- `CrmJudge`: a customizable reward model
- `Judge`: the protocol that every judge meets
- `OpenedJudge`: a judge, its name, where its predictions lie
- `Reading`: what a judge says of one comparison
- `check_judge`: refuse a broken judge before data are read
- `open_checkpoint`: a checkpoint folder as a `CrmJudge`
- `open_judge`: any judge from its settings
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
