"""Build the model of a checkpoint: by name, from a configuration, or with the user's own code."""
