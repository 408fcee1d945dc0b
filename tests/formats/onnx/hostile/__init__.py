"""Small ONNX files that ask for more resources than any machine has. For tests only."""
