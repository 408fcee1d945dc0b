"""Random values: they do not depend on the model's input, and are no zeros for sure."""

from __future__ import annotations

from effsparse_cli.formats.onnx.op_call import OpCall
from effsparse_cli.formats.onnx.operators import Result, operator


@operator(
    "RandomNormal",
    "RandomUniform",
    primitives="Constant",
    constants="lowered",
    extent=lambda c: list(c.attr("shape") or []),
)
def random(c: OpCall) -> Result:
    return c.b.constant(True, c.attr("shape") or ())


@operator("RandomNormalLike", "RandomUniformLike", primitives="Constant", constants="lowered", stays_in_file=True)
def random_like(c: OpCall) -> Result:
    return c.b.constant(True, c.shape())


@operator("Bernoulli", primitives="Join", constants="lowered", stays_in_file=True)
def bernoulli(c: OpCall) -> Result:
    return c.b.join(c.x())


@operator("Multinomial", primitives="Mix", constants="lowered", stays_in_file=True)
def multinomial(c: OpCall) -> Result:
    seen = c.b.reduce(c.x(), (1,), keepdim=True, keeps_zero=False)
    return c.b.expand(seen, (c.shape()[0], c.attr("sample_size", 1)))
