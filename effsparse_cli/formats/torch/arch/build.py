"""Build the module of --arch: a built-in model, one that transformers builds from a config.json, or one from the user's
own code. It is built on the meta device wherever possible, because its weights come from the file."""

from __future__ import annotations

import ast
import difflib
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from effsparse_cli.errors import EffsparseError, UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch.arch.built_in.table import BUILT_IN
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.graph.primitives import Shape


@dataclass(frozen=True)
class BuiltModel:
    """A model with the usual shapes of its inputs by name ("" is the first) and notes about them."""

    module: nn.Module
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def build(options: LoadOptions, raw: Checkpoint) -> BuiltModel:
    """Build the model for the tensors of `raw`."""
    arch = options.arch
    if arch == "hf":
        if raw.config is None:
            raise UsageError(
                "--arch hf builds the model of a config.json. Pass the folder that contains it, not a file in it."
            )
        from effsparse_cli.formats.torch.arch.huggingface.build import build_hf
        from effsparse_cli.formats.torch.arch.huggingface.inputs import check_sizes, infer_shapes
        from effsparse_cli.formats.torch.arch.huggingface.limits import Limits

        limits = Limits.of(raw.tensors)
        module = build_hf(raw.config, options, limits)
        shapes, notes = infer_shapes(module, raw.preparation)
        if not options.input_shapes:
            check_sizes(shapes, limits)
        return BuiltModel(module, shapes, tuple(notes))
    arguments = {name: _parse_literal(value) for name, value in options.arch_args.items()}
    if arch in BUILT_IN:
        return BuiltModel(_call(arch, BUILT_IN[arch].make, arguments), {"": BUILT_IN[arch].shape})
    if ":" in arch:
        module = _call(arch, _import_factory(arch), arguments)
        if any(is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers())):
            raise UsageError(f"--arch {arch}: some layers are lazy. Run the model once in the factory.")
        return BuiltModel(module)
    close = difflib.get_close_matches(arch.lower(), BUILT_IN, n=1, cutoff=0.5)
    raise UsageError(
        f"--arch {arch}: unknown model. {f'Did you mean {close[0]}? ' if close else ''}Use {', '.join(BUILT_IN)}, hf "
        "for the model of a config.json, or package.module:factory for your own code."
    )


def _parse_literal(text: str) -> Any:
    """Parse a Python literal; anything else is a string."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _import_factory(arch: str) -> Callable[..., Any]:
    module, _, path = arch.partition(":")
    allow_local_imports()
    try:
        found: Any = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(f"--arch {arch}: {module} cannot be imported: {_reason(error)}") from error
    for name in path.split("."):
        if not hasattr(found, name):
            close = difflib.get_close_matches(name, dir(found), n=1)
            raise UsageError(f"--arch {arch}: {name} does not exist.{f' Did you mean {close[0]}?' if close else ''}")
        found = getattr(found, name)
    if isinstance(found, nn.Module):
        return lambda: found
    if not callable(found):
        raise UsageError(
            f"--arch {arch} is a {type(found).__name__}. Pass a function or a class that returns a torch.nn.Module."
        )
    return found  # type: ignore[no-any-return]


def allow_local_imports() -> None:
    """Allow imports from the current folder, as `python -m` does and an installed script does not."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def _call(arch: str, make: Callable[..., Any], arguments: Mapping[str, Any]) -> nn.Module:
    try:
        with torch.device("meta"):
            module = make(**arguments)
        if isinstance(module, nn.Module) and next(_find_unstored(module), None) is None:
            return module.eval()
    except (Exception, SystemExit):
        pass  # it may need values: try again with memory, and report that error
    try:
        module = make(**arguments)
    except EffsparseError:
        raise
    except (Exception, SystemExit) as error:
        listed = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        raise UsageError(f"--arch {arch} failed when called with ({listed}): {_reason(error)}") from error
    if not isinstance(module, nn.Module):
        raise UsageError(f"--arch {arch} returned a {type(module).__name__}, not a torch.nn.Module.")
    return module.eval()


def _find_unstored(module: nn.Module) -> Iterator[torch.Tensor]:
    """Yield tensors that are in no state_dict, such as computed tables: a file cannot fill them."""
    for each in module.modules():
        yield from (t for n, t in each._buffers.items() if n in each._non_persistent_buffers_set and t is not None)
        for value in vars(each).values():
            held = value if isinstance(value, list | tuple) else [value]
            # Recurrent layers list their parameters again.
            yield from (t for t in held if isinstance(t, torch.Tensor) and not isinstance(t, nn.Parameter))


def _reason(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
