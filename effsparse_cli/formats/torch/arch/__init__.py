"""The model that a file of tensors belongs to: built by name, from a configuration, or by the user's own code."""
