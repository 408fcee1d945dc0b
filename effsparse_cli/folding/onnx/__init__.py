"""Repair of ONNX models: which op calls use a weight, what flows through them, and how the model changes."""
