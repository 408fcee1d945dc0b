"""Compaction of PyTorch models: to a smaller ONNX model, or to a smaller module."""
