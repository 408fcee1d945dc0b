"""The bottleneck semiring (max, min): the score at which each connection becomes inactive."""
