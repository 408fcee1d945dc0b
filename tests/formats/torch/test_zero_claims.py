"""What lowering claims to be zero is zero: every elementwise operator, and operators of other families that make claims
about zeros, are run by torch on zeros of both signs, on constants and on live values. Zero divided by a live value
counts as zero, which it is unless that value is zero too."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch import from_module
from effsparse_cli.formats.torch.operators import OPERATORS
from effsparse_cli.formats.torch.ops.elementwise import pointwise
from effsparse_cli.paths.boolean.arrays import BOOLEAN
from effsparse_cli.paths.boolean.maps import to_array
from effsparse_cli.paths.mixed_weights import pack_weights
from effsparse_cli.paths.passes import Pass
from effsparse_cli.paths.scans import flow_of

MIXED = torch.tensor([[-2.0, 0.0, 0.5, 3.0]])
# In each expression z is zero for any input, y is live, and c is MIXED.
ARGUMENTS: dict[str, list[str]] = {
    "threshold": ["F.threshold(z, -1, 5)", "F.threshold(z, 1, 5)"],
    "clamp": [
        "z.clamp(0.5, 2)", "z.clamp(-1, 1)", "z.clamp(max=-1)", "torch.clamp(z, min=c)", "torch.clamp(z, max=c)",
    ],
    "clip": ["torch.clip(z, 0.25)"],
    "clamp_min": ["z.clamp_min(0.5)", "aten.clamp_min.Tensor(z, c)"],
    "clamp_max": ["z.clamp_max(-0.5)", "aten.clamp_max.Tensor(z, c)"],
    "pow": [
        "z.pow(0)", "z.pow(2)", "z.pow(-1)", "torch.pow(z, c)", "torch.pow(2, z)", "torch.pow(z, y)",
        "torch.pow(0, z)",
    ],
    "float_power": ["torch.float_power(z, 0)", "torch.float_power(z, c)"],
    "hardtanh": ["F.hardtanh(z, 1, 2)", "F.hardtanh(z)"],
    "elu": ["F.elu(z, 2.0)"],
    "celu": ["F.celu(z, 2.0)"],
    "leaky_relu": ["F.leaky_relu(z, -0.5)"],
    "softplus": ["F.softplus(z, 2, 1)"],
    "softshrink": ["F.softshrink(z, 0.1)"],
    "hardshrink": ["F.hardshrink(z, 0.1)"],
    "logit": ["torch.logit(z)", "torch.logit(z, 0.25)", "torch.logit(z, 0.5)"],
    "nan_to_num": ["torch.nan_to_num(z, 3.0)", "torch.nan_to_num(z / c, 3.0)"],
    "rsub": ["torch.rsub(z, 1.0)", "torch.rsub(z, c)"],
    "lerp": ["torch.lerp(z, c, 0.5)", "torch.lerp(z, z, 0.5)", "torch.lerp(c, z, c)"],
    "heaviside": ["torch.heaviside(z, c)", "torch.heaviside(c, z)"],
    "smooth_l1_loss": ['F.smooth_l1_loss(z, c, reduction="none")', 'F.smooth_l1_loss(z, z, reduction="none")'],
    "isclose": ["torch.isclose(z, c)"],
    "gcd": ["torch.gcd(z.long(), c.long())", "torch.gcd(z.long(), z.long())"],
    "ldexp": ["torch.ldexp(z, c)"],
    "bernoulli": ["torch.bernoulli(z)"],
    "complex": ["torch.view_as_real(torch.complex(z, z))", "torch.view_as_real(torch.complex(z, c))"],
    "polar": ["torch.view_as_real(torch.polar(z, c))", "torch.view_as_real(torch.polar(c, z))"],
    "real": ["torch.complex(z, c).real"],
    "imag": ["torch.complex(c, z).imag"],
    "angle": ["torch.angle(z)"],
    "max.other": ["torch.max(z, c)", "torch.max(z, y)"],
    "min.other": ["torch.min(z, c)"],
    "relu6": ["F.relu6(z)"],
    "gelu": ["F.gelu(z)", 'F.gelu(z, approximate="tanh")'],
    "round": ["torch.round(z)", "torch.round(z, decimals=1)"],
    "bitwise_not": ["~z.long()"],
    "log_sigmoid": ["F.logsigmoid(z)"],
    "fix": ["torch.fix(z)"],
    "fake_quantize_per_tensor_affine": [
        "torch.fake_quantize_per_tensor_affine(z, 0.5, 0, 0, 255)",
        "torch.fake_quantize_per_tensor_affine(z, 0.5, 3, 0, 255)",
    ],
    "bitwise_or": ["torch.bitwise_or(z.long(), c.long())"],
    "bitwise_xor": ["torch.bitwise_xor(z.long(), c.long())"],
    "__or__": ["z.long() | c.long()"],
    "__xor__": ["z.long() ^ c.long()"],
}  # fmt: skip
TWO = (
    "sub", "subtract", "maximum", "minimum", "fmax", "fmin", "atan2", "hypot", "logaddexp", "logaddexp2", "eq", "ne",
    "lt", "le", "gt", "ge", "logical_or", "logical_xor", "copysign", "nextafter", "xlogy",
)  # fmt: skip
PAIRS = ("z, c", "c, z", "z, z", "z, y", "y, z")
OTHERS: dict[str, list[str]] = {
    "identity": ["F.dropout(z, training=False)", "F.rrelu(z)", "z.clone()"],
    "add": ["z + c", "z + y", "z + 1", "z + z"],
    "mul": ["z * y", "y * c", "torch.logical_and(z, y)", "y * 2"],
    "div": [
        "z / c", "y / c", "z / 2", "z / 0", "c / y", "z // c", "torch.fmod(z, c)", "torch.remainder(z, c)", "c / 3",
        'torch.div(z, c, rounding_mode="floor")', "z % 3",
    ],
    "prelu": ["F.prelu(z, c[0])", "F.prelu(z, c[0, :1])"],
    "addcmul": ["torch.addcmul(z, c, c)", "torch.addcmul(z, y, c, value=2)"],
    "addcdiv": ["torch.addcdiv(z, c, c + 5)", "torch.addcdiv(z, z, c)", "torch.addcdiv(z, z, c + 5)"],
    "glu": ["F.glu(z)", "F.glu(torch.cat([z, y], -1))", "F.glu(torch.cat([y, z], -1))"],
    "where": ["torch.where(c > 0, z, c)", "torch.where(y > 0, z, c)", "torch.where(y > 0, z, z)"],
    "masked_fill": ["z.masked_fill(c > 0, 3.0)", "z.masked_fill(c > 0, 0.0)"],
    "bucketize": ["torch.bucketize(z, torch.tensor([-1.0, 1.0]))", "torch.bucketize(z, torch.tensor([1.0, 2.0]))"],
    "fill": ["torch.full_like(y, 2.0)", "torch.zeros_like(y)"],
    "reduction": [
        "z.sum(1)", "z.mean(0)", "z.amax(1)", "z.prod(1)", "z.logsumexp(1)", "z.norm(dim=1)", "z.var(1)", "z.std(0)",
        "z.cumsum(1)", "z.cumprod(1)", "z.logcumsumexp(1)", "z.max(1).values", "z.argmax(1)", "z.any(1)", "z.all(1)",
        "(z == 0).sum(1)", "torch.count_nonzero(z, 1)", "z.median(1).values",
    ],
    "norm": [
        "F.softmax(z, 1)", "F.log_softmax(z, 1)", "F.layer_norm(z, (4,))", "F.layer_norm(z, (4,), bias=c[0])",
        "F.group_norm(z, 2, weight=c[0], bias=c[0])", "F.rms_norm(z, (4,))", "F.normalize(z)",
        "F.batch_norm(z, c[0], c[0].abs() + 1)", "F.batch_norm(z, torch.zeros(4), torch.ones(4))",
        "F.batch_norm(z, torch.zeros(4), torch.ones(4), torch.ones(4), c[0])", "F.softmin(z, 1)",
        "F.cosine_similarity(z, y, dim=1)", "F.local_response_norm(z[None], 2)",
    ],
    "shapes": [
        "F.pad(z, (1, 1), value=2.0)", "F.pad(z, (1, 1))", "torch.cat([z, c], 0)", "torch.tril(z + 1)",
        "torch.diag_embed(z)", "F.one_hot(z.long(), 3)", "z.scatter(1, torch.tensor([[0], [1], [2]]), 3.0)",
        "z.index_fill(1, torch.tensor([1]), 2.0)", "F.max_pool1d(z[None], 2)", "F.avg_pool1d(z[None], 2)",
        "F.lp_pool1d(z[None], 2.0, 2)", "z.sort(1).values", "z.sort(1).indices", "z.topk(2).values",
    ],
    "products": [
        "F.linear(z, torch.ones(2, 4))", "F.linear(z, torch.ones(2, 4), torch.tensor([0.0, 1.0]))", "z @ y.T",
        "torch.addmm(c, z, torch.ones(4, 4))", "torch.cdist(z, y)",
        "torch.baddbmm(c[None], z[None], torch.ones(1, 4, 4), beta=0)", "torch.outer(z[0], y[0])",
        "F.bilinear(z, y, torch.ones(2, 4, 4), torch.ones(2))",
    ],
}  # fmt: skip


def expressions(name: str) -> list[str]:
    if name in ARGUMENTS:
        return ARGUMENTS[name]
    if name in TWO:
        return [f"torch.{name}({pair})" for pair in PAIRS]
    homes = {"torch": torch, "F": F, "torch.special": torch.special}
    home = next(home for home, module in homes.items() if hasattr(module, name.removeprefix("special_")))
    return [f"{home}.{name.removeprefix('special_')}(z)"]


NAMED = [name for name, row in OPERATORS.items() if row.lower is pointwise]
CASES = [each for name in NAMED for each in expressions(name)] + [each for some in OTHERS.values() for each in some]


class AllOfThem(nn.Module):
    """One trace for all expressions: each gives one output."""

    c: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("c", MIXED)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z = x * 0.0
        known = {"torch": torch, "F": F, "aten": torch.ops.aten, "z": z, "y": y, "c": self.c}
        return tuple(eval(each, known) for each in CASES)


@cache
def found() -> tuple[list[np.ndarray], list[list[Tensor]]]:
    """Return where each output may be nonzero, and the outputs of some runs."""
    model, shape = AllOfThem().eval(), (3, 4)
    graph = from_module(model, (torch.ones(shape), torch.ones(shape)), None, LoadOptions())
    pass_ = Pass(BOOLEAN, pack_weights(graph), graph)
    claims = [np.broadcast_to(to_array(flow_of(pass_.values[i]).nonzero), graph.nodes[i].shape) for i in graph.outputs]
    dice = torch.Generator().manual_seed(0)
    runs = [model(torch.randn(shape, generator=dice), torch.randn(shape, generator=dice)) for _ in range(3)]
    return claims, [list(each) for each in runs]


@pytest.mark.parametrize("i", range(len(CASES)), ids=CASES)
def test_claimed_zeros_are_zero(i: int) -> None:
    claims, runs = found()
    assert len(claims) == len(CASES)
    for outputs in runs:
        value = outputs[i]
        assert claims[i].shape == tuple(value.shape)
        real = (torch.isnan(value) | (value != 0)).numpy() if value.is_floating_point() else (value != 0).numpy()
        assert not (real & ~claims[i]).any()
