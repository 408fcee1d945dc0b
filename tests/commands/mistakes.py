"""Forty and more mistakes: the files they need, and the command lines. `test_mistakes.py` runs them."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper
from safetensors.torch import save_file
from torch import nn

from effsparse_cli.formats.torch.arch.built_in import BUILT_IN
from tests.commands.conftest import SAMPLES

MISTAKES = """
# commands and options
effsparse prun lenet5.pt --target 0.99
effsparse report
effsparse report figure1.pt --formatt json
effsparse report figure1.pt --format
effsparse report figure1.pt --format yaml
effsparse report figure1.pt --sort effectiv
effsparse diff figure1.pt lenet5.pt lenet300.pt
effsparse check figure1.pt --select EFF999
effsparse check --explain EFF013

# numbers
effsparse prune lenet5.pt --target 99.9
effsparse prune lenet5.pt --target half
effsparse prune lenet5.pt --target 1
effsparse prune lenet5.pt --compression 0.5
effsparse prune lenet5.pt
effsparse prune lenet5.pt --target 0.99 --compression 100
effsparse prune lenet5.pt --target 0.99 --seed x
effsparse check figure1.pt --max-gap 5
effsparse check figure1.pt --jobs 0
effsparse curve lenet5.pt --points 1

# choices, and options that contradict each other or have no effect
effsparse prune lenet5.pt --target 0.99 --method magnitud
effsparse prune lenet5.pt --target 0.99 --lsq ideal-gas
effsparse prune lenet5.pt --target 0.99 --rounds 10
effsparse prune lenet5.pt --target 0.99 --erk-strict
effsparse prune lenet5.pt --target 0.99 --method snip
effsparse prune lenet5.pt --target 0.99 --pattern 4:2
effsparse prune lenet5.pt --target 0.99 --only fc9*
effsparse prune lenet5.pt --target 0.99 --in-place -o pruned.pt
effsparse prune lenet5.pt --target 0.99 --masks-only
effsparse curve lenet5.pt --seeds 3
effsparse report figure1.pt lenet5.pt --layers fc*
effsparse repair lenet5.pt --reconnect --budget-neutral
effsparse repair lenet5.pt --dense dense.pt
effsparse report figure1.pt --direct-only --active-masks active.npz
effsparse report figure1.pt --device cuda
effsparse report figure1.pt --format model-explorer
effsparse annotate figure1.pt -o annotated.onnx
effsparse annotate two_inputs.onnx

# input shapes
effsparse report conv.pt --input-shape 1,3,32
effsparse report conv.pt --input-shape 3x32x32x0
effsparse report lenet5.pt --input-shape 1,3,64,64
effsparse report two_inputs.onnx
effsparse report two_inputs.onnx --input-shape left=1,4 --input-shape middle=1,4
effsparse report figure1.pt --dim batch
effsparse report figure1.pt --outputs logits

# checkpoints without a graph
effsparse report state.pt
effsparse report state.pt --arch lenet5
effsparse report state.pt --arch resnet18
effsparse report state.pt --arch lenet-5
effsparse report state.pt --arch models:build
effsparse report training.ckpt --arch lenet-300-100 --key emma
effsparse report hub/model.safetensors
effsparse report meta-llama/Llama-3.2-1B
effsparse report https://example.com/model.onnx

# files
effsparse report lenet5.pth
effsparse report folder
effsparse report text.pt
effsparse report empty.pt
effsparse report page.onnx
effsparse report lfs.onnx
effsparse report code.pt
effsparse report truncated.pt

# masks
effsparse report lenet5.pt --masks absent.npz
effsparse report lenet5.pt --masks other_masks.npz
effsparse report lenet5.pt --masks wrong_shape.npz
effsparse report lenet5.pt --masks text.pt

# outputs
effsparse prune lenet5.pt --target 0.99 -o lenet5.pt
effsparse prune lenet5.pt --target 0.99 -o figure1.pt
effsparse prune lenet5.pt --target 0.99 -o absent/pruned.pt
effsparse prune lenet5.pt --target 0.99 -o folder
effsparse prune lenet5.pt --target 0.99 -o pruned.onnx
effsparse prune lenet5.pt --target 0.99 --masks-only -o masks.pt
effsparse report figure1.pt -o out.npz --active-masks out.npz
effsparse compact lenet5.pt -o small.tflite
effsparse quotas lenet5.pt --target 0.99 --plot quotas.gif

# targets and checks
effsparse prune lenet5.pt --target 0.99999 -o pruned.pt
effsparse check figure1.pt --min-effective 0.9
effsparse check figure1.pt --baseline text.pt
effsparse check absent/
effsparse check folder
"""


class Runs:
    """A pickle of this class would run a command when it is loaded."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        import os

        return os.system, ("echo gotcha",)


def make_files(folder: Path) -> None:
    """Write the files that the command lines name."""
    for name, sample in (("figure1", "figure1"), ("lenet5", "lenet5_igq"), ("lenet300", "lenet300_uniform99")):
        shutil.copy(SAMPLES / f"{sample}.pt", folder / f"{name}.pt")
    torch.manual_seed(0)
    conv = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3))
    torch.save(conv, folder / "conv.pt")
    state = BUILT_IN["lenet-300-100"].make().state_dict()
    torch.save(state, folder / "state.pt")
    torch.save({"ema": state, "epoch": 3}, folder / "training.ckpt")
    (folder / "hub").mkdir()
    (folder / "hub" / "config.json").write_text("{}")
    save_file(dict(conv.state_dict()), folder / "hub" / "model.safetensors")
    onnx.save(two_inputs(), str(folder / "two_inputs.onnx"))
    (folder / "folder").mkdir()
    (folder / "text.pt").write_text("weights, to be trained\n")
    (folder / "empty.pt").touch()
    (folder / "page.onnx").write_text("<!DOCTYPE html><title>404</title>")
    (folder / "lfs.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    (folder / "code.pt").write_bytes(pickle.dumps({"weight": Runs()}))
    (folder / "truncated.pt").write_bytes((folder / "lenet5.pt").read_bytes()[:5000])
    for name, key in (("other_masks", "encoder.weight"), ("wrong_shape", "fc3.weight")):
        masks: dict[str, Any] = {key: np.ones((4, 4), bool)}
        np.savez(folder / f"{name}.npz", **masks)


def two_inputs() -> onnx.ModelProto:
    sizes = ["batch", "width"]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name in ("left", "right", "sum")]
    weight = helper.make_tensor("weight", TensorProto.FLOAT, [4, 4], np.eye(4, dtype=np.float32).tobytes(), raw=True)
    nodes = [
        helper.make_node("MatMul", ["left", "weight"], ["product"]),
        helper.make_node("Add", ["product", "right"], ["sum"]),
    ]
    return helper.make_model(helper.make_graph(nodes, "two", ends[:2], ends[2:], [weight]))
