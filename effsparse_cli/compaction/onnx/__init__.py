"""Compaction of ONNX models. `rules/` say how positions correspond, one rule for each way of moving data."""
