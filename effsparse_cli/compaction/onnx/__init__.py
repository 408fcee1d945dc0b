"""Channels and neurons cut out of ONNX models. `rules/` says, by operator family, how positions correspond."""
