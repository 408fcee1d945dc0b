"""Repair of ONNX models: operators of the file's graph, what flows through them, and what is changed."""
