"""The network of a report: its reachability is that of the graph, and known architectures look as they should."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from effsparse_cli.analysis.network import Network, NetworkNode, find_network
from effsparse_cli.graph.builder import Builder
from effsparse_cli.graph.graph import Graph, Layer
from effsparse_cli.graph.primitives import Pick, Scan, Source, Weight
from tests.analysis.networks import MODULES, graph_of, module_graph
from tests.torchvision_models import models
from tests.witnesses.graphs import graphs

models()  # torchvision and transformers need its operators defined first

Ends = list[tuple[str, str, frozenset[int]]]
"""Kind, name, and everything before it, of each input, use of a layer and output."""


class Reach:
    """A witness: what depends on what in one step of every loop, by sets that follow each value."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.ends = graph, Ends()
        values = self.follow(graph, None)
        for number, output in enumerate(graph.outputs, 1):
            self.end("output", "output" if len(graph.outputs) == 1 else f"output {number}", values[output])

    def end(self, kind: str, name: str, before: Iterable[int]) -> frozenset[int]:
        self.ends.append((kind, name, frozenset(before)))
        return frozenset([*before, len(self.ends) - 1])

    def follow(self, graph: Graph, given: list[frozenset[int]] | None) -> list[frozenset[int]]:
        values: list[frozenset[int]] = []
        for node in graph.nodes:
            before = frozenset[int]().union(*(values[i] for i in node.inputs))
            if isinstance(node.op, Source):
                before = self.end("input", node.op.name, ()) if given is None else given.pop(0)
            elif isinstance(node.op, Scan):
                inside = self.follow(node.op.body, [values[i] for i in node.inputs])
                before = frozenset[int]().union(*(inside[i] for i in node.op.body.outputs))
            operands = [op.layer for op in (graph.nodes[i].op for i in node.inputs) if isinstance(op, Weight)]
            mixed = self.graph.mixed_weights
            names = [
                name for operand in operands for name in (mixed[operand].sources if operand in mixed else [operand])
            ]
            values.append(before.union(*(self.end("layer", name, before) for name in names)))
        return values


def reach(network: Network) -> Ends:
    """Return the same for a network."""
    before: list[set[int]] = [set() for _ in network.nodes]
    for start, end in sorted(network.edges, key=lambda edge: edge[1]):
        before[end] |= before[start] | {start}
    shown = [i for i, node in enumerate(network.nodes) if node.kind != "junction"]
    place = {i: k for k, i in enumerate(shown)}
    return [
        (network.nodes[i].kind, network.nodes[i].name, frozenset(place[k] for k in before[i] if k in place))
        for i in shown
    ]


def check(graph: Graph) -> None:
    network = find_network(graph)
    expected, found = Reach(graph).ends, reach(network)
    assert [end[:2] for end in found] == [end[:2] for end in expected]
    if any(isinstance(node.op, Scan) for node in graph.nodes):
        # What an earlier step has left in a state leads to a layer too.
        assert all(mine <= other for (_, _, mine), (_, _, other) in zip(expected, found, strict=True))
    else:
        assert found == expected
    assert set(graph.layers) <= {node.name for node in network.nodes if node.kind == "layer"}
    assert len(set(network.edges)) == len(network.edges)
    assert all(start < end for start, end in network.edges)
    entering = Counter(end for _, end in network.edges)
    leaving = {start for start, _ in network.edges}
    for i, node in enumerate(network.nodes):
        assert node.kind != "junction" or (entering[i] > 1 and i in leaving)
        assert node.kind != "input" or not entering[i]
        assert node.kind != "output" or i not in leaving


@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
@given(graphs())
def test_generated_graphs(graph: Graph) -> None:
    check(graph)


@pytest.mark.parametrize("name", MODULES)
def test_torch_modules(name: str) -> None:
    check(module_graph(name, 1.0))


def edges_by_name(network: Network) -> set[tuple[str, str]]:
    return {(network.nodes[start].name, network.nodes[end].name) for start, end in network.edges}


def test_resnet18() -> None:
    graph = graph_of(models().resnet18(), torch.zeros(1, 3, 64, 64))
    check(graph)
    network = find_network(graph)
    junctions = [node for node in network.nodes if node.kind == "junction"]
    blocks = [("layer" + str(stage), str(block)) for stage in range(1, 5) for block in range(2)]
    assert junctions == [NetworkNode("junction", "add", block) for block in blocks]
    assert [node.name for node in network.nodes if node.kind == "layer"] == list(graph.layers)
    edges = edges_by_name(network)
    assert {("x", "conv1"), ("conv1", "layer1.0.conv1"), ("conv1", "add"), ("layer2.0.downsample.0", "add")} <= edges
    assert ("add", "fc") in edges
    assert ("fc", "output") in edges
    assert len(network.edges) == len(network.nodes) - 1 + len(junctions)
    assert network.nodes[1] == NetworkNode("layer", "conv1", ())
    assert NetworkNode("layer", "layer2.0.downsample.0", ("layer2", "0", "downsample")) in network.nodes


