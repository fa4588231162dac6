"""NumPy's functions of complex numbers, of real ones: nodes hold no complex numbers."""

from __future__ import annotations

import math

from wyrm.functions.creation import full_like, zeros_like
from wyrm.functions.operands import Operand, as_node
from wyrm.graph.node import Node
from wyrm.ops.elementwise.trigonometric import Arctan2

__all__ = ["angle", "conj", "conjugate", "imag", "iscomplex", "isreal", "real", "real_if_close"]


def real(val: Operand) -> Node:
    """Return the real part, as `numpy.real`: the operand itself.

    >>> wy.real(wy.Constant([1.0, -2.0])).forward().tolist()
    [1.0, -2.0]
    """
    return as_node(val)


def imag(val: Operand) -> Node:
    """Return the imaginary part, as `numpy.imag`: zeros.

    >>> wy.imag(wy.Constant([1.0, -2.0])).forward().tolist()
    [0.0, 0.0]
    """
    return zeros_like(as_node(val))


def conj(x: Operand) -> Node:
    """Return the complex conjugate, as `numpy.conj`: the operand itself.

    >>> wy.conj(wy.Constant([1.0, -2.0])).forward().tolist()
    [1.0, -2.0]
    """
    return as_node(x)


conjugate = conj


def real_if_close(a: Operand, tol: float = 100.0) -> Node:
    """Return the operand, as `numpy.real_if_close` does for real numbers.

    >>> wy.real_if_close(wy.Constant([1.0])).forward().tolist()
    [1.0]
    """
    return as_node(a)


def angle(z: Operand, deg: bool = False) -> Node:
    """Return the angle of each number in the complex plane, as `numpy.angle`: 0, or pi for a negative number.

    >>> wy.angle(wy.Constant([1.0, -2.0]), deg=True).forward().tolist()
    [0.0, 180.0]
    """
    node = as_node(z)
    radians: Node = Arctan2(zeros_like(node), node)
    return radians * (180.0 / math.pi) if deg else radians


def iscomplex(x: Operand) -> Node:
    """Return a mask of the numbers with an imaginary part, as `numpy.iscomplex`: all False.

    >>> wy.iscomplex(wy.Constant([1.0, -2.0])).forward().tolist()
    [False, False]
    """
    return full_like(as_node(x), False, bool)


def isreal(x: Operand) -> Node:
    """Return a mask of the numbers without an imaginary part, as `numpy.isreal`: all True.

    >>> wy.isreal(wy.Constant([1.0, -2.0])).forward().tolist()
    [True, True]
    """
    return full_like(as_node(x), True, bool)
