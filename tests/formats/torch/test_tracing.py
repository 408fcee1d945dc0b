"""Tracing: its three methods, notes, outputs, and that the model does not change."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import prune

from effsparse_cli.errors import LoadError, UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.paths import find_paths
from tests.formats.torch.cases import CASES, L, r
from tests.formats.torch.functional import Functional
from tests.formats.torch.perturbed import idle_weights_do_nothing, lowered, moving_share, thin

OBSERVED = "one path observed: the model could not be exported, so one run was recorded"


def branching(m: Any, x: Tensor) -> Tensor:
    """An export cannot follow a branch that values decide."""
    y = F.silu(m.norm(m.conv(x)))
    if y.sum() > -1e9:
        y = y * 2
    y[:, :1] += 1
    y = F.avg_pool2d(y, 2).flatten(1)
    y = m.lstm(m.fc(y)[:, None].expand(-1, 3, -1))[0]
    return m.attention(y, y, y)[0]  # type: ignore[no-any-return]


def undecided() -> nn.Module:
    model = Functional(
        branching,
        conv=nn.Conv2d(3, 4, 3, padding=1),
        norm=nn.BatchNorm2d(4),
        fc=L(64, 10),
        lstm=nn.LSTM(10, 5, batch_first=True),
        attention=nn.MultiheadAttention(5, 1, batch_first=True),
    )
    thin(model, 0.6)
    return model


def test_an_observed_run_is_noted_and_sound() -> None:
    model = undecided()
    graph = lowered(model, (r(1, 3, 8, 8),))
    assert OBSERVED in graph.notes
    assert {name: layer.op for name, layer in graph.layers.items()}["conv"] == "conv2d"
    assert {"conv", "norm", "fc", "lstm", "attention"} <= {node.name for node in graph.nodes}
    idle_weights_do_nothing(model, (r(1, 3, 8, 8),))


def test_an_observed_run_is_exact() -> None:
    assert moving_share(undecided().double(), (r(1, 3, 8, 8).double(),)) == 1.0


@pytest.mark.parametrize("name", [name for name in CASES if "index" not in name])
def test_an_observed_run_agrees_with_the_export(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole operators and their decompositions give the same connections."""
    model, inputs = CASES[name]()
    thin(model, 0.4)
    whole = find_paths(lowered(model, inputs))

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(torch.export, "export", fail)
    graph = lowered(model, inputs)
    assert OBSERVED in graph.notes
    observed = find_paths(graph)
    assert whole.keys() == observed.keys()
    for layer, edges in whole.items():
        exported, seen = edges.mask("active"), observed[layer].mask("active")
        # A computed weight is counted in the shape that its operator uses; in a matrix product it is transposed.
        turned = layer == "weight" and seen.shape != exported.shape
        assert np.array_equal(exported, seen.T if turned else seen), layer


def test_the_model_does_not_change(capsys: pytest.CaptureFixture[str]) -> None:
    torch.backends.mha.set_fastpath_enabled(True)
    model: Any = undecided()
    model.norm.eval()
    prune.random_unstructured(model.fc, "weight", 0.5)  # type: ignore[no-untyped-call]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    attributes = [dict(vars(module)) for module in model.modules()]
    weights, state = list(model.lstm._flat_weights), torch.get_rng_state()
    lowered(model, (r(1, 3, 8, 8),))
    assert [module.training for module in model.modules()] == modes
    assert [dict(vars(module)).keys() for module in model.modules()] == [a.keys() for a in attributes]
    assert model.fc.weight is attributes[list(model.modules()).index(model.fc)]["weight"]
    assert all(a is b for a, b in zip(weights, model.lstm._flat_weights, strict=True))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.backends.mha.get_fastpath_enabled()
    assert capsys.readouterr() == ("", "")


