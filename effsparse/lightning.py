"""The callback for Lightning: `from effsparse.lightning import SparsityCallback`."""

from effsparse_cli.training.lightning import SparsityCallback

__all__ = ["SparsityCallback"]
