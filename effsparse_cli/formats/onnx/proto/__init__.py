"""The protobuf message: subgraphs, order of nodes, functions, validity."""
