"""One file per command: parse, call rooms, print, exit. Only commands join rooms, and import them late."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

COMMANDS = {
    "report": "How sparse a pruned model is said to be, how sparse it effectively is, and why.",
    "check": "Fail when a sparse model is not what it is said to be: for CI and pre-commit.",
    "diff": "What changed between two checkpoints, or a checkpoint and its re-export: connections gained, lost, "
    "newly dead.",
    "prune": "Prune a model to a target effective sparsity: the connections that stay all work.",
    "repair": "Remove connections that do nothing, and keep what the model computes; or mend its mask.",
    "compact": "Cut out channels and neurons that nothing uses: a smaller dense model with the same outputs.",
    "quotas": "How layerwise quotas share out a direct sparsity among the layers.",
    "curve": "How effective compression follows direct compression, and where the network disconnects.",
}
"""In the order in which the help lists them, with what it says of them; each is a module here with a function of its
name, which says the same first, and EXAMPLES. The list of commands is shown without loading any."""


def find_command(name: str) -> tuple[Callable[..., None], str]:
    """The command's function, and what stands below its help."""
    module = import_module(f"effsparse_cli.commands.{name}")
    return getattr(module, name), module.EXAMPLES
