"""Attaches methods that higher layers implement to nodes and modules, which only declare them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from wyrm.backends.numpy import reference
from wyrm.foreign_names import answering
from wyrm.nn.module import FILES, Module
from wyrm.node.node import IndexNode, Node

if TYPE_CHECKING:
    from wyrm.nn.gpt2 import GPT2


def _save(module: Module, path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
    from wyrm.io.checkpoint import save

    save(module, path, metadata)


def _load(module: Module, path: str | os.PathLike[str]) -> None:
    from wyrm.io.checkpoint import load

    load(module, path)


def _load_state_dict(module: Module, state: Mapping[str, NDArray[Any]]) -> None:
    from wyrm.io.checkpoint import load_state_dict

    load_state_dict(module, state)


def _save_pretrained(model: GPT2, directory: str | os.PathLike[str]) -> None:
    from wyrm.io.hugging_face import save_pretrained

    save_pretrained(model, directory)


def _from_pretrained(directory: str | os.PathLike[str], *, dtype: DTypeLike = np.float32) -> GPT2:
    from wyrm.io.hugging_face import from_pretrained

    return from_pretrained(directory, dtype=dtype)


def _numpy_protocol() -> ModuleType:
    """Replace the two stubs below, which serve the first call, by the functions that apply NumPy to nodes."""
    from wyrm.functions import numpy_protocol

    Node.__array_ufunc__ = numpy_protocol.ufunc  # type: ignore[assignment]  # declared as None for type checkers
    IndexNode.__array_ufunc__ = numpy_protocol.ufunc  # type: ignore[assignment]  # as above
    Node.__array_function__ = numpy_protocol.array_function  # type: ignore[attr-defined]  # as above
    return numpy_protocol


def _first_ufunc(node: Any, *arguments: Any, **options: Any) -> Any:
    return _numpy_protocol().ufunc(node, *arguments, **options)


def _first_array_function(node: Any, *arguments: Any) -> Any:
    return _numpy_protocol().array_function(node, *arguments)


for _cls in (Node, IndexNode):
    _cls.value = property(reference.value)  # type: ignore[assignment,method-assign]  # declared as read-only
    _cls.forward = reference.forward  # type: ignore[assignment,method-assign]  # declared for the type checker
Node.__array_ufunc__ = _first_ufunc  # type: ignore[assignment]  # declared as None for type checkers
IndexNode.__array_ufunc__ = _first_ufunc  # type: ignore[assignment]  # as above
Node.__array_function__ = _first_array_function  # type: ignore[attr-defined]  # as above
Node.backward = answering(reference.backward)  # type: ignore[assignment,method-assign]  # declared for the type checker
Node.zero_gradient = reference.zero_gradient  # type: ignore[assignment,method-assign]  # declared for the type checker
Node.T = property(lambda self: self.transpose())  # type: ignore[assignment, misc]  # declared with overloads
Node.mT = property(lambda self: self.matrix_transpose())  # type: ignore[assignment, misc]  # declared with overloads
FILES.update(
    save=_save,
    load=_load,
    load_state_dict=_load_state_dict,
    save_pretrained=_save_pretrained,
    from_pretrained=_from_pretrained,
)
