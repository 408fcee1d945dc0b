"""The callback for the Hugging Face Trainer: `from effsparse.huggingface import SparsityCallback`."""

from effsparse_cli.training.huggingface import SparsityCallback

__all__ = ["SparsityCallback"]
