"""Choose the inputs that a module is traced with."""
