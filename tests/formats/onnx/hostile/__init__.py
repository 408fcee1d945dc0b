"""Small ONNX files that ask for more than any machine has. For tests only."""
