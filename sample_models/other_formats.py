"""The sample models that are not torch modules: ONNX files, a state_dict with masks, and a Hugging Face folder.

Everything is built from tensors, without exporters, so that the files depend on no version of torch or transformers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils import prune

from sample_models import make

Array = NDArray[np.generic]
SIZES = (64, 48, 32, 10)
ZERO_POINT = 128
HIDDEN, INNER, HEADS, BLOCKS, VOCABULARY = 32, 64, 4, 2, 64


def write_lenet5_onnx(path: Path) -> None:
    """Write the LeNet-5 of lenet5_igq.pt."""
    tensors = {name: value.numpy() for name, value in make.build("lenet5_igq.pt").state_dict().items()}
    nodes, x = [], "input"
    for name in ("conv1", "conv2"):
        nodes += [
            helper.make_node("Conv", [x, f"{name}.weight", f"{name}.bias"], [name], name),
            helper.make_node("Relu", [name], [f"{name}_relu"]),
            helper.make_node("MaxPool", [f"{name}_relu"], [f"{name}_pool"], kernel_shape=[2, 2], strides=[2, 2]),
        ]
        x = f"{name}_pool"
    nodes.append(helper.make_node("Flatten", [x], ["flat"]))
    nodes += _linear_layers("flat", ["fc1", "fc2", "fc3"], "{}.weight", tensors)
    _save(path, nodes, tensors, (1, 3, 32, 32))


def write_masked_onnx(path: Path) -> None:
    """Write a network whose masks are still separate tensors, multiplied with the weights at run time."""
    rng = np.random.default_rng(0)
    names = ["fc1", "fc2", "fc3"]
    nodes, tensors = [], _biases(names)
    for name, inputs, outputs in zip(names, SIZES, SIZES[1:], strict=False):
        tensors[f"{name}.weight"] = rng.standard_normal((outputs, inputs)).astype(np.float32)
        tensors[f"{name}.weight_mask"] = (rng.random((outputs, inputs)) < 0.05).astype(np.float32)
        nodes.append(helper.make_node("Mul", [f"{name}.weight", f"{name}.weight_mask"], [f"{name}.masked"]))
    nodes += _linear_layers("input", names, "{}.masked", tensors)
    _save(path, nodes, tensors, (1, SIZES[0]))


def write_quantized_onnx(path: Path) -> None:
    """Write a network with uint8 weights, in which a pruned weight is stored as the zero point 128, not as 0."""
    rng = np.random.default_rng(0)
    names = ["fc1", "fc2", "fc3"]
    nodes, tensors = [], _biases(names)
    for name, inputs, outputs in zip(names, SIZES, SIZES[1:], strict=False):
        weight = rng.integers(1, 256, (outputs, inputs))
        weight[rng.random((outputs, inputs)) >= 0.05] = ZERO_POINT
        tensors[f"{name}.weight"] = weight.astype(np.uint8)
        tensors[f"{name}.scale"] = np.array(0.01, np.float32)
        tensors[f"{name}.zero_point"] = np.array(ZERO_POINT, np.uint8)
        parts = [f"{name}.{part}" for part in ("weight", "scale", "zero_point")]
        nodes.append(helper.make_node("DequantizeLinear", parts, [f"{name}.dequantized"]))
    nodes += _linear_layers("input", names, "{}.dequantized", tensors)
    _save(path, nodes, tensors, (1, SIZES[0]))


def _biases(names: Sequence[str]) -> dict[str, Array]:
    return {f"{name}.bias": np.zeros(size, np.float32) for name, size in zip(names, SIZES[1:], strict=True)}


def _linear_layers(x: str, names: Sequence[str], weight: str, tensors: Mapping[str, Array]) -> list[onnx.NodeProto]:
    nodes = []
    for name in names:
        last = name == names[-1]
        result = "output" if last else name
        nodes.append(helper.make_node("Gemm", [x, weight.format(name), f"{name}.bias"], [result], name, transB=1))
        x = f"{name}_relu"
        if not last:
            nodes.append(helper.make_node("Relu", [name], [x]))
    return nodes


def _save(path: Path, nodes: Sequence[onnx.NodeProto], tensors: Mapping[str, Array], shape: Sequence[int]) -> None:
    graph = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, (1, SIZES[-1]))],
        [numpy_helper.from_array(value, name) for name, value in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="sample")
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString(deterministic=True))


def write_state_dict(path: Path) -> None:
    """Write the state_dict of a LeNet-5 pruned by torch.nn.utils.prune: `weight_orig` and `weight_mask`."""
    torch.manual_seed(0)
    model = make.lenet5_network()
    for layer in model.children():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            prune.l1_unstructured(layer, "weight", amount=0.97)  # type: ignore[no-untyped-call]
    torch.save(model.state_dict(), path)


def write_llama(folder: Path) -> None:
    """Write a Llama with random weights, pruned 2:4 except for the output head."""
    folder.mkdir(exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "max_position_embeddings": 128,
        "model_type": "llama",
        "num_attention_heads": HEADS,
        "num_hidden_layers": BLOCKS,
        "num_key_value_heads": HEADS // 2,
        "rms_norm_eps": 1e-05,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "vocab_size": VOCABULARY,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    grouped = HIDDEN // 2
    shapes = {"model.embed_tokens": (VOCABULARY, HIDDEN), "lm_head": (VOCABULARY, HIDDEN)}
    for block in range(BLOCKS):
        attention, mlp = f"model.layers.{block}.self_attn", f"model.layers.{block}.mlp"
        shapes |= {f"{attention}.q_proj": (HIDDEN, HIDDEN), f"{attention}.k_proj": (grouped, HIDDEN)}
        shapes |= {f"{attention}.v_proj": (grouped, HIDDEN), f"{attention}.o_proj": (HIDDEN, HIDDEN)}
        shapes |= {f"{mlp}.gate_proj": (INNER, HIDDEN), f"{mlp}.up_proj": (INNER, HIDDEN)}
        shapes |= {f"{mlp}.down_proj": (HIDDEN, INNER)}
    generator = torch.Generator().manual_seed(0)
    tensors = {f"{name}.weight": torch.randn(shape, generator=generator) * 0.1 for name, shape in shapes.items()}
    for name, weight in tensors.items():
        if ".layers." in name:
            # Keep the two largest of every four weights in a row.
            groups = weight.view(-1, 4)
            groups.scatter_(1, groups.abs().topk(2, largest=False).indices, 0.0)
    norms = ["model.norm"]
    norms += [
        f"model.layers.{block}.{name}"
        for block in range(BLOCKS)
        for name in ("input_layernorm", "post_attention_layernorm")
    ]
    tensors |= {f"{name}.weight": torch.ones(HIDDEN) for name in norms}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


OTHER_FORMATS: Mapping[str, Callable[[Path], None]] = {
    "lenet5.onnx": write_lenet5_onnx,
    "masked.onnx": write_masked_onnx,
    "quantized.onnx": write_quantized_onnx,
    "lenet5_masks.pth": write_state_dict,
    "llama_tiny": write_llama,
}
