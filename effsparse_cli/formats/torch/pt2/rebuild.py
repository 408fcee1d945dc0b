"""Rebuild a torch.export program from one that was read, to export it to ONNX or to remove in-place operators. It
consists of operators and names that were checked, and has fixed shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx, nn
from torch._export.verifier import TrainingIRVerifier
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.utils._pytree import tree_flatten, tree_map_only

from effsparse_cli.errors import LoadError
from effsparse_cli.formats.torch.pt2.graph import InterpretedGraph
from effsparse_cli.formats.torch.pt2.operators import UnknownOperator
from effsparse_cli.formats.torch.tracing.trace import HeldTensor, Input, StoredTensor, TracedModel


def to_program(traced: TracedModel) -> ExportedProgram:
    """Return the program. The traced model must not be used afterwards."""
    owner = traced.graph.owning_module
    assert isinstance(owner, InterpretedGraph)
    for graph in _graphs(owner):
        unknown = next((n.target for n in graph.nodes if isinstance(n.target, UnknownOperator)), None)
        if unknown is not None:
            raise LoadError(f"the model calls {unknown}, which effsparse does not know and cannot export to ONNX.")
    with FakeTensorMode(allow_non_fake_inputs=True):
        for graph in _graphs(owner):
            for node in graph.nodes:
                node.meta["val"] = tree_map_only(torch.Tensor, _fake, node.meta.get("val"))
    nodes = [node for node in traced.graph.nodes if node.op == "placeholder"]
    inputs = [_input(traced, node) for node in nodes]
    results = traced.graph.output_node().args[0]
    assert isinstance(results, Sequence)
    returned = [TensorArgument(v.name) if isinstance(v, fx.Node) else ConstantArgument("", v) for v in results]
    outputs = [OutputSpec(OutputKind.USER_OUTPUT, argument, None) for argument in returned]
    given = [(s.arg, n) for s, n in zip(inputs, nodes, strict=True) if s.kind == InputKind.USER_INPUT]
    examples = tuple(_example(argument, node) for argument, node in given)
    called = ModuleCallSignature(
        [argument for argument, _ in given],
        list(returned),
        tree_flatten((examples, {}))[1],
        tree_flatten(tuple(range(len(outputs))))[1],
    )
    held = {leaf.name: leaf.tensor for leaf in traced.leaves.values() if isinstance(leaf, HeldTensor)}
    tensors = {name: tensor.detach() for name, tensor in traced.stored.items()}
    stored = {n: nn.Parameter(t, t.is_floating_point()) if n in traced.parameters else t for n, t in tensors.items()}
    return ExportedProgram(
        root=_make_root(owner),
        graph=traced.graph,
        graph_signature=ExportGraphSignature(inputs, outputs),
        state_dict=stored,
        range_constraints={},
        module_call_graph=[ModuleCallEntry("", called)],
        example_inputs=(examples, {}),
        constants=held,
        verifiers=[TrainingIRVerifier],
    )


def _graphs(body: InterpretedGraph) -> list[fx.Graph]:
    return [module.graph for module in body.modules() if isinstance(module, InterpretedGraph)]


def _make_root(body: InterpretedGraph) -> nn.Module:
    """Return a module with the submodules that torch expects for subgraphs."""
    root = nn.Module()
    for name, inner in body.named_children():
        assert isinstance(inner, InterpretedGraph)
        root.add_module(name, fx.GraphModule(_make_root(inner), inner.graph))
    return root


def _fake(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")


def _input(traced: TracedModel, node: fx.Node) -> InputSpec:
    leaf = traced.leaves[node.name]
    match leaf:
        case Input(name):
            return InputSpec(InputKind.USER_INPUT, TensorArgument(name), None)
        case StoredTensor(name):
            if name in traced.parameters:
                return InputSpec(InputKind.PARAMETER, TensorArgument(node.name), name)
            return InputSpec(InputKind.BUFFER, TensorArgument(node.name), name, persistent=True)
        case HeldTensor(name, _):
            return InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), name)
    return InputSpec(InputKind.USER_INPUT, ConstantArgument(node.name, leaf), None)


def _example(argument: Any, node: fx.Node) -> Any:
    if isinstance(argument, ConstantArgument):
        return argument.value
    return torch.zeros(tuple(node.meta["val"].shape), dtype=node.meta["val"].dtype)
