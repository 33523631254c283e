from . import config as config
from . import sweep_jobs as sweep_jobs
from . import sweep_table as sweep_table
from . import sweeps as sweeps
from .building import settle_precision as settle_precision
from .lit_module import LitRewardModel as LitRewardModel
from .run import run_training as run_training
from .run_folder import AnotherRunError as AnotherRunError
