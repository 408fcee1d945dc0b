"""Functions that a model defines for itself: a node of the body in, the node with the attributes of its call out."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import AttributeProto, NodeProto

from effsparse_cli.load.onnx.file import subgraphs


def bound(node: NodeProto, attributes: Mapping[str, AttributeProto]) -> NodeProto:
    """A function's node with the attributes that its call gives."""
    if not any(a.ref_attr_name for a in node.attribute) and not any(True for _ in subgraphs(node)):
        return node
    bound = NodeProto()
    bound.CopyFrom(node)
    del bound.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            copy = bound.attribute.add()
            copy.CopyFrom(attribute)
            if copy.HasField("g"):
                inner = [bound(n, attributes) for n in copy.g.node]
                del copy.g.node[:]
                copy.g.node.extend(inner)
        elif attribute.ref_attr_name in attributes:
            copy = bound.attribute.add()
            copy.CopyFrom(attributes[attribute.ref_attr_name])
            copy.name = attribute.name
    return bound
