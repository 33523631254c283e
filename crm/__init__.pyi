from .api import Judge as Judge
from .api import Run as Run
from .api import load_bank as load_bank
from .api import load_judge as load_judge
from .api import train as train

__version__: str
