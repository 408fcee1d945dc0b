"""PyTorch model files, one module per format: open, give content, write changes."""
