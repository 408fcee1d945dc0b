"""The cost semiring (min, +): the connections that have to be added for a path."""
