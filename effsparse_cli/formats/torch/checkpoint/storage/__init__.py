"""The bytes of tensors: memory-mapped files, zip archives and the storages inside them."""
