"""Harmful exported programs: each maker writes one into a folder. If code were executed, it would create the canary,
print its name, or use up memory or time."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.formats.torch.checkpoint.hostile import Harmful
from tests.formats.torch.pt2.programs import (
    LONG,
    MODEL,
    SAMPLES,
    WEIGHTS,
    Parts,
    edited,
    ints,
    meta,
    pack,
    parts,
    tensor,
)

CANARY = "canary"
HUGE = 10**12
Maker = Callable[[Path], Path]
MAKERS: dict[str, Maker] = {}


def maker(function: Maker) -> Maker:
    MAKERS[function.__name__] = function
    return function


def edits(function: Callable[[Parts, Path], object]) -> Callable[[Parts, Path], object]:
    """Return a maker that changes parts of a harmless program."""

    def make(folder: Path) -> Path:
        return edited(folder / f"{function.__name__}.pt2", lambda made: function(made, folder / CANARY))

    MAKERS[function.__name__] = make
    return function


def harmful(canary: Path) -> bytes:
    return pickle.dumps(Harmful(os.system, f"touch {canary}"), protocol=2)


# Code


@edits
def pickled_weight(made: Parts, canary: Path) -> None:
    made.weights["config"]["0.weight"]["use_pickle"] = True
    made.members["data/weights/weight_0"] = harmful(canary)


@edits
def pickled_constant(made: Parts, canary: Path) -> None:
    entry = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
    made.members["data/constants/model_constants_config.json"] = json.dumps({"config": {"c": entry}}).encode()
    made.members["data/constants/opaque_obj_0"] = harmful(canary)


@edits
def pickled_samples(made: Parts, canary: Path) -> None:
    made.members[SAMPLES] = harmful(canary)


@edits
def older_pickled_weights(made: Parts, canary: Path) -> None:
    made.members["data/weights/model.pt"] = harmful(canary)


@maker
def second_index(folder: Path) -> Path:
    """Two members have the same name: a reader that checks the last and loads the first would run the pickle."""
    return _doubled(folder / "second_index.pt2", folder / CANARY, harmful_first=True)


@maker
def first_index(folder: Path) -> Path:
    return _doubled(folder / "first_index.pt2", folder / CANARY, harmful_first=False)


def _doubled(path: Path, canary: Path, harmful_first: bool) -> Path:
    plain, other = parts(), parts()
    pickled_weight(other, canary)
    one, two = (other, plain) if harmful_first else (plain, other)
    rest = {**plain.members, "data/weights/weight_0": other.members["data/weights/weight_0"]}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {WEIGHTS: one.contents()[WEIGHTS], **rest, MODEL: one.contents()[MODEL]}.items():
            archive.writestr(f"m/{name}", content)
        archive.filelist[:] = archive.filelist
        archive.NameToInfo.clear()
        archive.writestr(f"m/{WEIGHTS}", two.contents()[WEIGHTS])
    return path


@edits
def input_named_like_code(made: Parts, canary: Path) -> None:
    """torch.fx generates source code that contains the names of values."""
    name = f"y=open({str(canary)!r},'w')"
    made.graph["inputs"].append(tensor(name))
    made.graph["tensor_values"][name] = meta([2])
    made.program["graph_module"]["signature"]["input_specs"].append({"user_input": {"arg": tensor(name)}})


@edits
def value_named_like_code(made: Parts, canary: Path) -> None:
    name = f"x;open({str(canary)!r},'w');y"
    made.call("torch.ops.aten.relu.default", name, [2, 3], self=tensor("linear"))


@edits
def body_named_like_code(made: Parts, canary: Path) -> None:
    body = {**made.graph, "nodes": [], "inputs": [], "outputs": []}
    name = f"x\nopen({str(canary)!r},'w')"
    made.call("torch.ops.higher_order.wrap_with_set_grad_enabled", "wrapped", [2, 3], a={"as_bool": False},
              b={"as_graph": {"name": name, "graph": body}})  # fmt: skip


@edits
def a_function_as_operator(made: Parts, canary: Path) -> None:
    made.graph["nodes"][0]["target"] = "torch.os.system"


@edits
def an_attribute_as_operator(made: Parts, canary: Path) -> None:
    made.graph["nodes"][0]["target"] = "torch.ops.aten.__class__.__init__.__globals__"


@edits
def another_module_as_operator(made: Parts, canary: Path) -> None:
    made.graph["nodes"][0]["target"] = "_operator.methodcaller"


@edits
def a_library_as_operator(made: Parts, canary: Path) -> None:
    made.graph["nodes"][0]["target"] = "torch.ops.load_library"


@edits
def a_size_that_imports(made: Parts, canary: Path) -> None:
    size = {"as_expr": {"expr_str": f"__import__('os').system('touch {canary}')", "hint": {"as_int": 2}}}
    made.graph["tensor_values"]["input"]["sizes"][0] = size


@edits
def a_size_that_looks_around(made: Parts, canary: Path) -> None:
    size = {"as_expr": {"expr_str": "Integer(len([].__class__.__base__.__subclasses__()))", "hint": {"as_int": 2}}}
    made.graph["tensor_values"]["linear"]["sizes"][0] = size


@edits
def a_range_that_imports(made: Parts, canary: Path) -> None:
    made.program["range_constraints"] = {f"__import__('os').system('touch {canary}')": {"min_val": 0, "max_val": 4}}


@edits
def a_key_that_imports(made: Parts, canary: Path) -> None:
    """JSON in JSON: a search of the text for __enum__ does not find it."""
    (canary.parent / "imported.py").write_text(f"open({str(canary)!r}, 'w').close()\n")
    key = r'[{"\u005f_enum__": true, "fqn": "imported:Key", "name": "A"}]'
    leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
    spec = json.dumps([1, {"type": "builtins.dict", "context": key, "children_spec": [leaf]}])
    made.program["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = spec


@edits
def a_default_that_imports(made: Parts, canary: Path) -> None:
    context = {"default_factory_module": "imported", "default_factory_name": "x", "dict_context": ["a"]}
    leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
    tree = {"type": "collections.defaultdict", "context": json.dumps(context), "children_spec": [leaf]}
    made.program["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = json.dumps([1, tree])


@edits
def a_compiled_library(made: Parts, canary: Path) -> None:
    made.members["data/aotinductor/model/model.so"] = b"\x7fELF"


# Operators


@edits
def opens_a_file(made: Parts, canary: Path) -> None:
    """The operator would create the file, and writing to the result would write to the file."""
    path, shared, size = {"as_string": str(canary)}, {"as_bool": True}, {"as_int": 4}
    made.call("torch.ops.aten.from_file.default", "file", [4], filename=path, shared=shared, size=size)
    made.finish("file")


@edits
def prints(made: Parts, canary: Path) -> None:
    node = {"target": "torch.ops.aten._print.default", "outputs": [], "metadata": {}, "name": "shown"}
    text = {"name": "s", "arg": {"as_string": CANARY}, "kind": 1}
    made.graph["nodes"].insert(0, {**node, "inputs": [text], "is_hop_single_tensor_return": None})


@edits
def reads_past_its_memory(made: Parts, canary: Path) -> None:
    ones = made.call("torch.ops.aten.ones.default", "ones", [2], LONG, size=ints(2))
    given: dict[str, Any] = dict.fromkeys(("crow_indices", "col_indices", "values"), tensor(ones))
    made.call("torch.ops.aten._sparse_csr_tensor_unsafe.default", "sparse", [4], **given, size=ints(1, HUGE))
    made.finish("sparse")


@edits
def ones(made: Parts, canary: Path) -> None:
    made.finish(made.call("torch.ops.aten.ones.default", "ones", [4], size=ints(4 * 10**9)))


@edits
def doubling(made: Parts, canary: Path) -> None:
    name = made.call("torch.ops.aten.ones.default", "ones", [1], size=ints(1))
    for i in range(40):
        both = {"as_tensors": [{"name": name}, {"name": name}]}
        name = made.call("torch.ops.aten.cat.default", f"cat_{i}", [1], tensors=both)
    made.finish(name)


@edits
def repeated(made: Parts, canary: Path) -> None:
    name = made.call("torch.ops.aten.ones.default", "ones", [1], size=ints(1))
    made.finish(made.call("torch.ops.aten.repeat.default", "all", [1], self=tensor(name), repeats=ints(HUGE)))


@edits
def stretched_and_copied(made: Parts, canary: Path) -> None:
    name = made.call("torch.ops.aten.ones.default", "ones", [1, 1], size=ints(1, 1))
    size = ints(10**6, 10**6)
    name = made.call("torch.ops.aten.expand.default", "wide", [1, 1], self=tensor(name), size=size)
    made.finish(made.call("torch.ops.aten.clone.default", "copy", [1, 1], self=tensor(name)))


@edits
def summed_without_memory(made: Parts, canary: Path) -> None:
    """The results are small, the work is endless."""
    name = made.call("torch.ops.aten.ones.default", "ones", [1, 1], size=ints(1, 1))
    size = ints(10**6, 10**6)
    made.finish(made.call("torch.ops.aten.expand.default", "wide", [1, 1], self=tensor(name), size=size))


@edits
def outer_product(made: Parts, canary: Path) -> None:
    name = made.call("torch.ops.aten.ones.default", "ones", [1], size=ints(10**6))
    made.finish(made.call("torch.ops.aten.outer.default", "outer", [1], self=tensor(name), vec2=tensor(name)))


@edits
def kronecker_product(made: Parts, canary: Path) -> None:
    name = made.call("torch.ops.aten.ones.default", "ones", [1], size=ints(10**6))
    made.finish(made.call("torch.ops.aten.kron.default", "kron", [1], self=tensor(name), other=tensor(name)))


@edits
def long_einsum(made: Parts, canary: Path) -> None:
    name = made.call("torch.ops.aten.ones.default", "ones", [1, 1], size=ints(2000, 2000))
    given = {"as_tensors": [{"name": name}] * 3}
    made.finish(
        made.call("torch.ops.aten.einsum.default", "sum_", [1], equation={"as_string": "ij,jk,lm->ikl"}, tensors=given)
    )


@edits
def many_pieces(made: Parts, canary: Path) -> None:
    name = made.call("torch.ops.aten.ones.default", "ones", [1], size=ints(1))
    name = made.call("torch.ops.aten.expand.default", "wide", [1], self=tensor(name), size=ints(10**9))
    made.call("torch.ops.aten.unbind.int", "pieces", [1], self=tensor(name))
    made.finish("pieces")


@edits
def endless_power(made: Parts, canary: Path) -> None:
    number = {"as_int": 1 << 60}
    inputs = [{"name": key, "arg": number, "kind": 1} for key in "ab"]
    node = {"target": "_operator.pow", "inputs": inputs, "outputs": [{"as_sym_int": {"as_name": "pow_1"}}]}
    made.graph["nodes"].insert(0, {**node, "metadata": {}, "is_hop_single_tensor_return": None, "name": "pow_1"})
    made.graph["sym_int_values"]["pow_1"] = {"as_int": 1}


@edits
def endless_layers(made: Parts, canary: Path) -> None:
    """An LSTM with 10^12 layers."""
    state = made.call("torch.ops.aten.zeros.default", "state", [1, 2, 4], size=ints(1, 2, 4))
    flags = {name: {"as_bool": False} for name in ("has_biases", "train", "bidirectional", "batch_first")}
    made.call("torch.ops.aten.lstm.input", "recurrent", [1], input=tensor("input"), num_layers={"as_int": HUGE},
              hx={"as_tensors": [{"name": state}] * 2}, params={"as_tensors": [{"name": "p_0_weight"}] * 2},
              dropout={"as_float": 0.0}, **flags)  # fmt: skip
    made.finish("recurrent")


# Data


@maker
def deep_json(folder: Path) -> Path:
    return pack(folder / "deep_json.pt2", {**parts().contents(), MODEL: b"[" * 500_000 + b"]" * 500_000})


@maker
def long_number(folder: Path) -> Path:
    made = parts().contents()
    content = made[MODEL].replace(b'"as_int": 4', b'"as_int": ' + b"9" * 900_000, 1)
    return pack(folder / "long_number.pt2", {**made, MODEL: content})


@maker
def not_a_number(folder: Path) -> Path:
    made = parts().contents()
    return pack(folder / "not_a_number.pt2", {**made, MODEL: made[MODEL].replace(b'"as_int": 4', b'"as_int": NaN', 1)})


@maker
def one_key_twice(folder: Path) -> Path:
    made = parts().contents()
    content = made[WEIGHTS].replace(b'"use_pickle": false', b'"use_pickle": false, "use_pickle": true')
    return pack(folder / "one_key_twice.pt2", {**made, WEIGHTS: content})


@maker
def packed_json(folder: Path) -> Path:
    """200 MB of JSON in 200 KB."""
    content = b'{"a": [' + b"{}," * 60_000_000 + b"{}]}"
    return pack(folder / "packed_json.pt2", {**parts().contents(), MODEL: content}, zipfile.ZIP_DEFLATED)


@edits
def huge_symbol(made: Parts, canary: Path) -> None:
    size = {"as_expr": {"expr_str": "Pow(Symbol('s0', integer=True), Integer(60))", "hint": {"as_int": 1 << 62}}}
    made.graph["tensor_values"]["linear"]["sizes"][0] = size


@edits
def short_record(made: Parts, canary: Path) -> None:
    made.members["data/weights/weight_0"] = made.members["data/weights/weight_0"][:-4]


@edits
def tensor_beyond_its_record(made: Parts, canary: Path) -> None:
    made.weights["config"]["0.weight"]["tensor_meta"]["storage_offset"]["as_int"] = 1000


@edits
def backward_strides(made: Parts, canary: Path) -> None:
    made.weights["config"]["0.weight"]["tensor_meta"]["strides"][0]["as_int"] = -4


@edits
def repeated_record(made: Parts, canary: Path) -> None:
    """A stored tensor of a terabyte in a few bytes."""
    for written in (made.weights["config"]["0.weight"]["tensor_meta"], made.graph["tensor_values"]["p_0_weight"]):
        written.update(meta([10**6, 10**5]), strides=[{"as_int": 0}] * 2)
