"""The real semiring (+, x) in torch: path norms and synaptic flow."""
