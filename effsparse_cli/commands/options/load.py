"""Options for loading a model, shared by all commands: `with_load_arguments` adds them to a command and passes their
values as one `LoadArguments`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from effsparse_cli.commands.options.common import number, option
from effsparse_cli.commands.options.help_all import HelpAll
from effsparse_cli.commands.options.panels import ANALYSIS, LOAD, LOAD_MORE
from effsparse_cli.commands.options.signature import Command, find_options, replace_parameter
from effsparse_cli.commands.options.values import parse_dimensions, parse_pairs, parse_shapes, split_names

if TYPE_CHECKING:
    from effsparse_cli.formats.options import LoadOptions


def _complete_arch(incomplete: str) -> list[str]:
    from effsparse_cli.formats.architectures import ARCHITECTURES

    return [name for name in (*ARCHITECTURES, "hf") if name.startswith(incomplete)]


InputShape = Annotated[
    list[str] | None,
    option(
        "--input-shape", help="Shape of the first input, or NAME=SHAPE (repeatable).", panel=LOAD, metavar="1,3,32,32"
    ),
]
Dim = Annotated[
    list[str] | None,
    option("--dim", help="Sizes of open dimensions.", panel=LOAD_MORE, metavar="batch=1,seq=8"),
]
Outputs = Annotated[
    list[str] | None,
    option(
        "--outputs", help="Outputs to measure, by name or position.", panel=LOAD_MORE, metavar="NAME,...", default="all"
    ),
]
Arch = Annotated[
    str,
    option(
        "--arch",
        help="Architecture of a state_dict: a built-in model (see effsparse archs), hf, or your own code.",
        panel=LOAD,
        metavar="NAME|hf|MODULE:FACTORY",
        complete=_complete_arch,
    ),
]
ArchArg = Annotated[
    list[str] | None,
    option("--arch-arg", help="Argument for the architecture (repeatable).", panel=LOAD_MORE, metavar="KEY=VALUE"),
]
Key = Annotated[
    str,
    option("--key", help="Key of the weights in a checkpoint, such as ema.model.", panel=LOAD_MORE, metavar="KEY"),
]
Masks = Annotated[
    Path | None,
    option(
        "--masks",
        help="Masks to apply, by state_dict key or layer name: .safetensors, .npz or .pt.",
        panel=LOAD,
        metavar="FILE",
    ),
]
ZerosArePruned = Annotated[
    bool, option("--zeros-are-pruned", help="Count zero weights as pruned, even if a mask keeps them.", panel=LOAD_MORE)
]
ZeroTol = Annotated[
    float,
    number(
        "--zero-tol",
        help="Treat weights up to this magnitude as zero.",
        panel=LOAD_MORE,
        metavar="1e-8",
        example="1e-8",
        whole=False,
    ),
]
Trust = Annotated[bool, option("--trust", help="Allow the file to run code while it is loaded.", panel=LOAD_MORE)]
NormsDontCut = Annotated[
    bool,
    option("--norms-dont-cut", help="Ignore zero scales of norm layers, as in the paper.", panel=ANALYSIS),
]


@dataclass(frozen=True)
class LoadArguments:
    """Load options as given on the command line."""

    input_shape: InputShape = None
    dim: Dim = None
    outputs: Outputs = None
    arch: Arch = ""
    arch_arg: ArchArg = None
    key: Key = ""
    masks: Masks = None
    zeros_are_pruned: ZerosArePruned = False
    zero_tol: ZeroTol = 0.0
    trust: Trust = False
    norms_dont_cut: NormsDontCut = False

    def options(self) -> LoadOptions:
        """Check the values and return them as LoadOptions."""
        shapes, dims = parse_shapes(self.input_shape), parse_dimensions(self.dim)
        arguments = parse_pairs(self.arch_arg)

        from effsparse_cli.formats.options import LoadOptions

        return LoadOptions(
            input_shapes=shapes,
            dims=dims,
            outputs=split_names(self.outputs),
            trust=self.trust,
            norms_cut=not self.norms_dont_cut,
            arch=self.arch,
            arch_args=arguments,
            key=self.key,
            masks=self.masks,
            zeros_are_pruned=self.zeros_are_pruned,
            zero_tol=self.zero_tol,
        )


def with_load_arguments(command: Command) -> Command:
    """Append the load options to a command's own; its parameter `load_arguments` receives them. `--help` shows only the
    commonest of them, so `--help-all` is added too."""
    options = {**find_options(LoadArguments), "help_all": (HelpAll, False)}

    def collect(values: dict[str, Any]) -> LoadArguments:
        del values["help_all"]
        return LoadArguments(**values)

    return replace_parameter(command, "load_arguments", options, collect, last=True)
