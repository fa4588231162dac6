"""The one place where the conveniences declared on nodes meet the rooms that provide them."""

from wyrm.engine import reference
from wyrm.node.node import IndexNode, Node

for _cls in (Node, IndexNode):
    _cls.value = property(reference.value)  # type: ignore[assignment,method-assign]  # declared as read-only
    _cls.forward = reference.forward  # type: ignore[assignment,method-assign]  # declared for the type checker
Node.backward = reference.backward  # type: ignore[assignment,method-assign]  # declared for the type checker
Node.zero_gradient = reference.zero_gradient  # type: ignore[assignment,method-assign]  # declared for the type checker
Node.T = property(lambda self: self.transpose())  # type: ignore[assignment]  # declared as read-only
Node.mT = property(lambda self: self.matrix_transpose())  # type: ignore[assignment]  # declared as read-only
