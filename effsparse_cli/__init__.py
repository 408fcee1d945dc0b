"""Measure and increase the effective sparsity of pruned neural networks.

from effsparse import analyze
analysis = analyze(model, example_input)
print(analysis.totals.effective_sparsity)
"""

from effsparse_cli.api import Analyzer, analyze, compact, prune, repair

__version__ = "0.1.0"
__all__ = ["Analyzer", "__version__", "analyze", "compact", "prune", "repair"]
