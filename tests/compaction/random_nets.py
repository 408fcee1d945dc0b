"""Random small convolutional networks as ONNX models: chains with residual sums, concatenations, splits, grouped and
depthwise convolutions, functions that do not keep zero, optionally unknown operators, then a flatten. Whole rows and
columns of their weights are zero."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

SIZE = 5
BATCH = 2


FUNCTIONS = (
    ["Relu"], ["Sigmoid"], ["Tanh"], ["Tanh", "Acos"], ["Cos"], ["Tanh", "Exp"], ["Softplus"], ["Abs", "Neg"],
    ["HardSigmoid"],
)  # fmt: skip
OWN = "my.ops"


def twist() -> FunctionProto:
    """The unknown operator as a function: everything depends on everything, and zero is not kept."""
    body = [
        helper.make_node("ReduceMean", ["x"], ["mean"], keepdims=0),
        helper.make_node("Add", ["x", "mean"], ["sum"]),
        helper.make_node("Cos", ["sum"], ["y"]),
    ]
    return helper.make_function(OWN, "Twist", ["x"], ["y"], body, [helper.make_opsetid("", 18)])


@dataclass
class Maker:
    dice: np.random.Generator
    unknown: bool = False
    nodes: list[NodeProto] = field(default_factory=list)
    stored: list[TensorProto] = field(default_factory=list)

    def op(self, kind: str, inputs: list[str], outputs: int = 1, **attributes: Any) -> list[str]:
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names

    def store(self, array: NDArray[Any]) -> str:
        name = f"t{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *shape: int) -> str:
        """Return a weight that is dense except for rows and columns of zeros."""
        array = self.dice.standard_normal(shape)
        array[self.dice.random(shape[0]) < 0.4] = 0
        array[:, self.dice.random(shape[1]) < 0.4] = 0
        return self.store(array.astype(np.float32))

    def vector(self, size: int) -> str:
        array = self.dice.standard_normal(size) * (self.dice.random(size) < 0.5)
        return self.store(array.astype(np.float32))

    def conv(self, x: str, before: int, after: int, groups: int = 1) -> str:
        size = int(self.dice.choice([1, 3]))
        weight = self.weight(after, before // groups, size, size)
        bias = [self.vector(after)] if self.dice.random() < 0.5 else []
        return self.op("Conv", [x, weight, *bias], group=groups, pads=[size // 2] * 4)[0]

    def norm(self, x: str, channels: int) -> str:
        positive = self.store(self.dice.uniform(0.5, 2, channels).astype(np.float32))
        return self.op("BatchNormalization", [x, *(self.vector(channels) for _ in range(3)), positive])[0]

    def step(self, values: list[tuple[str, int]]) -> tuple[str, int]:
        """Add a value, [batch, channels, SIZE, SIZE], computed from existing ones."""
        x, channels = values[int(self.dice.integers(len(values)))]
        kinds = ["conv", "grouped", "depthwise", "function", "norm", "add", "concat", "split", "gate", "pool"]
        kind = self.dice.choice([*kinds, "unknown"] if self.unknown else kinds)
        alike = [v for v, n in values if n == channels]
        other = str(self.dice.choice(alike))
        match kind:
            case "grouped" if channels % 2 == 0:
                after = 2 * int(self.dice.integers(1, 5))
                return self.conv(x, channels, after, groups=2), after
            case "depthwise":
                factor = int(self.dice.integers(1, 3))
                return self.conv(x, channels, channels * factor, groups=channels), channels * factor
            case "function":
                for each in FUNCTIONS[int(self.dice.integers(len(FUNCTIONS)))]:
                    x = self.op(each, [x])[0]
                return x, channels
            case "unknown":
                return self.op("Twist", [x], domain=OWN)[0], channels
            case "norm":
                return self.norm(x, channels), channels
            case "add" | "gate":
                return self.op("Add" if kind == "add" else "Mul", [x, other])[0], channels
            case "concat" if channels < 12:
                y, more = values[int(self.dice.integers(len(values)))]
                return self.op("Concat", [x, y], axis=1)[0], channels + more
            case "split" if channels > 1:
                first = int(self.dice.integers(1, channels))
                sizes = self.store(np.array([first, channels - first], np.int64))
                return self.op("Split", [x, sizes], 2, axis=1)[1], channels - first
            case "pool":
                return self.op("MaxPool", [x], kernel_shape=[3, 3], pads=[1] * 4)[0], channels
        after = int(self.dice.integers(2, 9))
        return self.conv(x, channels, after), after


def random_net(seed: int, steps: int, unknown: bool = False) -> ModelProto:
    maker = Maker(np.random.default_rng(seed), unknown)
    values = [("x", 3)]
    for _ in range(steps):
        values.append(maker.step(values))
    last, channels = values[-1]
    flat = maker.op("Flatten", [last])[0]
    hidden = maker.op("Gemm", [flat, maker.weight(6, channels * SIZE * SIZE), maker.vector(6)], transB=1)[0]
    head = maker.op("MatMul", [maker.op("Relu", [hidden])[0], maker.weight(6, 4)])[0]
    maker.nodes[-1].output[0] = "y"
    assert head
    graph = helper.make_graph(
        maker.nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, 3, SIZE, SIZE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        maker.stored,
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(OWN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)
