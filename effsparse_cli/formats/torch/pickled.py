"""Files of torch.save and TorchScript, and other files of tensors, become modules or named tensors, without running
anything that is in them. Only modules of torch.nn's own classes are complete as data; for others there is --arch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from effsparse_cli.errors import EffsparseError, LoadError, RefusedError, UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.sniff import kind
from effsparse_cli.formats.torch.arch.attach import attach
from effsparse_cli.formats.torch.arch.build import Built, build, look_here
from effsparse_cli.formats.torch.arch.guess import guess
from effsparse_cli.formats.torch.arch.match import fit, renamed, without_prefix
from effsparse_cli.formats.torch.arch.scripts import script_advice
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.checkpoint.pickle.inert import Inert
from effsparse_cli.formats.torch.checkpoint.pickle.revive import UnknownError, revive, strangers
from effsparse_cli.formats.torch.checkpoint.torch_save import (
    Opened,
    as_described,
    open_pickled,
    pick_weights,
    read_tensors,
)
from effsparse_cli.formats.torch.conventions.resolve import resolve
from effsparse_cli.formats.torch.scripted import load_script
from effsparse_cli.formats.torch.tracing.limits import remember_file
from effsparse_cli.formats.torch.tracing.trace import stored_tensors


def read_module(path: Path, options: LoadOptions) -> nn.Module:
    """The live module, with its weights in memory of its own: one that is stored whole, or that --arch gives."""
    found = read_content(path, options, copied=True)
    if isinstance(found, nn.Module):
        return found
    built, fitted = belonging(path, found, options)
    return attach(built.module, fitted)


def read_content(path: Path, options: LoadOptions, copied: bool = False, traced: bool = True) -> nn.Module | Checkpoint:
    """The module that is stored whole, unless --arch says what to take its tensors for; else the file's tensors. If
    nothing is to be `traced`, the tensors of a module are enough."""
    if options.arch_args and not options.arch and kind(path) != "folder":
        raise UsageError("--arch-arg goes with --arch, which says what to pass it to")
    found: nn.Module | Checkpoint
    match kind(path):
        case "safetensors":
            from effsparse_cli.formats.torch.checkpoint.safetensors import read_safetensors

            found = _below(path, Checkpoint(read_safetensors(path)), options.key)
        case "folder":
            from effsparse_cli.formats.torch.checkpoint.folder import read_folder

            found = read_folder(path, options)
        case _:
            found = (_trusted(path, options) if options.trust else None) or _as_data(path, options, copied, traced)
    if isinstance(found, nn.Module) and options.arch:
        return Checkpoint(stored_tensors(found))
    return found


def _as_data(path: Path, options: LoadOptions, copied: bool, traced: bool) -> nn.Module | Checkpoint:
    opened = open_pickled(path, copied)
    picked = pick_weights(opened, options.key)
    if isinstance(picked.value, Inert) and traced and not options.arch:
        return _revived(opened, picked.value)
    return read_tensors(opened, options.key)


def belonging(path: Path, raw: Checkpoint, options: LoadOptions) -> tuple[Built, Checkpoint]:
    """The model that the file's tensors are of, as --arch says, and the tensors under its names."""
    named = bool(options.arch or options.arch_args)
    if not options.arch and raw.config is not None:
        options = replace(options, arch="hf")
    if not options.arch:
        raise LoadError(_without_graph(path, raw))
    built = build(options, raw)
    if options.arch == "hf":
        from effsparse_cli.formats.torch.arch.huggingface.conversion import name_as_in_file

        name_as_in_file(built.module, raw, external_masks=options.masks is not None)
    else:
        raw = without_prefix(raw, built.module)
    resolved = resolve(raw, stored_tensors(built.module), external_masks=options.masks is not None)
    fitted, problems = fit(resolved, built.module, extra_is_fine=options.arch == "hf")
    if problems and not named:
        raise LoadError(f"{path} does not fit its config.json: {'. '.join(problems)}.")
    if problems:
        raise UsageError(
            f"{path} does not fit --arch {options.arch}: {'. '.join(problems)}. Is it this model, with these "
            "--arch-arg? --key says where in a file the weights are."
        )
    return built, fitted


def _below(path: Path, found: Checkpoint, key: str) -> Checkpoint:
    """--key for a file that has no dictionaries: what its names begin with."""
    if not key:
        return found
    names = {name: name.removeprefix(f"{key}.") for name in found.tensors if name.startswith(f"{key}.")}
    if not names:
        raise UsageError(f"--key: no name in {path} begins with {key}.; there is {', '.join(list(found.tensors)[:6])}")
    return renamed(found, names)


def _revived(opened: Opened, module: Inert) -> nn.Module:
    try:
        with as_described(opened.path):
            made = revive(module, opened.tensors)
            if not isinstance(made, nn.Module):
                raise TypeError(f"a {type(made).__name__} in the place of a module")
            remember_file(made, opened.path)
            return made
    except UnknownError as unknown:
        asked = strangers(opened.asked) or [str(unknown)]
        raise RefusedError(_refusal(opened, asked)) from unknown


def _trusted(path: Path, options: LoadOptions) -> nn.Module | None:
    """Runs the file's own code; what it gives, if that is a module or has one at --key."""
    look_here()
    try:
        if kind(path) == "script":
            return load_script(path)
        content: Any = torch.load(path, map_location="cpu", weights_only=False)
    except (Exception, SystemExit) as error:
        raise LoadError(
            f"{path} cannot be loaded whole: {_reason(error)}. The code of its classes must be importable, for "
            f"example by running in the project that saved it.{_from_script(path)}"
        ) from error
    for step in options.key.split(".") if options.key else ():
        content = content.get(step) if isinstance(content, Mapping) else None
    held = content.values() if isinstance(content, Mapping) else [content]
    return next((each for each in held if isinstance(each, nn.Module)), None)


WAYS_ON = (
    "If you trust it, --trust loads it whole, and its code runs; --arch NAME or package.module:factory takes the model "
    "from there and the file's weights as data; or export the model where it was made, with torch.export.save (.pt2) "
    "or to ONNX, and give that file."
)


def _refusal(opened: Opened, asked: list[str]) -> str:
    path, names = opened.path, f"{', '.join(asked[:8])}{' ...' if len(asked) > 8 else ''}"
    if any(name.startswith("__torch__.") for name in asked):
        return f"{path} is a TorchScript archive, whose graph is code. Nothing of it was run. {WAYS_ON}"
    script = script_advice(asked, opened.sources)
    return f"{path} asks for code that is not torch.nn's: {names}. Nothing of it was run.{script} {WAYS_ON}"


def _from_script(path: Path) -> str:
    """Advice for a file that asks for classes of a script; nothing if it does not, or cannot be read as data."""
    try:
        opened = open_pickled(path)
    except EffsparseError:
        return ""
    return script_advice(list(opened.asked), opened.sources)


def _without_graph(path: Path, found: Checkpoint) -> str:
    keys = ", ".join(list(found.tensors)[:3]) + (" ..." if len(found.tensors) > 3 else "")
    found = resolve(found, external_masks=True)
    return (
        f"{path} has no graph in it: it holds {len(found.tensors)} tensors by name ({keys}). {guess(found)}. Or save "
        "the model whole with torch.save, export it with torch.export.save (.pt2) or to ONNX. report --direct-only "
        "tells the direct sparsity of each tensor without a graph."
    )


def _reason(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
