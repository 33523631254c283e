from . import rl as rl
from . import scoring as scoring
from .rl import grpo_reward as grpo_reward
