"""Measure and increase the effective sparsity of pruned neural networks.

import effsparse
print(effsparse.analyze(model, example_input))
"""

from effsparse_cli.api import *  # noqa: F403
from effsparse_cli.api import __all__ as __all__
from effsparse_cli.version import __version__ as __version__
