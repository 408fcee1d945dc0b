"""The commands, one module each: parse options, call the rooms, print, exit. Rooms are imported when a command runs."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

COMMANDS = {
    "report": "Report direct and effective sparsity, per layer and in total.",
    "check": "Fail if a model does not meet its sparsity claims.",
    "diff": "Compare the connections of two models.",
    "prune": "Prune a model to a target effective sparsity.",
    "repair": "Remove inactive connections without changing the outputs, or mend the mask.",
    "compact": "Remove dead channels and neurons: a smaller model with the same outputs.",
    "annotate": "Write sparsity into the metadata of an ONNX model, for viewers such as Netron.",
    "quotas": "Compare how layerwise quotas distribute a direct sparsity over the layers.",
    "curve": "Show how effective compression depends on direct compression.",
    "methods": "List scores (--method) and layerwise quotas (--lsq).",
    "archs": "List built-in architectures (--arch).",
    "man": "Print the manual page.",
}
"""Commands in the order of the help, with their summaries. Each is a module here with a function of the same name and
EXAMPLES. The list is here so that `effsparse --help` imports no command."""


def find_command(name: str) -> tuple[Callable[..., None], str]:
    """Return the function of a command and the text below its help."""
    module = import_module(f"effsparse_cli.commands.{name}")
    return getattr(module, name), module.EXAMPLES
