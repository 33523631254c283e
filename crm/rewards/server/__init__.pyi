from .app import make_app as make_app
from .config import ServeConfig as ServeConfig
from .run import run_server as run_server
