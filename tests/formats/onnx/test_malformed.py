"""Models that parse but are invalid: each gives a message and exit code 3, or is measured with an Opaque operator, and
never looks like a bug of the tool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, TensorProto, helper

from effsparse_cli.cli import run
from effsparse_cli.errors import LoadError
from effsparse_cli.formats.onnx.parse import malformed_is_load_error
from tests.formats.onnx.hostile.build import node
from tests.formats.onnx.models import graph, mlp, model, tensor

Build = Callable[[], ModelProto]
LOCAL = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
WEIGHT = np.ones((4, 4), np.float32)


def network(*nodes: NodeProto, functions: Sequence[FunctionProto] = (), **stored: NDArray[Any]) -> ModelProto:
    return model(graph(nodes, {"x": (1, 4)}, ["y"], {"w": WEIGHT, **stored}), functions)


def function_without_its_output() -> ModelProto:
    made = helper.make_function("local", "F", ["a"], ["gone"], [node("Neg", "a", "b")], LOCAL)
    return network(node("F", "x", "h", domain="local"), node("MatMul", "h w", "y"), functions=[made])


def function_without_its_input() -> ModelProto:
    made = helper.make_function("local", "F", [], ["b"], [node("Neg", "a", "b")], LOCAL)
    return network(node("F", "x", "h", domain="local"), node("MatMul", "h w", "y"), functions=[made])


def no_inputs() -> ModelProto:
    return network(node("Relu", "", "h"), node("Gemm", "h w", "y"))


def empty_input() -> ModelProto:
    return network(helper.make_node("Relu", [""], ["h"]), node("Gemm", "h w", "y"))


def no_outputs() -> ModelProto:
    return network(node("Relu", "x", ""), node("MatMul", "x w", "y"))


def constant_without_a_value() -> ModelProto:
    return network(node("Constant", "", "c"), node("Add", "x c", "h"), node("MatMul", "h w", "y"))


def constant_without_an_output() -> ModelProto:
    return network(helper.make_node("Constant", [], [], value=tensor("", WEIGHT)), node("MatMul", "x w", "y"))


def branch_that_is_missing() -> ModelProto:
    return network(node("If", "yes", "h"), node("MatMul", "h w", "y"), yes=np.asarray(True))


def branch_that_is_a_number() -> ModelProto:
    return network(node("If", "yes", "h", then_branch=3, else_branch=4), node("MatMul", "h w", "y"),
                   yes=np.asarray(True))  # fmt: skip


def loop_of_another_shape() -> ModelProto:
    body = graph([node("Neg", "a", "b")], {"a": (1, 4)}, ["b"])
    return network(node("Loop", "n yes x", "h", body=body), node("MatMul", "h w", "y"), n=np.asarray(3),
                   yes=np.asarray(True))  # fmt: skip


def sequence_of_other_shapes() -> ModelProto:
    return network(node("SequenceConstruct", "x v", "s"), node("ConcatFromSequence", "s", "h", axis=1),
                   node("MatMul", "h w", "y"), v=np.ones((2, 3, 4), np.float32))  # fmt: skip


def operands_of_other_types() -> ModelProto:
    """Evaluated only when the weight is needed."""
    return network(node("BitShift", "w two", "v", direction="LEFT"), node("MatMul", "x v", "y"),
                   two=np.asarray(2, np.float32))  # fmt: skip


def rows_of_nothing() -> ModelProto:
    return network(node("Gemm", "x e", "y", transB=1), e=np.ones((0, 4), np.float32))


def attribute_of_another_type() -> ModelProto:
    return network(node("Transpose", "w", "v", perm="sideways"), node("MatMul", "x v", "y"))


def attribute_of_no_type() -> ModelProto:
    content = network(node("Transpose", "w", "v"), node("MatMul", "x v", "y"))
    content.graph.node[0].attribute.append(AttributeProto(name="perm"))
    return content


def huge_axis() -> ModelProto:
    return network(node("Concat", "w w", "v", axis=10**12), node("MatMul", "x v", "y"))


def sizes_of_another_type() -> ModelProto:
    return network(node("Reshape", "w shape", "v"), node("MatMul", "x v", "y"), shape=np.asarray(["4", "4"], object))


def too_few_inputs() -> ModelProto:
    return network(node("Conv", "x", "y"))


def too_many_inputs() -> ModelProto:
    return network(node("MatMul", "x w w w", "y"))


def scalar_condition_of_no_elements() -> ModelProto:
    branch = graph([node("MatMul", "x w", "r")], {}, ["r"])
    return network(node("If", "yes", "y", then_branch=branch, else_branch=branch), yes=np.ones(0, bool))


def two_functions_of_one_name() -> ModelProto:
    made = [helper.make_function("local", "F", ["a"], ["b"], [node(op, "a", "b")], LOCAL) for op in ("Neg", "Abs")]
    return network(node("F", "x", "h", domain="local"), node("MatMul", "h w", "y"), functions=made)


def negative_opset() -> ModelProto:
    content = network(node("MatMul", "x w", "y"))
    content.opset_import[0].version = -5
    return content


def text_in_a_file_beside() -> ModelProto:
    content = network(helper.make_node("Identity", ["w"], ["t"]), w=np.ones((4, 4), np.float32))
    (stored,) = (t for t in content.graph.initializer if t.name == "w")
    stored.ClearField("raw_data")
    stored.data_type = TensorProto.STRING
    stored.data_location = TensorProto.EXTERNAL
    stored.external_data.add(key="location", value="weights.bin")
    return content


def graph_of_no_name_and_type() -> ModelProto:
    content, _ = mlp()
    content.graph.input[0].type.Clear()
    content.graph.name = ""
    return content


MALFORMED: list[Build] = [
    function_without_its_output, function_without_its_input, no_inputs, empty_input, no_outputs,
    constant_without_a_value, constant_without_an_output, branch_that_is_missing, branch_that_is_a_number,
    loop_of_another_shape, sequence_of_other_shapes, operands_of_other_types, rows_of_nothing,
    attribute_of_another_type, attribute_of_no_type, huge_axis, sizes_of_another_type, too_few_inputs, too_many_inputs,
    scalar_condition_of_no_elements, two_functions_of_one_name, negative_opset, graph_of_no_name_and_type,
    text_in_a_file_beside,
]  # fmt: skip


@pytest.mark.parametrize("build", MALFORMED, ids=lambda build: str(build.__name__))
def test_report_never_fails_with_a_bug(build: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(build().SerializeToString())
    code = run(["report", str(path)])
    said = capsys.readouterr().err
    assert code in (0, 2, 3), said
    assert code == 0 or said.strip().splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize("command", ["repair", "compact", "prune --target 0.5"])
def test_commands_that_change_models_never_fail_with_a_bug(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.onnx"
    name, *options = command.split()
    for build in MALFORMED:
        path.write_bytes(build().SerializeToString())
        code = run([name, str(path), *options])
        assert code in (0, 2, 3), (build.__name__, capsys.readouterr().err)


def test_error_quotes_the_checker() -> None:
    content = network(node("MatMul", "x", "y"))
    with (
        pytest.raises(LoadError, match=r"not a valid ONNX model: .* input size 1"),
        malformed_is_load_error(Path("m.onnx"), content),
    ):
        raise KeyError("any")


def test_bug_on_a_valid_model_is_not_hidden() -> None:
    content = network(node("MatMul", "x w", "y"))
    content.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, [1, 4]))
    with pytest.raises(KeyError), malformed_is_load_error(Path("m.onnx"), content):
        raise KeyError("any")


@pytest.mark.parametrize("error", [MemoryError, RecursionError])
def test_too_large_is_a_load_error(error: type[Exception]) -> None:
    with pytest.raises(LoadError), malformed_is_load_error(Path("m.onnx"), mlp()[0]):
        raise error


def field(number: int, content: bytes) -> bytes:
    """Encode a field of a protobuf message."""
    size, length = len(content), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def test_graphs_nested_deeper_than_protobuf_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Written as bytes, because protobuf cannot write it."""
    inner = graph([node("MatMul", "x w", "r")], {}, ["r"]).SerializeToString()
    for _ in range(1000):
        inner = field(
            1, node("If", "yes", "r").SerializeToString() + field(5, field(1, b"then_branch") + field(6, inner))
        )
    path = tmp_path / "m.onnx"
    path.write_bytes(network(node("MatMul", "x w", "y")).SerializeToString() + field(7, inner))
    assert run(["report", str(path)]) == 3
    assert "cannot be parsed" in capsys.readouterr().err
