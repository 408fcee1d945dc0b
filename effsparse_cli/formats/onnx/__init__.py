"""ONNX files, without torch: parse, lower to a graph, write. `ops/` holds the lowering table by operator family."""
