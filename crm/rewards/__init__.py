"""Uses of a judge beyond ranking: its rewards for responses that somebody else generates.

- `best_of_n`: the best of k responses, and what it is worth
- `grpo_reward`: a reward function for TRL's trainers
- `rl`: the same for other trainers of policies
- `scoring`: a judge as a source of rewards
- `server`: rewards over HTTP
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
