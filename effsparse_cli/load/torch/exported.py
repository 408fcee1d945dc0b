"""Files of torch.export.save become exported programs at one input shape. An archive that would have to run
code is refused before torch's loader sees it."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch.export import ExportedProgram
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils._pytree import tree_flatten

from effsparse_cli.errors import LoadError, RefusedError, UsageError
from effsparse_cli.graph.primitives import Shape
from effsparse_cli.load.torch.dangers import dangers
from effsparse_cli.load.torch.undisturbed import quiet


def read_program(path: Path) -> ExportedProgram:
    with zipfile.ZipFile(path) as archive:
        danger = next(dangers(archive), None)
    if danger:
        raise RefusedError(
            f"{path} would have to run code to be read: {danger}. Nothing of it was run. Export the model again with "
            "torch.export.save from plain parameters, or to ONNX."
        )
    try:
        with quiet():
            return torch.export.load(path)
    except Exception as error:
        reason = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
        raise LoadError(
            f"{path} cannot be read by torch {torch.__version__}: {reason}. Was it written by another version?"
        ) from error


def with_shapes(program: ExportedProgram, wanted: Mapping[str, Shape]) -> None:
    """Fix the program to one input shape: the user's, else that of the inputs it was exported with. Sizes
    that were exported as fixed stay what they are."""
    inputs = {node.name: node for node in program.graph.nodes if node.name in program.graph_signature.user_inputs}
    shapes = {next(iter(inputs), "") if name == "" else name: shape for name, shape in wanted.items()}
    unknown = [name for name in shapes if name not in inputs]
    if unknown:
        raise UsageError(f"the program has no input {', '.join(unknown)}; its inputs are: {', '.join(inputs)}")
    for name, shape in shapes.items():
        exported = tuple(inputs[name].meta["val"].shape)
        same = [not isinstance(n, int) or n == m for n, m in zip(exported, shape, strict=False)]
        if len(shape) != len(exported) or not all(same):
            there, given = ("x".join(map(str, sizes)) for sizes in (exported, shape))
            raise UsageError(f"an exported program has fixed shapes: {name} is {there}, not {given}")
    if any(not isinstance(n, int) for node in inputs.values() for n in getattr(node.meta.get("val"), "shape", ())):
        _specialise(program, shapes)


def _specialise(program: ExportedProgram, shapes: Mapping[str, Shape]) -> None:
    """Works the sizes out again, operator by operator, for concrete inputs."""
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    examples = iter(tree_flatten(program.example_inputs)[0])
    values = []
    for node in placeholders:
        value = node.meta["val"]
        if node.name in program.graph_signature.user_inputs:
            example = next(examples, value)
            shape = shapes.get(node.name, tuple(getattr(example, "shape", ())))
            value = torch.zeros(shape, dtype=value.dtype) if isinstance(value, torch.Tensor) else example
        else:
            value = torch.zeros(value.shape, dtype=value.dtype)
        values.append(value)
    try:
        FakeTensorProp(program.graph_module).propagate(*values)
    except Exception as error:
        given = ", ".join("x".join(map(str, shape)) for shape in shapes.values())
        raise UsageError(f"the exported program does not run on input {given}: {str(error).splitlines()[0]}") from error
