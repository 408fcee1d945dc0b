"""The public functions of `effsparse_cli` under the name of the project: `import effsparse`."""

from effsparse_cli import *  # noqa: F403
from effsparse_cli import __all__ as __all__
from effsparse_cli import __version__ as __version__
