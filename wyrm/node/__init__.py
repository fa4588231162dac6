"""Nodes: immutable descriptions of operations, and the leaves that hold arrays."""

from wyrm.node.base import REGISTRY, ZERO, BaseNode, Undefined
from wyrm.node.buffer import Buffer
from wyrm.node.index_leaves import IndexConstant, IndexInput
from wyrm.node.leaves import Constant, Input, Parameter
from wyrm.node.node import IndexNode, IndexTensor, Node, Tensor

__all__ = [
    "REGISTRY",
    "ZERO",
    "BaseNode",
    "Buffer",
    "Constant",
    "IndexConstant",
    "IndexInput",
    "IndexNode",
    "IndexTensor",
    "Input",
    "Node",
    "Parameter",
    "Tensor",
    "Undefined",
]
