"""Peak memory and time of `effsparse report` on a Hugging Face folder of 3.2 billion parameters:
`python -m benchmarks.llama3b`. The folder is written shard by shard, pruned, and removed at the end."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

LIMIT = 2.5
"""Maximum resident memory in GiB."""
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 28,
    "num_attention_heads": 24,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
"""The sizes of Llama 3.2 3B, whose head is tied to the embeddings."""
SMALL = {
    "vocab_size": 4096,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
}
DEAD = 16
"""Number of rows of each gate projection that are pruned completely, so that some connections are inactive."""


def shards(config: dict[str, Any]) -> Iterator[dict[str, tuple[int, ...]]]:
    """Return names and shapes by shard: the embeddings, a few layers at a time, the last norm."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    queries = config["num_attention_heads"] * config["head_dim"]
    yield {"model.embed_tokens.weight": (config["vocab_size"], width)}
    for first in range(0, config["num_hidden_layers"], 4):
        shard: dict[str, tuple[int, ...]] = {}
        for i in range(first, min(first + 4, config["num_hidden_layers"])):
            at = f"model.layers.{i}"
            shard |= {
                f"{at}.self_attn.q_proj.weight": (queries, width),
                f"{at}.self_attn.k_proj.weight": (keys, width),
                f"{at}.self_attn.v_proj.weight": (keys, width),
                f"{at}.self_attn.o_proj.weight": (width, queries),
                f"{at}.mlp.gate_proj.weight": (inner, width),
                f"{at}.mlp.up_proj.weight": (inner, width),
                f"{at}.mlp.down_proj.weight": (width, inner),
                f"{at}.input_layernorm.weight": (width,),
                f"{at}.post_attention_layernorm.weight": (width,),
            }
        yield shard
    yield {"model.norm.weight": (width,)}


def weight(name: str, shape: tuple[int, ...], draw: torch.Generator) -> torch.Tensor:
    """Draw a weight in which two of every four inputs are zero."""
    if len(shape) == 1:
        return torch.ones(shape, dtype=torch.bfloat16)
    values = torch.empty(shape, dtype=torch.bfloat16).random_(1, 128, generator=draw).view(-1, 4)
    places = torch.randint(0, 4, (len(values),), generator=draw, dtype=torch.uint8)
    rows = torch.arange(len(values))
    values[rows, places.long()] = 0
    values[rows, (places.long() + 1) % 4] = 0
    values = values.view(shape)
    if name.endswith("gate_proj.weight"):
        values[:DEAD] = 0
    return values


def make(folder: Path, config: dict[str, Any]) -> int:
    """Write the folder and return its number of parameters."""
    draw = torch.Generator().manual_seed(0)
    parts, table, total = list(shards(config)), dict[str, str](), 0
    for i, part in enumerate(parts, 1):
        file = f"model-{i:05}-of-{len(parts):05}.safetensors"
        tensors = {name: weight(name, shape, draw) for name, shape in part.items()}
        save_file(tensors, folder / file, metadata={"format": "pt"})
        table |= dict.fromkeys(part, file)
        total += sum(tensor.numel() for tensor in tensors.values())
    index = {"metadata": {"total_size": 2 * total}, "weight_map": table}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return total


def measure(folder: Path) -> tuple[float, float, dict[str, Any]]:
    """Return seconds, peak GiB and the report."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "effsparse_cli", "report", str(folder), "--format", "json"]
    with tempfile.TemporaryFile() as output, subprocess.Popen(command, stdout=output) as running:
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    seconds = time.perf_counter() - start
    if running.returncode:
        sys.exit(f"{' '.join(command)} gave {running.returncode}")
    return seconds, used.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 2**30, json.loads(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="smoke test with two million parameters")
    parser.add_argument("--where", type=Path, help="folder with 6.5 GB free space [default: system temp]")
    arguments = parser.parse_args()
    config = CONFIG | SMALL if arguments.small else CONFIG
    needed = 2 * sum(torch.Size(shape).numel() for part in shards(config) for shape in part.values())
    with tempfile.TemporaryDirectory(dir=arguments.where) as made:
        folder = Path(made)
        free = shutil.disk_usage(folder).free
        if free < 1.1 * needed:
            sys.exit(f"{folder} has {free / 1e9:.1f} GB free, and the checkpoint needs {needed / 1e9:.1f}: use --where")
        # In a separate process: a process inherits the peak of the one that started it.
        with get_context("spawn").Pool(1) as pool:
            parameters = pool.apply(make, (folder, config))
        seconds, peak, report = measure(folder)
    print(f"{parameters:,} parameters, {needed / 1e9:.2f} GB in {len(list(shards(config)))} shards")
    print(f"report: {seconds:.1f} s, peak RSS {peak:.2f} GiB (limit {LIMIT})")
    print(json.dumps(report["totals"]))
    if peak > LIMIT:
        sys.exit(f"over the limit of {LIMIT} GiB")


if __name__ == "__main__":
    main()
