"""An ONNX model under repair: its protobuf in memory, changed in place. External data is read where it is; what changes
of it is held in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

from effsparse_cli.errors import LoadError
from effsparse_cli.folding.carriers import LayerActivity
from effsparse_cli.folding.decide import INPUT_SEEDS, BiasSlot, ConstantRange, Floats, MeasuredUse
from effsparse_cli.folding.onnx.bias_slots import bias_name, bias_readers, find_following_norm, find_slot, only_for
from effsparse_cli.folding.onnx.contributions import observe, why_fixed
from effsparse_cli.folding.onnx.run import Runner, draw, table_sizes
from effsparse_cli.folding.onnx.unrunnable import find_unrunnable
from effsparse_cli.folding.onnx.wiring import WeightUse, Wiring, find_weight_uses
from effsparse_cli.folding.rounds import Round
from effsparse_cli.folding.unread import ChannelParameters, find_unread
from effsparse_cli.folding.verify import SEEDS, Outputs, differ
from effsparse_cli.formats.onnx.model import build
from effsparse_cli.formats.onnx.model_file import OnnxFile
from effsparse_cli.formats.onnx.parse import malformed_is_load_error
from effsparse_cli.formats.onnx.proto import choose_outputs
from effsparse_cli.formats.onnx.save import add_bias
from effsparse_cli.formats.onnx.tensors.names import layer_names
from effsparse_cli.formats.onnx.tensors.store import Store, masked_tensors
from effsparse_cli.formats.onnx.tensors.stored import Array
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.output import Changes, NewBias
from effsparse_cli.graph.graph import Graph
from effsparse_cli.graph.primitives import Bools, Source

EPSILONS: dict[int, float] = {
    int(TensorProto.DOUBLE): float(np.finfo(np.float64).eps),
    int(TensorProto.FLOAT): float(np.finfo(np.float32).eps),
    int(TensorProto.FLOAT16): float(np.finfo(np.float16).eps),
    int(TensorProto.BFLOAT16): 2.0**-7,
}


@dataclass(eq=False)
class OnnxModel:
    """`arrays` are the stored tensors that have changed, by name, `biases` the new ones. `lowered` is the graph of the
    model before any change, if it is known."""

    model: ModelProto
    path: Path
    options: LoadOptions
    lowered: tuple[Graph, Store] | None = None
    arrays: dict[str, Array] = field(default_factory=dict)
    biases: dict[str, NewBias] = field(default_factory=dict)
    partly_run: bool = False
    _looked_for_idle: bool = False

    def __post_init__(self) -> None:
        self._read()
        self.shapes = {n.op.name: n.shape for n in self._graph.nodes if isinstance(n.op, Source)}
        self.limits = table_sizes(self.wiring)
        self.unrunnable = find_unrunnable(self.model, self.shapes)
        self.partly_run = self.unrunnable.lowered

    def _read(self) -> None:
        self._without_bias: dict[str, WeightUse] = {}
        self._graph, store = self.lowered or build(self.model, self.path, self.options)
        self.lowered = None
        self.wiring = Wiring(self.model, store)
        self.leaves = {name: str(key[0]) for key, name in layer_names(self.model).items() if len(key) == 1}

    @property
    def epsilon(self) -> float:
        kinds = {int(tensor.data_type) for tensor in self.wiring.stored.values() if tensor.dims}
        return max((EPSILONS[kind] for kind in kinds if kind in EPSILONS), default=EPSILONS[int(TensorProto.FLOAT)])

    def graph(self) -> Graph:
        return self._graph

    def guard(self) -> AbstractContextManager[None]:
        return malformed_is_load_error(self.path, self.model)

    def changes(self, masks: Mapping[str, Bools]) -> Changes:
        return Changes(tensors=self.arrays, biases=tuple(self.biases.values()))

    @property
    def not_run(self) -> tuple[str, ...]:
        return self.unrunnable.labels

    def outputs(self, seed: int) -> Outputs:
        """Run the model without its unrunnable operators; return the values to compare, as far as they can be run."""
        if not self.partly_run:
            try:
                if self.unrunnable.labels and not self._looked_for_idle:
                    self._find_idle()
                return self._run(self._compared(), seed)
            except LoadError:
                if not self.unrunnable.labels:
                    raise
                # The results of unrunnable operators have other shapes than assumed.
                self.partly_run = True
        return self._run([name for name in self._compared() if name not in self.unrunnable.dependents], seed)

    def _compared(self) -> list[str]:
        chosen = choose_outputs([value.name for value in self.model.graph.output], self.options.outputs)
        return self.unrunnable.compared(self.model, chosen)

    def _find_idle(self) -> None:
        """Find unrunnable operators whose results do not matter: neither for outputs nor for inputs of the others."""
        runner = Runner(self.unrunnable.remove_from(self.model), self.path.parent, self._compared())
        drawn, *others = [self._draw(seed) for seed in (*SEEDS, *INPUT_SEEDS)]
        before, operators = runner(drawn), self.unrunnable.operators(self.model)
        # An operator that only an idle one reads is idle too, so start with the last.
        for writes, _ in reversed(operators):
            counted = self._compared()
            afters = [runner({**drawn, **{name: each[name] for name in writes}}) for each in others]
            pairs = [(i, after) for after in afters for i, name in enumerate(runner.wanted) if name in counted]
            if not any(differ([before[i]], [after[i]]) for i, after in pairs):
                self.unrunnable = replace(self.unrunnable, idle=self.unrunnable.idle | writes)
        self._looked_for_idle = True

    def _run(self, names: Sequence[str], seed: int) -> Outputs:
        return (
            Runner(self.unrunnable.remove_from(self.model), self.path.parent, names)(self._draw(seed)) if names else []
        )

    def _draw(self, seed: int) -> dict[str, Array]:
        return draw(self.model, self.unrunnable, shapes=self.shapes, limits=self.limits, seed=seed)

    def why_fixed(self, activity: LayerActivity) -> str:
        return why_fixed(self.wiring, self.leaves.get(activity.layer.name), activity)

    def measure(self, activity: Mapping[str, LayerActivity]) -> dict[str, list[MeasuredUse]]:
        # No constant can be measured after an unrunnable operator.
        uses = {
            name: some
            for name, some in self._weight_uses(activity).items()
            if not any(use.node.input[0] in self.unrunnable.dependents for use in some)
        }
        watched = [(use, activity[name]) for name, some in uses.items() for use in some]
        if not watched:
            return {}
        drawn = [self._draw(seed) for seed in INPUT_SEEDS]
        try:
            ranges = iter(
                observe(self.wiring, self.unrunnable.remove_from(self.model), self.path.parent, watched, drawn)
            )
        except LoadError:
            if self.unrunnable.labels:
                return {}
            raise
        return {name: [self._measured(use, some, next(ranges)) for use in some] for name, some in uses.items()}

    def _measured(self, use: WeightUse, uses: list[WeightUse], measured: ConstantRange) -> MeasuredUse:
        slot, why_no_slot = find_slot(self.wiring, use, uses, len(measured.low))
        if slot is not None and slot.new:
            self._without_bias[slot.name] = use
        return MeasuredUse(measured, slot, why_no_slot)

    def find_unread(self, activity: Mapping[str, LayerActivity]) -> dict[str, Bools]:
        return find_unread(self._parameters(activity), lambda name: self.wiring.value(name, {}))

    def _parameters(self, activity: Mapping[str, LayerActivity]) -> Iterator[ChannelParameters]:
        wiring = self.wiring
        for name, uses in self._weight_uses(activity).items():
            output = activity[name].output
            if output is None or len(uses) != 1 or not output.dead.any():
                continue
            slot = find_slot(wiring, uses[0], uses, len(output.dead))[0] if bias_name(wiring, uses[0]) else None
            bias = slot if slot is not None and not slot.new else None
            norm = find_following_norm(wiring, uses[0])
            names = (norm.scale, norm.shift, norm.mean) if norm is not None else ()
            own = tuple(name for name in names if norm is not None and only_for(wiring, name, [norm.node]))
            yield ChannelParameters(output, bias, norm.scale if norm is not None else None, own)

    def _weight_uses(self, activity: Mapping[str, LayerActivity]) -> dict[str, list[WeightUse]]:
        """Return the uses of layers that only known operators use."""
        found = {}
        for name, each in activity.items():
            if self.leaves.get(name) in self.wiring.stored:
                uses, lookups, known = find_weight_uses(self.wiring, self.leaves[name])
                if uses and known and len(uses) + lookups == len(each.uses):
                    found[name] = uses
        return found

    def apply(self, changes: Round) -> None:
        new: dict[str, Array] = {}
        for layer, kept in changes.kept.items():
            stored = self.wiring.store.under(layer)
            assert stored is not None
            new |= masked_tensors(stored, kept, self.leaves)
        for slot, amount in changes.amounts:
            if not slot.new:
                new[slot.name] = self._sum(new, slot, amount)
        for name, where in changes.zeroed.items():
            array = new.get(name, self.wiring.value(name, {}))
            new[name] = np.where(where, np.zeros((), array.dtype), array)
        for name, array in new.items():
            self._put(name, array)
        for slot, amount in changes.amounts:
            if slot.new:
                self._add(slot, amount)
        self._read()

    def _sum(self, new: Mapping[str, Array], slot: BiasSlot, amount: Floats) -> Array:
        array = new.get(slot.name, self.wiring.value(slot.name, {}))
        flat = array.astype(np.float64).reshape(-1)
        flat[slot.index] += slot.sign * amount
        return flat.astype(array.dtype).reshape(array.shape)

    def _put(self, name: str, array: Array) -> None:
        self.wiring.stored[name].CopyFrom(numpy_helper.from_array(array, self.wiring.stored[name].name))
        if name in self.biases:
            self.biases[name] = replace(self.biases[name], values=array)
        else:
            self.arrays[name] = array

    def _add(self, slot: BiasSlot, amount: Floats) -> None:
        use = self._without_bias[slot.name]
        shared = bias_name(self.wiring, use) or ""
        reader = bias_readers(self.wiring, use)[0] if shared else use.node
        kind = self.wiring.value(use.weight, {}).dtype
        values = amount + self.wiring.value(shared, {}).reshape(-1) if shared else amount
        bias = NewBias(reader.output[0], slot.name, values.astype(kind), shared)
        self.biases[slot.name] = bias
        add_bias(self.model, bias)


def open_onnx(file: OnnxFile) -> OnnxModel:
    """Return a copy of a file's model in memory."""
    lowered, model = file.lowered(), file.whole_model()
    with malformed_is_load_error(file.path, model):
        return OnnxModel(model, file.path, file.options, lowered)
