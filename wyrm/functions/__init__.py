"""Functions over arrays: traced, differentiated, transformed."""

from wyrm.functions.function import Function, function
from wyrm.functions.transforms import hessian, hvp, jacobian, jvp, linearize, vjp

__all__ = ["Function", "function", "hessian", "hvp", "jacobian", "jvp", "linearize", "vjp"]
