"""Hypothesis strategies for any analysis that an engine could return."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from effsparse_cli.analysis.results import Analysis, Counts, LayerResult, Layers

# No deadline: a busy machine is not a failure.
unhurried = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])

REASONS = ("no_input", "no_output", "both", "padding")
sizes = st.one_of(st.integers(0, 3), st.integers(0, 10**7))


@st.composite
def counts(draw: st.DrawFn) -> Counts:
    active = draw(sizes)
    dead = {reason: draw(sizes) if draw(st.booleans()) else 0 for reason in REASONS}
    kept = active + sum(dead.values())
    carriers = draw(st.integers(0, dead["no_input"] + dead["both"]))
    return Counts(max(1, kept + draw(sizes)), kept, active, **dead, bias_carriers=carriers)


def names() -> st.SearchStrategy[list[str]]:
    parts = st.sampled_from(["a", "fc1", "encoder", "layers", "10", "self_attention", "in_proj_weight", "weight"])
    return st.lists(st.lists(parts, min_size=1, max_size=5).map(".".join), min_size=1, max_size=4, unique=True)


@st.composite
def analyses(draw: st.DrawFn) -> Analysis:
    layers = []
    for name in draw(names()):
        neurons = draw(st.integers(1, 4096))
        dead, pattern = draw(st.integers(0, neurons)), draw(st.sampled_from(["", "2:4", "16x16 blocks"]))
        layers.append(LayerResult(name, "linear", (1, 2), draw(counts()), neurons, dead, pattern))
    nothing = not any(layer.counts.active for layer in layers)
    disconnected = nothing and draw(st.booleans())
    return Analysis(
        layers=Layers(layers),
        input_shapes={"x": (1, 2)},
        disconnected=disconnected,
        cut=draw(st.sampled_from([None, *(layer.name for layer in layers)])) if disconnected else None,
        narrowest=None if disconnected else draw(st.sampled_from([None, *(layer.name for layer in layers)])),
        unknown=draw(st.sampled_from([(), ("custom::op",)])),
    )