def test_densenet() -> None:
    from torchvision.models.densenet import DenseNet

    graph = graph_of(DenseNet(4, (2, 3), 8, num_classes=5), torch.zeros(1, 3, 32, 32))
    check(graph)
    words = Counter(node.name for node in find_network(graph).nodes if node.kind == "junction")
    assert words.keys() == {"concat"}
    assert words["concat"] == 2 + 3


def test_vision_transformer() -> None:
    from torchvision.models.vision_transformer import VisionTransformer

    graph = graph_of(
        VisionTransformer(image_size=16, patch_size=8, num_layers=2, num_heads=2, hidden_dim=8, mlp_dim=16),
        torch.zeros(1, 3, 16, 16),
    )
    check(graph)
    network = find_network(graph)
    words = Counter(node.name for node in network.nodes if node.kind == "junction")
    assert words["add"] == 2 * 2
    blocks = {node.module[:3] for node in network.nodes if node.name == "add"}
    assert blocks == {("encoder", "layers", f"encoder_layer_{i}") for i in range(2)}


def test_llama() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=30, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, use_cache=False,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    graph = graph_of(model, (torch.zeros((1, 4), dtype=torch.long),))
    check(graph)
    network = find_network(graph)
    junctions = [node for node in network.nodes if node.kind == "junction"]
    layers = [node for node in network.nodes if node.kind == "layer"]
    assert len(layers) == 1 + 2 * 7 + 1
    # Two products of attention, one gate and two residual sums in each block.
    assert Counter(node.name for node in junctions) == {"multiply": 2 * 3, "add": 2 * 2}
    edges = edges_by_name(network)
    for i in range(2):
        attention = f"model.layers.{i}.self_attn"
        assert {(f"{attention}.{x}_proj", "multiply") for x in "qkv"} | {("multiply", f"{attention}.o_proj")} <= edges
        assert {node.module for node in junctions if node.module[:3] == ("model", "layers", str(i))} == {
            ("model", "layers", str(i), "self_attn"),
            ("model", "layers", str(i), "mlp"),
            ("model", "layers", str(i)),
        }


def test_recurrent_layers_meet_in_a_scan() -> None:
    network = find_network(module_graph("sequence", 1.0))
    edges = edges_by_name(network)
    for end in ("", "_reverse"):
        for weight in ("ih", "hh"):
            name = f"lstm.weight_{weight}_l0{end}"
            assert {("x", name), (name, "scan")} <= edges
            assert NetworkNode("layer", name, ("lstm",)) in network.nodes
    assert ("x", "scan") not in edges
    assert ("scan", "concat") in edges


def test_unknown_operators_and_dead_ends() -> None:
    b = Builder()
    layers = [Layer(name, "linear", (2, 2), lambda: torch.ones(2, 2).numpy() > 0) for name in ("a", "b", "c")]
    x, y = b.source("x", (1, 2)), b.source("y", (1, 2))
    first = b.contract(x, b.weight(layers[0]))
    both = b.opaque("custom::op", [first, y, b.weight(layers[1]), b.weight(layers[2])], (1, 2))
    b.join(first, y)  # leads nowhere
    alone = b.opaque("custom::one", [both], (1, 2))
    network = find_network(b.finish([alone, first]))
    assert [(node.kind, node.name) for node in network.nodes] == [
        ("input", "x"),
        ("input", "y"),
        ("layer", "a"),
        ("layer", "b"),
        ("layer", "c"),
        ("junction", "custom::op"),
        ("output", "output 1"),
        ("output", "output 2"),
    ]
    assert network.edges == ((0, 2), (1, 3), (2, 3), (1, 4), (2, 4), (3, 5), (4, 5), (5, 6), (2, 7))


def test_picks_read_the_scan() -> None:
    b = Builder()
    layer = Layer("a", "linear", (2, 2), lambda: torch.ones(2, 2).numpy() > 0)
    x, z = b.source("x", (1, 2)), b.source("z", (1, 2))
    picked = b.scan(lambda body, v: [body.contract(v[0], body.weight(layer)), v[1]], [x, z], steps=2)
    graph = b.finish(picked)
    assert isinstance(graph.nodes[picked[0]].op, Pick)
    network = find_network(graph)
    assert edges_by_name(network) >= {("x", "a"), ("z", "a"), ("a", "scan"), ("z", "scan"), ("scan", "output 1")}
