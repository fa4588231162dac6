"""wyrm: a statically-typed node graph for automatic differentiation."""

from typing import TYPE_CHECKING

from wyrm import _bind as _bind  # binds the conveniences of nodes to the rooms that provide them
from wyrm import _later, errors
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
    from wyrm.functions.creation import arange, full, full_like, ones, ones_like, zeros, zeros_like
    from wyrm.functions.custom import custom_jvp, custom_vjp
    from wyrm.functions.function import Function, function, show
    from wyrm.functions.mapping import vmap
    from wyrm.functions.methods import abs as abs
    from wyrm.functions.methods import (
        argmax,
        broadcast_to,
        clip,
        cos,
        erf,
        exp,
        expand_dims,
        expm1,
        flatten,
        log,
        log1p,
        log_softmax,
        logsumexp,
        maximum,
        mean,
        minimum,
        prod,
        ravel,
        relu,
        reshape,
        sigmoid,
        sign,
        sin,
        softmax,
        softplus,
        split,
        sqrt,
        square,
        squeeze,
        std,
        stop_gradient,
        swapaxes,
        take,
        take_along_axis,
        tanh,
        transpose,
        var,
    )
    from wyrm.functions.methods import max as max
    from wyrm.functions.methods import min as min
    from wyrm.functions.methods import sum as sum
    from wyrm.functions.transforms import hessian, hvp, jacobian, jvp, linearize, vjp
    from wyrm.ops import random
    from wyrm.ops.attention import attention
    from wyrm.ops.checkpoint import checkpoint
    from wyrm.ops.linear_cross_entropy import linear_cross_entropy
    from wyrm.train.program import Program, compile

if not TYPE_CHECKING:  # a module with `__getattr__` has every name, as far as the type checker can tell
    # What a program may do without is imported when it is first used: rooms, and names by the module that has them.
    _ROOMS = ("compiler", "data", "io", "kernels", "losses", "metrics", "nn", "optim", "testing", "train", "view")
    _METHODS = (
        "abs argmax broadcast_to clip cos erf exp expand_dims expm1 flatten log log1p log_softmax logsumexp max "
        "maximum mean min minimum prod ravel relu reshape sigmoid sign sin softmax softplus split sqrt square "
        "squeeze std stop_gradient sum swapaxes take take_along_axis tanh transpose var"
    )
    _NAMES = {
        "functions.control": ("cond", "scan", "while_loop"),
        "functions.creation": ("arange", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like"),
        "functions.custom": ("custom_jvp", "custom_vjp"),
        "functions.function": ("Function", "function", "show"),
        "functions.mapping": ("vmap",),
        "functions.methods": _METHODS.split(),
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

__all__ = [  # but for abs, max, min and sum, which would take the place of Python's in `from wyrm import *`
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
    "arange",
    "argmax",
    "attention",
    "broadcast_to",
    "checkpoint",
    "clip",
    "compile",
    "concatenate",
    "cond",
    "cos",
    "custom_jvp",
    "custom_vjp",
    "data",
    "einsum",
    "erf",
    "errors",
    "exp",
    "expand_dims",
    "expm1",
    "flatten",
    "full",
    "full_like",
    "function",
    "grad",
    "hessian",
    "hvp",
    "io",
    "jacobian",
    "jvp",
    "linear_cross_entropy",
    "linearize",
    "log",
    "log1p",
    "log_softmax",
    "logsumexp",
    "losses",
    "maximum",
    "mean",
    "metrics",
    "minimum",
    "nn",
    "ones",
    "ones_like",
    "optim",
    "prod",
    "random",
    "ravel",
    "relu",
    "reshape",
    "run",
    "scan",
    "show",
    "sigmoid",
    "sign",
    "sin",
    "softmax",
    "softplus",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "stop_gradient",
    "swapaxes",
    "take",
    "take_along_axis",
    "tanh",
    "testing",
    "time_ops",
    "transpose",
    "updating",
    "value_and_grad",
    "var",
    "view",
    "vjp",
    "vmap",
    "watch_nan",
    "where",
    "while_loop",
    "zeros",
    "zeros_like",
]
