"""Random values: they do not depend on the model's input, and are no zeros for sure."""

from __future__ import annotations

from effsparse_cli.formats.onnx.call import Call
from effsparse_cli.formats.onnx.table import Result, lowers


@lowers("RandomNormal", "RandomUniform", primitive="Constant", folding="never")
def random(c: Call) -> Result:
    return c.b.constant(True, c.attr("shape") or ())


@lowers("RandomNormalLike", "RandomUniformLike", primitive="Constant", folding="never")
def random_like(c: Call) -> Result:
    return c.b.constant(True, c.shape())


@lowers("Bernoulli", primitive="Join", folding="never")
def bernoulli(c: Call) -> Result:
    return c.b.join(c.x())


@lowers("Multinomial", primitive="Mix", folding="never")
def multinomial(c: Call) -> Result:
    seen = c.b.reduce(c.x(), (1,), keepdim=True, keeps_zero=False)
    return c.b.expand(seen, (c.shape()[0], c.attr("sample_size", 1)))
