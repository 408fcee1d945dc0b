"""The graph of an ONNX model as repair sees it: which op calls use each stored tensor, directly or after a chain of
nodes that only moves or masks it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from onnx import ModelProto, NodeProto, TensorProto

from effsparse_cli.formats.onnx.lowering.constants import evaluate
from effsparse_cli.formats.onnx.operators import Contraction
from effsparse_cli.formats.onnx.ops import find_operator
from effsparse_cli.formats.onnx.proto import attribute, free_names, subgraphs
from effsparse_cli.formats.onnx.tensors.keys import stored_constant
from effsparse_cli.formats.onnx.tensors.store import Store
from effsparse_cli.formats.onnx.tensors.stored import Array
from effsparse_cli.formats.operands import Lookup


@dataclass(frozen=True, eq=False)
class WeightUse:
    """One op call by a weight: the names of the `stored` tensor and of the call's own input, `weight`."""

    node: NodeProto
    stored: str
    weight: str

    @property
    def contraction(self) -> Contraction:
        contraction = find_contraction(self.node)
        assert contraction is not None
        return contraction


@dataclass(eq=False)
class Wiring:
    """The main graph of a model, and the store that reads its tensors."""

    model: ModelProto
    store: Store

    @cached_property
    def opset(self) -> int:
        return max((int(o.version) for o in self.model.opset_import if o.domain in ("", "ai.onnx")), default=1)

    @cached_property
    def stored(self) -> dict[str, TensorProto]:
        """Dense tensors of the main graph by name; those of Constant nodes by the name of the output."""
        found = {tensor.name: tensor for tensor in self.model.graph.initializer}
        for node in self.model.graph.node:
            tensor = stored_constant(node)
            if isinstance(tensor, TensorProto):
                found[node.output[0]] = tensor
        return found

    @cached_property
    def makers(self) -> dict[str, NodeProto]:
        return {name: node for node in self.model.graph.node for name in node.output if name}

    @cached_property
    def readers(self) -> dict[str, list[NodeProto]]:
        found: dict[str, list[NodeProto]] = {}
        for node in self.model.graph.node:
            inner = free_names([node], set()) if any(True for _ in subgraphs(node)) else set(node.input)
            for name in inner:
                found.setdefault(name, []).append(node)
        return found

    @cached_property
    def outputs(self) -> set[str]:
        return {value.name for value in self.model.graph.output}

    @cached_property
    def constant(self) -> set[str]:
        """Names of values that do not depend on the model's inputs."""
        found = set(self.stored)
        for node in self.model.graph.node:
            if node.op_type == "Constant" or (node.input and all(not name or name in found for name in node.input)):
                found.update(node.output)
        return found

    def uses(self, stored: str) -> Iterator[tuple[NodeProto, str]]:
        """Yield every node that uses a stored tensor, with the name of the input."""
        for given in self._forms(stored):
            yield from ((node, given) for node in self.readers.get(given, ()) if not self._is_followed(node))

    def reaches_output(self, stored: str) -> bool:
        """Whether a stored tensor, or a constant computed from it, is an output of the model."""
        return any(given in self.outputs for given in self._forms(stored))

    def _forms(self, stored: str) -> list[str]:
        """Return the name of a stored tensor, and the names of constants computed from it."""
        found = [stored]
        for given in found:
            made = [node.output[0] for node in self.readers.get(given, ()) if self._is_followed(node)]
            found += [name for name in dict.fromkeys(made) if name not in found]
        return found

    def _is_followed(self, node: NodeProto) -> bool:
        followed = len(node.output) == 1 and node.output[0] in self.constant and find_contraction(node) is None
        return followed and not any(True for _ in subgraphs(node))

    def value(self, name: str, given: Mapping[str, Array]) -> Array:
        """Evaluate a constant, with other arrays for some stored tensors."""
        if name in given:
            return given[name]
        if name in self.stored:
            return self.store.tensor((name,), self.stored[name]).array
        node = self.makers[name]
        inputs = [self.value(each, given) if each else None for each in node.input]
        return evaluate(node, inputs, self.opset)[0]


def find_weight_uses(wiring: Wiring, stored: str) -> tuple[list[WeightUse], int, bool]:
    """Return the contractions by a stored tensor, the number of lookups in it, and whether it has no other uses."""
    uses, lookups, all_found = [], 0, stored not in wiring.outputs
    for node, given in wiring.uses(stored):
        operator = find_operator(node)
        if operator is not None and operator.contraction and _is_weight(wiring, node, operator.contraction, given):
            uses.append(WeightUse(node, stored, given))
        elif operator is not None and operator.lookup and _is_table(node, operator.lookup, given):
            lookups += 1
        else:
            all_found = False
    return uses, lookups, all_found


def find_contraction(node: NodeProto) -> Contraction | None:
    operator = find_operator(node)
    return operator.contraction if operator is not None else None


def _is_weight(wiring: Wiring, node: NodeProto, contraction: Contraction, name: str) -> bool:
    """Whether the constant is the weight of a contraction that repair can handle."""
    if [i for i, given in enumerate(node.input) if given == name] != [contraction.weight]:
        return False
    if any(attribute(node, key, default) != default for key, default in contraction.attributes.items()):
        return False
    if contraction.weight_rank is None:
        return True
    try:
        return wiring.value(name, {}).ndim == contraction.weight_rank
    except Exception:  # computed by an operator that cannot be evaluated
        return False


def _is_table(node: NodeProto, lookup: Lookup, name: str) -> bool:
    return node.input[lookup.table] == name and not attribute(node, "axis", 0)
