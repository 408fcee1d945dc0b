"""Channels and neurons cut out of PyTorch models: to ONNX, or out of the module itself."""
