"""The operators of autograd on functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import wyrm as wy

from .core import is_complex, leaves_of, plain, vspace
from .core import make_jvp as jvp_of
from .core import make_vjp as vjp_of
from .wrap_util import unary_to_nary


def _scalar(value: Any) -> Any:
    """Raise `TypeError` for a value that is not one number."""
    (leaf,) = leaves_of(value)
    if np.size(leaf) != 1 or is_complex(leaf) or getattr(leaf, "dtype", None) == np.bool_:
        raise TypeError("Grad only applies to real scalar-output functions.")
    return np.ones(np.shape(leaf))


@unary_to_nary
def grad(function: Callable[..., Any], x: Any) -> Any:
    pullback, value = vjp_of(function, x)
    return pullback(_scalar(value))


@unary_to_nary
def value_and_grad(function: Callable[..., Any], x: Any) -> Any:
    pullback, value = vjp_of(function, x)
    return value, pullback(_scalar(value))


@unary_to_nary
def elementwise_grad(function: Callable[..., Any], x: Any) -> Any:
    pullback, value = vjp_of(function, x)
    return pullback(vspace(value).ones())


@unary_to_nary
def deriv(function: Callable[..., Any], x: Any) -> Any:
    return jvp_of(function, x)(vspace(x).ones())[1]


@unary_to_nary
def holomorphic_grad(function: Callable[..., Any], x: Any) -> Any:
    raise NotImplementedError("complex numbers")


@unary_to_nary
def jacobian(function: Callable[..., Any], x: Any) -> Any:
    pullback, value = vjp_of(function, x)
    rows = [pullback(basis) for basis in vspace(value).standard_basis()]
    shape = (*np.shape(value), *np.shape(x))
    stacked = wy.stack(rows) if any(isinstance(row, wy.Node) for row in rows) else np.stack(rows)
    return stacked.reshape(shape)


def hessian(function: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    found: Callable[..., Any] = jacobian(jacobian(function, argnum), argnum)
    return found


@unary_to_nary
def make_vjp(function: Callable[..., Any], x: Any) -> Any:
    return vjp_of(function, x)


@unary_to_nary
def make_jvp(function: Callable[..., Any], x: Any) -> Any:
    return jvp_of(function, x)


@unary_to_nary
def make_hvp(function: Callable[..., Any], x: Any) -> Any:
    return vjp_of(grad(function), x)


def hessian_tensor_product(function: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    gradient = grad(function, argnum)

    def weighted(*arguments: Any, **keywords: Any) -> Any:
        *others, vector = arguments
        return np.tensordot(gradient(*others, **keywords), vector, np.ndim(vector))

    found: Callable[..., Any] = grad(weighted, argnum)
    return found


hessian_vector_product = hessian_tensor_product


def tensor_jacobian_product(function: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    def weighted(*arguments: Any, **keywords: Any) -> Any:
        *others, vector = arguments
        return np.tensordot(vector, function(*others, **keywords), axes=np.ndim(vector))

    found: Callable[..., Any] = jacobian(weighted, argnum)
    return found


vector_jacobian_product = tensor_jacobian_product


def _half_square(y: Any) -> Any:
    return 0.5 * np.sum(y**2, axis=-1)


def make_ggnvp(function: Callable[..., Any], g: Any = _half_square, f_argnum: int = 0) -> Callable[..., Any]:
    """Return a function of a point that returns the product with the generalized Gauss-Newton matrix."""

    @unary_to_nary
    def at(of_one: Callable[..., Any], x: Any) -> Any:
        pullback, value = vjp_of(of_one, x)

        def product(v: Any) -> Any:
            return pullback(jvp_of(grad(g), value)(jvp_of(of_one, x)(v)[1])[1])

        return product

    found: Callable[..., Any] = at(function, f_argnum)
    return found


@unary_to_nary
def grad_and_aux(function: Callable[..., Any], x: Any) -> Any:
    extra: list[Any] = []

    def first(inner: Any) -> Any:
        value, aux = function(inner)
        extra.append(aux)
        return value

    found = grad(first)(x)
    return found, plain(extra[0])


def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    return function
