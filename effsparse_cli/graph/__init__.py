"""The IR: primitives, the graph, what builds it and what says whether it is legal."""
