from . import config as config
from .client import LeaderboardClient as LeaderboardClient
from .run import run_app as run_app
