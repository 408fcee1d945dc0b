"""Train a network of an experiment: the loop, its checkpoints, and the curve that it writes."""
