"""The public functions of `effsparse_cli` under the name of the project: `from effsparse import analyze`."""

from effsparse_cli import Analyzer, __version__, analyze, compact, prune, repair

__all__ = ["Analyzer", "__version__", "analyze", "compact", "prune", "repair"]
