"""Repair without changing the function: remove inactive connections and fold constants of bias carriers into biases.

`carriers` finds what is inactive, `decide` chooses what can be removed from what carriers were measured to add,
`rounds` repeats this until nothing changes, and `verify` compares outputs. `torch/` and `onnx/` know how to run and
change a model.
"""