def test_training_mode_is_noted() -> None:
    model = nn.Sequential(L(4, 3), nn.Dropout())
    said = "evaluation mode assumed: batch norm uses its stored statistics, dropout is off"
    assert said in lowered(model, (r(1, 4),)).notes
    assert said not in lowered(model.eval(), (r(1, 4),)).notes


def test_in_place_on_a_value_that_is_used_again() -> None:
    """An in-place ReLU changes what the shortcut adds; an in-place addition is read under the old name."""

    def forward(m: Any, x: Tensor) -> Tensor:
        y = m.a(x)
        z = m.b(F.hardtanh_(y))
        z += y
        z.mul_(2)
        return z  # type: ignore[no-any-return]

    model = Functional(forward, a=L(4, 4), b=L(4, 4))
    assert find_paths(lowered(model, (r(2, 4),)))["a"].count("active") == 16
    thin(model, 0.4)
    idle_weights_do_nothing(model, (r(2, 4),))


def test_constants_written_through_views() -> None:
    """A mask is filled slice by slice, as for shifted windows."""

    def forward(m: Any, x: Tensor) -> Tensor:
        mask = x.new_zeros(6)
        mask[:2] = 1
        mask[4:5].fill_(3)
        return m.b(m.a(x) * mask)  # type: ignore[no-any-return]

    found = find_paths(lowered(Functional(forward, a=L(4, 6), b=L(6, 3)), (r(1, 4),)))
    assert found["a"].mask("active").any(1).tolist() == [True, True, False, False, True, False]


def test_live_values_written_into_constants() -> None:
    """Slices of a new tensor are filled one after another, and it is read as a whole."""

    def forward(m: Any, x: Tensor) -> Tensor:
        y = torch.zeros(2, 6)
        y[:, :3] = m.a(x)
        y[:, 5] = 1.0
        return m.b(y)  # type: ignore[no-any-return]

    model = Functional(forward, a=L(4, 3), b=L(6, 2))
    found = find_paths(lowered(model, (r(2, 4),)))
    assert found["a"].count("active") == 12
    assert found["b"].mask("active").any(0).tolist() == [True, True, True, False, False, False]
    assert found["b"].mask("carrier").any(0).tolist() == [False, False, False, False, False, True]
    thin(model, 0.5)
    idle_weights_do_nothing(model, (r(2, 4),))


def test_operators_that_write_to_several_values() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        y, z = m.a(x), m.b(x)
        torch._foreach_mul_([y, z], 2.0)
        return y  # type: ignore[no-any-return]

    found = find_paths(from_module(Functional(forward, a=L(4, 3), b=L(4, 3)), (r(2, 4),), None, LoadOptions()))
    assert found["a"].count("active") == 12


def test_branches_of_the_graph_itself_are_opaque() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        y = torch.cond(x.sum() > 0, lambda v: v * m.w, lambda v: v - m.w, (m.a(x),))
        return m.b(y)  # type: ignore[no-any-return]

    model = Functional(forward, a=L(4, 4), b=L(4, 2), w=nn.Parameter(torch.ones(2, 4)))
    graph = from_module(model, (r(2, 4),), None, LoadOptions())
    assert "cond" in {getattr(node.op, "label", "") for node in graph.nodes}
    found = find_paths(graph)
    assert [found[name].count("active") for name in ("a", "w", "b")] == [16, 8, 8]


def test_a_constant_with_the_shape_of_something_live_stays_constant() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        y = m.a(x)
        gone = torch.tensor([True, False, False]).expand_as(y)
        return y.masked_fill(gone.type_as(y).view_as(y).bool(), 0.0)  # type: ignore[no-any-return]

    found = find_paths(lowered(Functional(forward, a=L(4, 3)), (r(2, 4),)))
    assert found["a"].mask("active").any(1).tolist() == [False, True, True]


def outputs_of(model: nn.Module, *wanted: str) -> int:
    return len(from_module(model, (r(1, 4),), None, LoadOptions(outputs=wanted)).outputs)


