"""Hand-written analyses, one for each statement that a report can make."""

from __future__ import annotations

from dataclasses import replace

from effsparse_cli.analysis.results import Analysis, Counts, LayerResult, Layers


def layer(
    name: str,
    op: str,
    shape: tuple[int, ...],
    counts: Counts,
    neurons: int | None = None,
    dead: int = 0,
    pattern: str = "",
) -> LayerResult:
    return LayerResult(name, op, shape, counts, shape[0] if neurons is None else neurons, dead, pattern)


def layers(*results: LayerResult) -> Layers:
    return Layers(results)


HEADLINE = Analysis(
    layers=layers(
        layer("fc1.weight", "linear", (300, 784), Counts(235_200, 2_352, 212, no_output=2_140), dead=276),
        layer("fc2.weight", "linear", (100, 300), Counts(30_000, 300, 30, no_output=266, both=4), dead=91),
        layer("fc3.weight", "linear", (10, 100), Counts(1_000, 10, 9, no_input=1), dead=1),
    ),
    input_shapes={"input": (1, 784)},
    narrowest="fc3.weight",
    notes=("input shape 1x784 inferred from the first layer",),
)
DENSE = Analysis(
    layers=layers(
        layer("fc.weight", "linear", (4, 3), Counts(12, 12, 12)),
    ),
    input_shapes={"input": (1, 3)},
    narrowest="fc.weight",
)
NO_GAP = Analysis(
    layers=layers(
        layer("fc1.weight", "linear", (100, 100), Counts(10_000, 1_000, 1_000)),
        layer("fc2.weight", "linear", (10, 100), Counts(1_000, 100, 100)),
    ),
    input_shapes={"input": (1, 100)},
    narrowest="fc2.weight",
)
TINY_GAP = Analysis(
    layers=layers(
        layer("fc1.weight", "linear", (1000, 1000), Counts(1_000_000, 100_001, 100_000, no_output=1)),
        layer("fc2.weight", "linear", (10, 1000), Counts(10_000, 10_000, 10_000)),
    ),
    input_shapes={"input": (1, 1000)},
    narrowest="fc2.weight",
)
DISCONNECTED = Analysis(
    layers=layers(
        layer("fc1.weight", "linear", (300, 784), Counts(235_200, 24, 0, no_output=24), dead=300),
        layer("fc2.weight", "linear", (100, 300), Counts(30_000, 3, 0, both=3), dead=100),
        layer("fc3.weight", "linear", (10, 100), Counts(1_000, 0, 0), dead=10),
    ),
    input_shapes={"input": (1, 784)},
    disconnected=True,
    cut="fc2.weight",
)
EMPTY = replace(
    DISCONNECTED,
    layers=layers(
        layer("fc.weight", "linear", (2, 2), Counts(4, 0, 0), dead=2),
    ),
    cut="fc.weight",
)
SHORTCUT = replace(
    DISCONNECTED,
    disconnected=False,
    cut=None,
    layers=layers(
        layer("fc.weight", "linear", (2, 2), Counts(4, 1, 0, both=1)),
    ),
)
PADDING = Analysis(
    layers=layers(
        layer(
            "layer4.0.conv1.weight", "conv2d", (512, 256, 3, 3), Counts(1_179_648, 1_179_648, 524_288, padding=655_360)
        ),
        layer("fc.weight", "linear", (1000, 512), Counts(512_000, 512_000, 512_000)),
    ),
    input_shapes={"x": (1, 3, 32, 32)},
    narrowest="fc.weight",
)
CARRIERS = Analysis(
    layers=layers(
        layer("conv1.weight", "conv2d", (6, 3, 5, 5), Counts(450, 126, 116, no_output=10), dead=1),
        layer("fc1.weight", "linear", (10, 24), Counts(240, 40, 30, no_input=7, both=3, bias_carriers=7), dead=2),
    ),
    input_shapes={"x": (1, 3, 8, 8)},
    narrowest="fc1.weight",
)
LANGUAGE = Analysis(
    layers=layers(
        layer("encoder.layers.0.self_attn.in_proj_weight", "attention", (96, 32), Counts(3_072, 307, 250, 20, 30, 7)),
        layer("encoder.layers.0.self_attn.out_proj.weight", "linear", (32, 32), Counts(1_024, 102, 102)),
        layer("a_name_from_a_wide_script_層の重み.weight", "linear", (8, 32), Counts(256, 1, 1)),
    ),
    apart=(layer("tokens.weight", "embedding", (64, 32), Counts(2_048, 2_048, 2_000, no_output=48)),),
    input_shapes={"tokens": (1, 8), "mask": (1, 8)},
    narrowest="encoder.layers.0.self_attn.out_proj.weight",
    unknown=("mylib::twist", "aten.histc"),
    notes=("aux_head.weight is used by no operator",),
    engine="saturated",
)
PATTERNS = Analysis(
    layers=layers(
        layer("conv1.weight", "conv2d", (16, 3, 3, 3), Counts(432, 432, 432)),
        layer("conv2.weight", "conv2d", (32, 16, 3, 3), Counts(4_608, 2_304, 2_304), pattern="2:4"),
        layer(
            "conv3.weight", "conv2d", (32, 32, 3, 3), Counts(9_216, 4_608, 4_500, no_output=108), dead=2, pattern="2:4"
        ),
        layer("fc.weight", "linear", (16, 128), Counts(2_048, 512, 512), pattern="4x4 blocks"),
    ),
    input_shapes={"x": (1, 3, 32, 32)},
    narrowest="fc.weight",
)
WRITTEN = {
    "headline": HEADLINE,
    "dense": DENSE,
    "no_gap": NO_GAP,
    "tiny_gap": TINY_GAP,
    "disconnected": DISCONNECTED,
    "empty": EMPTY,
    "shortcut": SHORTCUT,
    "padding": PADDING,
    "carriers": CARRIERS,
    "language": LANGUAGE,
    "patterns": PATTERNS,
}
CASES = {
    name: replace(case, viewer_nodes={("graph", f"/{x.name}"): (x.name,) for x in (*case.layers, *case.apart)})
    for name, case in WRITTEN.items()
}
"""As if each model were an ONNX file."""
