"""Lower a traced model to the graph of primitives, one op call after another."""