def test_outputs_by_name_and_position() -> None:
    model = Functional(lambda m, x: {"logits": m.a(x), "states": (x, m.b(x)), "none": None}, a=L(4, 3), b=L(4, 3))
    assert outputs_of(model) == 3
    assert outputs_of(model, "logits") == 1
    assert outputs_of(model, "states") == 2
    assert outputs_of(model, "states.1", "0") == 2
    with pytest.raises(UsageError, match=r"no output 'loss'; its outputs are: logits, states.0, states.1"):
        outputs_of(model, "loss")
    pair = Functional(lambda m, x: (m.a(x), x), a=L(4, 3))
    assert outputs_of(pair, "output_1") == 1


def test_the_selected_output_decides_what_is_active() -> None:
    model = Functional(lambda m, x: (m.a(x), m.b(x)), a=L(4, 3), b=L(4, 3))
    found = find_paths(from_module(model, (r(1, 4),), None, LoadOptions(outputs=("1",))))
    assert [found[name].count("active") for name in "ab"] == [0, 12]


def test_the_error_about_a_wrong_shape_names_it_and_the_reason() -> None:
    with pytest.raises(UsageError, match=r"does not run on input 1x5: .*1x5 and 4x3"):
        from_module(nn.Sequential(L(4, 3)), (r(1, 5),), None, LoadOptions())


def test_an_untraceable_model_is_an_error_of_one_paragraph() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        if torch.utils._python_dispatch._get_current_dispatch_mode() is not None:
            raise RuntimeError("no tracing here")
        return m.a(x)  # type: ignore[no-any-return]

    with pytest.raises(LoadError, match="runs but cannot be traced") as caught:
        from_module(Functional(forward, a=L(4, 3)), (r(1, 4),), None, LoadOptions())
    assert "\n" not in str(caught.value)


def test_an_unknown_operator_is_opaque_and_named() -> None:
    model = Functional(lambda m, x: m.b(torch.linalg.inv(m.a(x))), a=L(4, 4), b=L(4, 2))
    graph = from_module(model, (r(4, 4),), None, LoadOptions())
    labels = {getattr(node.op, "label", None) for node in graph.nodes} - {None}
    assert len(labels) == 1
    assert "inv" in str(labels)
    found = find_paths(graph)
    assert [found[name].count("active") for name in "ab"] == [16, 8]


def test_copies_are_traced_like_their_originals() -> None:
    model = nn.Sequential(L(4, 3), nn.Tanh(), L(3, 2))
    thin(model, 0.5)
    masks = [find_paths(lowered(m, (r(1, 4),)))["0"].mask("active") for m in (model, copy.deepcopy(model))]
    assert (masks[0] == masks[1]).all()


def test_weights_of_a_path_that_was_not_taken_count_as_active() -> None:
    """This input goes to one expert; another input may go to the other."""

    def forward(m: Any, x: Tensor) -> Tensor:
        return m.head((m.left if x.sum() > 1e9 else m.right)(x))  # type: ignore[no-any-return]

    model = Functional(forward, left=L(4, 3), right=L(4, 3), head=L(3, 2))
    graph = from_module(model, (r(1, 4),), {}, LoadOptions())
    found = find_paths(graph)
    assert graph.unknown_operators == ("another path than the observed one",)
    assert {name: edges.count("active") for name, edges in found.items()} == {"left": 12, "right": 12, "head": 6}


def test_values_have_the_traced_types() -> None:
    """Only booleans and integers can be inverted, so a cast must change the type."""

    def forward(m: Any, x: Tensor) -> Tensor:
        y = m.a(x)
        chosen = torch.zeros_like(y).scatter(1, y.argmax(1, keepdim=True), 1.0)
        return m.b(y.masked_fill(~chosen.bool(), 0.0))  # type: ignore[no-any-return]

    found = find_paths(lowered(Functional(forward, a=L(4, 3), b=L(3, 2)), (r(1, 4),)))
    assert {name: edges.count("active") for name, edges in found.items()} == {"a": 12, "b": 6}
