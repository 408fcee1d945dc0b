"""module.c: the loops of numpy_loops.py. Results that have names there are plain here, for __init__.py to name."""

from typing import Any

def __getattr__(name: str) -> Any: ...
