"""The intermediate representation of a network.

`primitives` is the closed list of primitives, `graph` the graph of nodes, `builder` builds it and `verify` checks it.
The other modules write common operators in primitives, for both front ends: `contraction`, `layers` (norms, attention,
recurrent cells), `convolution`, `indexing`, and `windows` for the geometry of convolution, pooling and interpolation.
"""
