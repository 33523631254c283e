from . import config as config
from . import scoring_queue as scoring_queue
from .client import LeaderboardClient as LeaderboardClient
from .run import run_app as run_app
