from . import turns as turns
from .openrlhf import openrlhf_reward as openrlhf_reward
from .trl import TrlReward as TrlReward
from .trl import grpo_reward as grpo_reward
from .verl import verl_reward as verl_reward
