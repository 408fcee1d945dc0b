"""Trace a module to a flat list of aten operators: by torch.export without decomposition, then in strict mode, then by
recording one run. All three give the same kind of graph. Outputs get names from the structure that is returned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from torch import fx, nn

from effsparse_cli.errors import LoadError, UsageError, first_line
from effsparse_cli.formats.torch.tracing.aliasing import needs_functional_form
from effsparse_cli.formats.torch.tracing.preserve import (
    check_values,
    preserved_state,
    preserved_values,
    quiet,
    unfused_kernels,
)
from effsparse_cli.graph.graph import OpenDimensions

if TYPE_CHECKING:
    from torch.export import ExportedProgram

Kwargs = Mapping[str, Any]
Tensors = Mapping[str, torch.Tensor]
FILE_NAMES = "_file_names"
"""The attribute of a model with the names that its file has for its tensors."""
T = TypeVar("T")


@dataclass(frozen=True)
class Input:
    """A placeholder for a model input."""

    name: str


@dataclass(frozen=True)
class StoredTensor:
    """A placeholder for a stored tensor."""

    name: str


@dataclass(frozen=True)
class HeldTensor:
    """A placeholder for a tensor that the model holds but does not store, such as an attribute or a constant."""

    name: str
    tensor: torch.Tensor


@dataclass(frozen=True)
class TracedModel:
    """A traced model.

    - `leaves`: by placeholder name an Input, a StoredTensor, a HeldTensor or a value that is not a tensor.
    - `stored`: the state_dict; `parameters`: the names in it that are parameters.
    - `outputs`: a name for each result, "" if it is not an output.
    - `observed`: one run was recorded, in which values may have decided what was called.
    - `open`: dimensions that a file leaves open.
    """

    graph: fx.Graph
    leaves: Mapping[str, Any]
    stored: Tensors
    parameters: set[str]
    outputs: tuple[str, ...]
    notes: tuple[str, ...] = ()
    observed: bool = False
    open: OpenDimensions | None = None


def trace_module(model: nn.Module, args: tuple[Any, ...], kwargs: Kwargs) -> TracedModel:
    """Trace a module; raise what the module itself raises if it does not run on these inputs."""
    check_values(model, args, kwargs)
    with preserved_state(model, args, kwargs), unfused_kernels():
        try:
            with quiet():
                return from_exported(torch.export.export(model, args, dict(kwargs), strict=False), model)
        except Exception as first:
            _check_runs(model, args, kwargs)
            return _trace_with_fallbacks(model, args, kwargs, first)


def _check_runs(model: nn.Module, args: tuple[Any, ...], kwargs: Kwargs) -> None:
    try:
        with quiet(), preserved_values(model, args, kwargs):
            model(*args, **kwargs)
    except Exception:
        # A model may not run under a dispatch mode, and yet run.
        with quiet(), preserved_values(model, args, kwargs, lazy=False):
            model(*args, **kwargs)


def _trace_with_fallbacks(model: nn.Module, args: tuple[Any, ...], kwargs: Kwargs, first: Exception) -> TracedModel:
    try:
        with quiet():
            traced = from_exported(torch.export.export(model, args, dict(kwargs), strict=True), model)
            return replace(traced, notes=("traced by torch.export in strict mode", *traced.notes))
    except Exception:
        pass
    try:
        with quiet(), preserved_values(model, args, kwargs):
            return _record(model, args, kwargs)
    except Exception as last:
        raise LoadError(
            f"the model runs but cannot be traced: torch.export failed with {first_line(first)!r}, and recording one "
            f"run with {first_line(last)!r}. Try to export the model to ONNX and use that file."
        ) from last


def _record(model: nn.Module, args: tuple[Any, ...], kwargs: Kwargs) -> TracedModel:
    from effsparse_cli.formats.torch.tracing.record import record

    stored = stored_tensors(model)
    names = {id(value): name for name, value in _attributes(model)} | {id(t): name for name, t in stored.items()}
    run = record(model, args, kwargs)
    leaves: dict[str, Any] = {}
    for placeholder, tensor in run.leaves.items():
        name = names.get(id(tensor), "")
        leaves[placeholder] = StoredTensor(name) if name in stored else HeldTensor(name, tensor)
    leaves |= {placeholder: Input(name) for placeholder, name in run.inputs.items()}
    notes = ["one path observed: the model could not be exported, so one run was recorded"]
    if run.hidden:
        notes.append(f"outputs of type {', '.join(run.hidden)} cannot be inspected and are ignored")
    names_out = tuple(output_names(run.spec))
    return TracedModel(run.graph, leaves, stored, _parameters(model), names_out, tuple(notes), observed=True)


def _attributes(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for path, module in model.named_modules():
        for name, value in (*vars(module).items(), *module._buffers.items()):
            if isinstance(value, torch.Tensor):
                yield f"{path}.{name}".lstrip("."), value


def from_exported(program: ExportedProgram, model: nn.Module | None = None) -> TracedModel:
    """Return the traced model of an exported program. A live `model` is used with its tensors, to see later changes."""
    live = stored_tensors(model) if model is not None else dict(program.state_dict)
    names = file_names(model) if model is not None else {}
    traced = _read_program(program, live, names)
    if needs_functional_form(traced.graph, {name for name, leaf in traced.leaves.items() if isinstance(leaf, Input)}):
        traced = _read_program(program.run_decompositions({}), live, names)
    return replace(traced, parameters=_parameters(model) if model is not None else traced.parameters)


def _read_program(program: ExportedProgram, stored: Tensors, in_file: Mapping[str, str]) -> TracedModel:
    from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

    leaves: dict[str, Any] = {}
    for spec in program.graph_signature.input_specs:
        name, target = spec.arg.name, in_file.get(str(spec.target), str(spec.target))
        if spec.kind == InputKind.USER_INPUT:
            leaves[name] = spec.arg.value if isinstance(spec.arg, ConstantArgument) else Input(name)
        elif target in stored:
            leaves[name] = StoredTensor(target)
        else:
            held = {**program.constants, **program.state_dict}.get(str(spec.target))
            leaves[name] = HeldTensor(str(spec.target), held) if isinstance(held, torch.Tensor) else held
    kinds = [spec.kind for spec in program.graph_signature.output_specs]
    spec = program.call_spec.out_spec
    named = iter(output_names(spec) if spec is not None else [])
    names = tuple(next(named) if kind == OutputKind.USER_OUTPUT else "" for kind in kinds)
    parameters = {str(s.target) for s in program.graph_signature.input_specs if s.kind == InputKind.PARAMETER}
    return TracedModel(program.graph, leaves, stored, parameters, names)


def with_current_tensors(traced: TracedModel, model: nn.Module) -> TracedModel:
    """Return the same trace with the tensors that the model has now. The model must still have the same structure."""
    held = dict(_attributes(model))

    def leaf(known: Any) -> Any:
        return HeldTensor(known.name, held.get(known.name, known.tensor)) if isinstance(known, HeldTensor) else known

    leaves = {name: leaf(known) for name, known in traced.leaves.items()}
    return replace(traced, leaves=leaves, stored=stored_tensors(model), parameters=_parameters(model))


def file_names(model: nn.Module) -> Mapping[str, str]:
    """Return the names that a file has for a model's stored tensors, where they differ from the model's own."""
    names: Mapping[str, str] = model.__dict__.get(FILE_NAMES, {})
    return names


def stored_tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the model's own tensors by their names in the state_dict, or in the file that the model was read from.
    Hooks that rename entries of the state_dict are ignored."""
    names = file_names(model)
    stored: dict[str, torch.Tensor] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        kept = {k: v for k, v in module._buffers.items() if k not in module._non_persistent_buffers_set}
        for name, tensor in (*module._parameters.items(), *kept.items()):
            if isinstance(tensor, torch.Tensor):
                own = f"{path}.{name}".lstrip(".")
                stored[names.get(own, own)] = tensor
    return stored


