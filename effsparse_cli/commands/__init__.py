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
    "study": "Run and plot experiments: prune, train and measure many networks.",
    "methods": "List scores (--method) and layerwise quotas (--lsq).",
    "archs": "List built-in architectures (--arch).",
    "man": "Print the manual page.",
}
"""Commands in the order of the help, with their summaries. Each is a module here with a function of the same name and
EXAMPLES, or a row of GROUPS. The list is here so that `effsparse --help` imports no command."""

GROUPS = {
    "study": {
        "init": "Write the study file of a figure of the paper.",
        "run": "Run the tasks of a study that are not finished.",
        "status": "Show which tasks of a study are finished, running or failed.",
        "retry": "Run the failed tasks of a study again.",
        "export": "Export one row per task: CSV, JSON or Parquet.",
        "plot": "Plot the results of a study as in the paper.",
    },
}
"""Commands that consist of commands, each a module of a folder."""
GROUP_EXAMPLES = {
    "study": """\
Examples:
effsparse study init figure2 --scale small --data data/mnist
effsparse study run figure2.toml
effsparse study plot figure2 -o figure2.svg
""",
}


def list_commands() -> dict[str, str]:
    """Return all commands that do something, by everything that is typed to call them."""
    inner = {f"{group} {name}": summary for group, commands in GROUPS.items() for name, summary in commands.items()}
    return {name: summary for name, summary in COMMANDS.items() if name not in GROUPS} | inner


def find_command(name: str) -> tuple[Callable[..., None], str]:
    """Return the function of a command, such as "report" or "study run", and the text below its help."""
    module = import_module(f"effsparse_cli.commands.{name.replace(' ', '.')}")
    return getattr(module, name.split()[-1]), module.EXAMPLES
