"""Repair of PyTorch models: run a traced model, measure at its operators, and change stored tensors."""