def _parameters(model: nn.Module) -> set[str]:
    names = file_names(model)
    return {names.get(name, name) for name, _ in model.named_parameters(remove_duplicate=False)}


class Tree(Protocol):
    """The structure of a value: torch's TreeSpec, or one that was read from a file."""

    @property
    def context(self) -> Any: ...

    def is_leaf(self) -> bool: ...

    def children(self) -> list[Any]: ...


def output_names(spec: Tree) -> list[str]:
    """Return one name per leaf of a pytree: its keys if it has any, otherwise output_0, output_1 ..."""
    return [".".join(path) or "output_0" for path in _paths(spec, "output_")]


def _paths(spec: Tree, prefix: str = "") -> list[tuple[str, ...]]:
    if spec.is_leaf():
        return [()]
    keys = _keys(spec) or [f"{prefix}{i}" for i in range(len(spec.children()))]
    return [(key, *path) for key, child in zip(keys, spec.children(), strict=True) for path in _paths(child)]


def _keys(spec: Tree) -> list[str] | None:
    """Return the keys of a node: dicts have them as context, named tuples in their type."""
    context = spec.context
    fields = getattr(context, "_fields", None)
    if fields:
        return list(fields)
    if isinstance(context, list | tuple) and context and isinstance(context[0], list | tuple):
        context = context[0]
    if isinstance(context, list | tuple) and len(context) == len(spec.children()):
        return [str(key) for key in context]
    return None


def select_outputs(named: Sequence[tuple[str, T]], wanted: Sequence[str]) -> list[tuple[str, T]]:
    """Return the outputs that the user selected by name or position, all if none is selected. A prefix such as
    `past_key_values` selects all outputs below it."""
    if not wanted:
        return list(named)
    picked: list[tuple[str, T]] = []
    for want in wanted:
        matches = [pair for pair in named if pair[0] == want or pair[0].startswith(f"{want}.")]
        if not matches and want.lstrip("-").isdigit() and -len(named) <= int(want) < len(named):
            matches = [named[int(want)]]
        if not matches:
            names = ", ".join(name for name, _ in named)
            raise UsageError(f"the model has no output {want!r}; its outputs are: {names}")
        picked += [pair for pair in matches if pair not in picked]
    return picked
