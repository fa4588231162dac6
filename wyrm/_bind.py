"""Attaches methods that higher layers implement to nodes, which only declare them."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from wyrm.backends.numpy import reference
from wyrm.node import node
from wyrm.node.node import IndexNode, Node


def _numpy_protocol() -> ModuleType:
    """Replace the two stubs below, which serve the first call, by the functions that apply NumPy to nodes."""
    from wyrm.functions import numpy_protocol

    Node.__array_ufunc__ = numpy_protocol.ufunc  # type: ignore[assignment]  # declared as None for type checkers
    IndexNode.__array_ufunc__ = numpy_protocol.ufunc  # type: ignore[assignment]  # as above
    Node.__array_function__ = numpy_protocol.array_function  # type: ignore[attr-defined]  # as above
    return numpy_protocol


def _first_ufunc(operand: Any, *arguments: Any, **options: Any) -> Any:
    return _numpy_protocol().ufunc(operand, *arguments, **options)


def _first_array_function(operand: Any, *arguments: Any) -> Any:
    return _numpy_protocol().array_function(operand, *arguments)


def _give(cls: type, methods: type) -> None:
    """Put the methods of one class into another, which for the type checker is the same."""
    for name, method in vars(methods).items():
        if not name.startswith("__"):
            setattr(cls, name, method)
            if hasattr(method, "__qualname__"):  # for Python's own errors about arguments
                method.__qualname__ = f"Node.{name}"


for _methods in (reference.Evaluated, reference.Differentiated):
    _give(getattr(node, _methods.__name__), _methods)
Node.__array_ufunc__ = _first_ufunc  # type: ignore[assignment]  # declared as None for type checkers
IndexNode.__array_ufunc__ = _first_ufunc  # type: ignore[assignment]  # as above
Node.__array_function__ = _first_array_function  # type: ignore[attr-defined]  # as above
