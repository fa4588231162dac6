"""wyrm: a statically-typed node graph for automatic differentiation."""

from typing import TYPE_CHECKING

from wyrm import _bind as _bind  # attaches methods that other packages implement to nodes
from wyrm import _later
from wyrm.backends.numpy import Timing, run, time_ops, watch_nan
from wyrm.errors import WyrmError
from wyrm.grad import grad, value_and_grad
from wyrm.node import (
    ZERO,
    Buffer,
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
from wyrm.node.loop_form import LOOPS, LoopForm
from wyrm.ops.comparison import where
from wyrm.ops.elementwise import Binary, Elementwise, Unary
from wyrm.ops.product import einsum
from wyrm.ops.slicing import concatenate, stack
from wyrm.ops.updating import updating
from wyrm.types import Dim, One, Plus, Shaped, Times, any_dim

if TYPE_CHECKING:
    from wyrm import data, io, losses, metrics, nn, optim, testing, view
    from wyrm.functions.control import cond, scan, while_loop
    from wyrm.functions.custom import custom_jvp, custom_vjp
    from wyrm.functions.function import Function, function, show
    from wyrm.functions.mapping import vmap
    from wyrm.functions.transforms import hessian, hvp, jacobian, jvp, linearize, vjp
    from wyrm.ops import random
    from wyrm.ops.attention import attention
    from wyrm.ops.checkpoint import checkpoint
    from wyrm.ops.linear_cross_entropy import linear_cross_entropy
    from wyrm.train.program import Program, compile

if not TYPE_CHECKING:  # for type checkers a module with `__getattr__` has every name
    # Imported on first use: subpackages, and names by the module that defines them.
    _ROOMS = ("compiler", "data", "io", "kernels", "losses", "metrics", "nn", "optim", "testing", "train", "view")
    _NAMES = {
        "functions.control": ("cond", "scan", "while_loop"),
        "functions.custom": ("custom_jvp", "custom_vjp"),
        "functions.function": ("Function", "function", "show"),
        "functions.mapping": ("vmap",),
        "functions.transforms": ("hessian", "hvp", "jacobian", "jvp", "linearize", "vjp"),
        "ops": ("random",),
        "ops.attention": ("attention",),
        "ops.checkpoint": ("checkpoint",),
        "ops.linear_cross_entropy": ("linear_cross_entropy",),
        "train.program": ("Program", "compile"),
    }
    __getattr__, __dir__ = _later.later(
        __name__,
        {room: room for room in _ROOMS} | {name: module for module, names in _NAMES.items() for name in names},
    )


__version__ = "0.1.0"

__all__ = [
    "LOOPS",
    "ZERO",
    "Binary",
    "Buffer",
    "Constant",
    "Dim",
    "Elementwise",
    "Function",
    "IndexConstant",
    "IndexInput",
    "IndexNode",
    "IndexTensor",
    "Input",
    "LoopForm",
    "Node",
    "One",
    "Parameter",
    "Plus",
    "Program",
    "Shaped",
    "Tensor",
    "Times",
    "Timing",
    "Unary",
    "Undefined",
    "WyrmError",
    "any_dim",
    "attention",
    "checkpoint",
    "compile",
    "concatenate",
    "cond",
    "custom_jvp",
    "custom_vjp",
    "data",
    "einsum",
    "function",
    "grad",
    "hessian",
    "hvp",
    "io",
    "jacobian",
    "jvp",
    "linear_cross_entropy",
    "linearize",
    "losses",
    "metrics",
    "nn",
    "optim",
    "random",
    "run",
    "scan",
    "show",
    "stack",
    "testing",
    "time_ops",
    "updating",
    "value_and_grad",
    "view",
    "vjp",
    "vmap",
    "watch_nan",
    "where",
    "while_loop",
]
