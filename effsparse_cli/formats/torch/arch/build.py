"""Build the module of --arch: a built-in model, one that transformers builds from a config.json, or one from the user's
own code. It is built on the meta device wherever possible, because its weights come from the file."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from effsparse_cli.errors import EffsparseError, UsageError, describe_error
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch.arch.built_in import BUILT_IN
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.graph.primitives import Shape
from effsparse_cli.imports import import_object

MAIN = "__main__."
MAX_FILES, MAX_FILE_SIZE = 500, 1 << 20


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
        from effsparse_cli.formats.torch.arch.huggingface.config import Limits
        from effsparse_cli.formats.torch.arch.huggingface.inputs import check_sizes, infer_shapes

        limits = Limits.of(raw.tensors)
        module = build_hf(raw.config, options, limits)
        shapes, notes = infer_shapes(module, raw.preparation)
        if not options.input_shapes:
            check_sizes(shapes, limits)
        return BuiltModel(module, shapes, tuple(notes))
    arguments = {name: _parse_literal(value) for name, value in options.arch_args.items()}
    if arch in BUILT_IN:
        return BuiltModel(_call(arch, BUILT_IN[arch].make, arguments), {"": BUILT_IN[arch].shape})
    module = _call(arch, _import_factory(arch), arguments)
    if any(is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers())):
        raise UsageError(f"--arch {arch}: some layers are lazy. Run the model once in the factory.")
    return BuiltModel(module)


def _parse_literal(text: str) -> Any:
    """Parse a Python literal; anything else is a string."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _import_factory(arch: str) -> Callable[..., Any]:
    found = import_object(arch, "--arch", "package.module:factory")
    if isinstance(found, nn.Module):
        return lambda: found
    if not callable(found):
        raise UsageError(
            f"--arch {arch} is a {type(found).__name__}. Pass a function or a class that returns a torch.nn.Module."
        )
    return found  # type: ignore[no-any-return]


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
        raise UsageError(f"--arch {arch} failed when called with ({listed}): {describe_error(error)}") from error
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


def suggest_script(names: Sequence[str], sources: Mapping[str, str]) -> str:
    """Return a sentence about the first class of a script among `names`, or nothing. `sources` are the source files of
    classes where the model file states them."""
    name = next((name for name in names if name.startswith(MAIN) and name.removeprefix(MAIN).isidentifier()), None)
    if name is None:
        return ""
    own = name.removeprefix(MAIN)
    script = _module_name(sources.get(name, "")) or _find_definition(own)
    if script is None:
        return (
            f" {own} was defined in the script that saved the file. To build the model with it, pass "
            f"--arch SCRIPT:{own} in the folder of SCRIPT.py."
        )
    return f" {own} was defined in a script, probably {script}.py. To build the model, pass --arch {script}:{own}."


def _module_name(file: str) -> str | None:
    """Return the module name of a source file, possibly of another machine."""
    path = PureWindowsPath(file) if "\\" in file else PurePosixPath(file)
    return path.stem if path.suffix == ".py" and path.stem.isidentifier() else None


def _find_definition(name: str) -> str | None:
    """Return the first module in the current folder that defines the class."""
    pattern = re.compile(rf"^class\s+{re.escape(name)}\b", re.MULTILINE)
    for file in sorted(Path.cwd().glob("*.py"))[:MAX_FILES]:
        try:
            small = file.is_file() and file.stat().st_size <= MAX_FILE_SIZE
            if small and file.stem.isidentifier() and pattern.search(file.read_text("utf-8", errors="replace")):
                return file.stem
        except OSError:
            continue
    return None
