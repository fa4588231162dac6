"""What a graph is: named axes, nodes, the leaves that hold arrays, rules of engines, and schedules."""

from wyrm.graph.axes import Dim, Joined, One, Pairs, Plus, Ragged, Times, any_dim
from wyrm.graph.base import ZERO, BaseNode, Undefined
from wyrm.graph.index_leaves import IndexConstant, IndexInput
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.node import IndexNode, IndexTensor, Node, Tensor
from wyrm.graph.parameters import Buffer, NarrowWeight, Parameter
from wyrm.graph.ragged import RaggedArray
from wyrm.graph.registration import REGISTRY
from wyrm.graph.typing import Array, FloatArray, Number, Shaped

__all__ = [
    "REGISTRY",
    "ZERO",
    "Array",
    "BaseNode",
    "Buffer",
    "Constant",
    "Dim",
    "FloatArray",
    "IndexConstant",
    "IndexInput",
    "IndexNode",
    "IndexTensor",
    "Input",
    "Joined",
    "NarrowWeight",
    "Node",
    "Number",
    "One",
    "Pairs",
    "Parameter",
    "Plus",
    "Ragged",
    "RaggedArray",
    "Shaped",
    "Tensor",
    "Times",
    "Undefined",
    "any_dim",
]
