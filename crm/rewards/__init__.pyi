from . import best_of_n as best_of_n
from . import rl as rl
from . import scoring as scoring
from . import server as server
from .rl import grpo_reward as grpo_reward
