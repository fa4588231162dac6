"""wyrm: a statically-typed node graph for automatic differentiation."""

from wyrm import _bind as _bind  # binds the conveniences of nodes to the rooms that provide them
from wyrm.errors import WyrmError
from wyrm.engine import Timing, run, time_ops, watch_nan
from wyrm.grad import grad, jvp, value_and_grad, vjp
from wyrm.node import (
    ZERO,
    Constant,
    IndexConstant,
    IndexInput,
    IndexNode,
    IndexTensor,
    Input,
    Node,
    Parameter,
    Tensor,
    Undefined,
)
from wyrm.ops import random
from wyrm.ops.comparison import where
from wyrm.ops.elementwise import Binary, Elementwise, Unary
from wyrm.ops.product import einsum
from wyrm.ops.slicing import concatenate, stack
from wyrm.types import Dim, One, Plus, Shaped, Times, any_dim

__all__ = [
    "ZERO",
    "WyrmError",
    "Binary",
    "Constant",
    "Dim",
    "Elementwise",
    "IndexConstant",
    "IndexInput",
    "IndexNode",
    "IndexTensor",
    "Input",
    "Node",
    "One",
    "Parameter",
    "Plus",
    "Shaped",
    "Tensor",
    "Times",
    "Timing",
    "Unary",
    "Undefined",
    "any_dim",
    "concatenate",
    "einsum",
    "grad",
    "jvp",
    "random",
    "run",
    "stack",
    "time_ops",
    "value_and_grad",
    "vjp",
    "watch_nan",
    "where",
]
