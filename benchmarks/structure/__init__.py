"""Fuzzing with edited structures: fields of ONNX messages, pickle opcodes, JSON, zip directories, TOML."""
