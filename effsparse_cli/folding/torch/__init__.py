"""Repair of PyTorch models: operators of a traced model, what flows through them, and what is changed."""
