"""Functions over arrays: traced, differentiated, transformed."""

from wyrm.functions.branches import cond, switch
from wyrm.functions.custom import CustomJvp, CustomVjp, custom_jvp, custom_vjp
from wyrm.functions.function import Function, function
from wyrm.functions.loops import scan, while_loop
from wyrm.functions.mapping import vmap
from wyrm.functions.transforms import hessian, hvp, jacobian, jvp, linearize, vjp

__all__ = [
    "CustomJvp",
    "CustomVjp",
    "Function",
    "cond",
    "custom_jvp",
    "custom_vjp",
    "function",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "linearize",
    "scan",
    "switch",
    "vjp",
    "vmap",
    "while_loop",
]
