"""A judge as the reward of reinforcement learning, in the shapes that trainers call.

- `TrlReward`: what `grpo_reward` gives
- `grpo_reward`: for TRL's GRPOTrainer and RLOOTrainer
- `openrlhf_reward`: for OpenRLHF's ``reward_func``
- `turns`: what trainers hand over, as records
- `verl_reward`: for verl's ``compute_score``
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
