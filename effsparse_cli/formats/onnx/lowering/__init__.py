"""From op calls to the graph: the walk through a model, constant values, weights, and limits on their cost."""
