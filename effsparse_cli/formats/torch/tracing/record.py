"""Record one real run of a model, operator by operator below autograd, as a graph of aten operators."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import TreeSpec, tree_flatten, tree_flatten_with_path, tree_map

from effsparse_cli.formats.torch.tracing.aliasing import needs_functional_form
from effsparse_cli.formats.torch.values import Arg


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Gives every tensor a node, a leaf if no operator returned it. Tensors are held so that no id is used twice."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = fx.Graph()
        self.leaves: dict[str, torch.Tensor] = {}
        self.seen: dict[int, tuple[torch.Tensor, fx.Node]] = {}
        self.places: list[str] = []

    def add_leaf(self, tensor: torch.Tensor) -> fx.Node:
        first = next((n for n in self.graph.nodes if n.op != "placeholder"), self.graph._root)
        with self.graph.inserting_before(first):
            node = self.graph.placeholder(f"leaf_{len(self.leaves)}")
        self.leaves[node.name] = tensor
        return self.register(tensor, node)

    def register(self, tensor: torch.Tensor, node: fx.Node) -> fx.Node:
        node.meta["val"] = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
        self.seen[id(tensor)] = (tensor, node)
        return node

    def node(self, value: Arg) -> Arg:
        if not isinstance(value, torch.Tensor):
            return value
        return self.seen[id(value)][1] if id(value) in self.seen else self.add_leaf(value)

    def __torch_dispatch__(self, func: Arg, types: object, args: Arg = (), kwargs: Arg = None) -> Arg:
        kwargs = kwargs or {}
        nodes, named = tree_map(self.node, (tuple(args), dict(kwargs)))
        result = func(*args, **kwargs)
        node = self.graph.call_function(func, nodes, named)
        node.meta["nn_module_stack"] = {"place": (self.places[-1], None)} if self.places else {}
        if isinstance(result, torch.Tensor):
            self.register(result, node)
        elif isinstance(result, list | tuple):
            blank = partial(torch.empty_like, device="meta")
            node.meta["val"] = tree_map(lambda t: blank(t) if isinstance(t, torch.Tensor) else t, result)
            for i, tensor in enumerate(result):
                if isinstance(tensor, torch.Tensor):
                    self.register(tensor, self.graph.call_function(operator.getitem, (node, i)))
        return result


@dataclass(frozen=True)
class Recorded:
    """`leaves` are the tensors of placeholders, `inputs` the names of those that are model inputs, `spec` the structure
    that the model returned, `hidden` the types in it that torch cannot flatten."""

    graph: fx.Graph
    leaves: dict[str, torch.Tensor]
    inputs: dict[str, str]
    spec: TreeSpec
    hidden: tuple[str, ...]


def record(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Recorded:
    recorder = _Recorder()
    inputs: dict[str, str] = {}
    for path, value in tree_flatten_with_path((args, dict(kwargs)))[0]:
        if isinstance(value, torch.Tensor) and id(value) not in recorder.seen:
            name = "_".join(str(getattr(key, "idx", getattr(key, "key", ""))) for key in path[1:])
            inputs[recorder.add_leaf(value).name] = f"input_{name}" if name.isdigit() else name
    hooks = [hook for name, module in model.named_modules() for hook in _hooks(module, name, recorder.places)]
    try:
        with sdpa_kernel([SDPBackend.MATH]), torch.backends.mkldnn.flags(enabled=False), torch.no_grad(), recorder:
            result = model(*args, **kwargs)
    finally:
        for hook in hooks:
            hook.remove()
    flat, spec = tree_flatten(result)
    recorder.graph.output(tuple(recorder.node(v) if isinstance(v, torch.Tensor) else None for v in flat))
    aliased = needs_functional_form(recorder.graph, set(inputs))
    graph = _functional(recorder) if aliased else recorder.graph
    visible = (torch.Tensor, bool, int, float, str, type(None))
    hidden = tuple(sorted({type(value).__name__ for value in flat if not isinstance(value, visible)}))
    return Recorded(graph, recorder.leaves, inputs, spec, hidden)


def _functional(recorder: _Recorder) -> fx.Graph:
    """Return the graph without in-place operators, by torch's functionalization. Placeholders keep their names."""
    module = fx.GraphModule(nn.Module(), recorder.graph)
    leaves = [node for node in recorder.graph.nodes if node.op == "placeholder"]
    blank = [torch.zeros(node.meta["val"].shape, dtype=node.meta["val"].dtype) for node in leaves]
    with preserve_node_meta():
        run = make_fx(torch.func.functionalize(fx.Interpreter(module).run, remove="mutations"), tracing_mode="fake")
        functional = run(*blank)
    renamed = (node for node in functional.graph.nodes if node.op == "placeholder")
    for node, leaf in zip(renamed, leaves, strict=True):
        node.name = leaf.name
    return functional.graph


def _hooks(module: nn.Module, name: str, places: list[str]) -> list[Any]:
    def leave(*_: object) -> None:
        places.pop()

    return [
        module.register_forward_pre_hook(lambda *_: places.append(name), prepend=True),
        module.register_forward_hook(leave, always_call=True),
    ]
