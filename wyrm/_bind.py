"""Attaches methods to nodes, which declare them and which higher layers implement."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from wyrm._names import METHODS
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
