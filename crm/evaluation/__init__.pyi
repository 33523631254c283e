from . import config as config
from . import judge_sweep as judge_sweep
from . import results as results
from .prediction import predict as predict
from .prediction_file import reading_digest as reading_digest
from .results import read_predictions as read_predictions
from .run import print_table as print_table
from .run import run_evaluation as run_evaluation
