"""Attaches methods to nodes, which declare them and which higher layers implement."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from wyrm._names import METHODS
from wyrm.engines.numpy import reference
from wyrm.graph import node
from wyrm.graph.leaves import Parameter
from wyrm.graph.node import IndexNode, Node
from wyrm.support.foreign_names import Foreign
from wyrm.support.late_imports import LateMethod, declares

_CLASSES = {"Node": Node, "IndexNode": IndexNode, "Parameter": Parameter}


def _numpy_protocol() -> ModuleType:
    """Replace the two stubs below, which serve the first call, by the functions that apply NumPy to nodes."""
    from wyrm.functions import numpy_protocol

    Node.__array_ufunc__ = numpy_protocol.ufunc  # type: ignore[assignment]  # declared as None for type checkers
    IndexNode.__array_ufunc__ = numpy_protocol.ufunc  # type: ignore[assignment]  # as above
    Node.__array_function__ = numpy_protocol.array_function  # type: ignore[attr-defined]  # as above
    IndexNode.__array_function__ = numpy_protocol.array_function  # type: ignore[attr-defined]  # as above
    return numpy_protocol


def _first_ufunc(operand: Any, *arguments: Any, **options: Any) -> Any:
    return _numpy_protocol().ufunc(operand, *arguments, **options)


def _first_array_function(operand: Any, *arguments: Any) -> Any:
    return _numpy_protocol().array_function(operand, *arguments)


def _copy_methods(cls: type, methods: type) -> None:
    """Copy the methods of one class to another, which inherits from it as far as type checkers can tell."""
    for name, method in vars(methods).items():
        if not name.startswith("__"):
            setattr(cls, name, method)
            if hasattr(method, "__qualname__"):  # for Python's own errors about arguments
                method.__qualname__ = f"Node.{name}"


for _methods in (reference.Evaluated, reference.Differentiated):
    _copy_methods(getattr(node, _methods.__name__), _methods)
Node.__array_ufunc__ = _first_ufunc  # type: ignore[assignment]  # declared as None for type checkers
IndexNode.__array_ufunc__ = _first_ufunc  # type: ignore[assignment]  # as above
Node.__array_function__ = _first_array_function  # type: ignore[attr-defined]  # as above
IndexNode.__array_function__ = _first_array_function  # type: ignore[attr-defined]  # as above

Node.at = LateMethod("wyrm.ops.indexing.index_update", "at")  # type: ignore[assignment]  # as above
for _name, _module in METHODS.items():
    _class, _method = _name.split(".")
    setattr(_CLASSES[_class], _method, LateMethod(_module, _method))
    if _class == "Node" and not _method.startswith("__") and not declares(IndexNode, _method):
        setattr(IndexNode, _method, Foreign(_method))
