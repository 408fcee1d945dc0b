"""Functions that a model defines: binds the attributes of a call to the nodes of the body."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import AttributeProto, NodeProto

from effsparse_cli.formats.onnx.proto.subgraphs import subgraphs


def bound(node: NodeProto, attributes: Mapping[str, AttributeProto]) -> NodeProto:
    """Return a node of a function, and of its subgraphs, with the attributes of the call."""
    if not any(a.ref_attr_name for a in node.attribute) and not any(True for _ in subgraphs(node)):
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    for attribute in node.attribute:
        given = attributes.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if given is not None:
            copy.attribute.append(given)
            copy.attribute[-1].name = attribute.name
    for graph in subgraphs(copy):
        inner = [bound(n, attributes) for n in graph.node]
        del graph.node[:]
        graph.node.extend(inner)
    return copy
