"""The options for reading a model, defined once for all commands: `with_load_arguments` adds them to a command's own
and passes them on as one LoadArguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from effsparse_cli.commands.options.common import FIND, READ, option
from effsparse_cli.commands.options.values import dimensions, input_shapes, names, pairs

if TYPE_CHECKING:
    from effsparse_cli.formats.options import LoadOptions

InputShape = Annotated[
    list[str] | None,
    option(
        "--input-shape", help="Shape of the first input, or NAME=SHAPE; repeatable.", panel=READ, metavar="1,3,32,32"
    ),
]
Dim = Annotated[
    list[str] | None,
    option("--dim", help="Sizes of dimensions that the model leaves open.", panel=READ, metavar="batch=1,seq=8"),
]
Outputs = Annotated[
    list[str] | None,
    option(
        "--outputs", help="The outputs that count, by name or position; all by default.", panel=READ, metavar="NAME,..."
    ),
]
Arch = Annotated[
    str,
    option(
        "--arch",
        help="What a state_dict belongs to: a built-in model (lenet-300-100, resnet50 ...), hf, or your own code.",
        panel=READ,
        metavar="NAME|hf|MODULE:FACTORY",
    ),
]
ArchArg = Annotated[
    list[str] | None,
    option("--arch-arg", help="Passed to it; repeatable.", panel=READ, metavar="KEY=VALUE"),
]
Key = Annotated[
    str,
    option("--key", help="Where in a checkpoint the weights are, such as ema.model.", panel=READ, metavar="KEY"),
]
Masks = Annotated[
    Path | None,
    option(
        "--masks",
        help="Masks to apply, by key in a state_dict or layer: .safetensors, .npz or .pt.",
        panel=READ,
        metavar="FILE",
    ),
]
ZerosArePruned = Annotated[
    bool, option("--zeros-are-pruned", help="A zero that a mask keeps does not count as kept.", panel=READ)
]
ZeroTol = Annotated[
    float, option("--zero-tol", help="Weights not larger than this count as zero.", panel=READ, metavar="1e-8")
]
Trust = Annotated[bool, option("--trust", help="Let the file run its own code while it is loaded.", panel=READ)]
NormsDontCut = Annotated[
    bool,
    option("--norms-dont-cut", help="A norm's zero scale does not cut its channel, as in the paper.", panel=FIND),
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
        shapes, dims, arguments = input_shapes(self.input_shape), dimensions(self.dim), pairs(self.arch_arg)

        from effsparse_cli.formats.options import LoadOptions

        return LoadOptions(
            input_shapes=shapes,
            dims=dims,
            outputs=names(self.outputs),
            trust=self.trust,
            norms_cut=not self.norms_dont_cut,
            arch=self.arch,
            arch_args=arguments,
            key=self.key,
            masks=self.masks,
            zeros_are_pruned=self.zeros_are_pruned,
            zero_tol=self.zero_tol,
        )


def with_load_arguments(command: Callable[..., None]) -> Callable[..., None]:
    """Append the load options to a command's own; its parameter `load_arguments` receives them."""
    added = {each.name: each.default for each in fields(LoadArguments)}
    hints = get_type_hints(command, include_extras=True) | get_type_hints(LoadArguments, include_extras=True)
    own = [p for p in inspect.signature(command).parameters.values() if p.name != "load_arguments"]
    signature = [p.replace(annotation=hints[p.name], kind=p.KEYWORD_ONLY) for p in own]
    signature += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
        for name, default in added.items()
    ]

    def run(**given: Any) -> None:
        command(load_arguments=LoadArguments(**{name: given.pop(name) for name in added}), **given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {p.name: p.annotation for p in signature} | {"return": None}
    run.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    return run
