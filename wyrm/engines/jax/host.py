"""Ops that JAX cannot trace: an error that says what to register, or a call of their NumPy code."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakSet

import numpy as np

from wyrm.engines.evaluated import check_shape
from wyrm.errors import RegistrationError, WyrmError
from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode, describe, explain
from wyrm.graph.jax_form import JAX, JaxForm
from wyrm.graph.op import NUMPY
from wyrm.ops.kernels.loops_jax import on_host
from wyrm.ops.random.philox import Counter
from wyrm.support.imports import jax

# The ops that a warning has named, and whether warnings are given.
_told: WeakSet[type[BaseNode]] = WeakSet()
_warns: ContextVar[bool] = ContextVar("_warns", default=True)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Give no warnings of calls, as in a comparison of engines, and keep them for later programs."""
    token = _warns.set(False)
    try:
        yield
    finally:
        _warns.reset(token)


def evaluated_in_numpy(node: BaseNode) -> bool:
    """Return whether the op's `evaluate` alone says what it computes, of no random step, which JAX has as two words."""
    only = type(JAX.of(node)).lower is JaxForm.lower and not node.formula
    of_step = any(isinstance(parent, Counter) for parent in node.parents)
    return only and not node.takes_rows and not node.gives_rows and not of_step


def untraceable(node: BaseNode, error: Exception) -> bool:
    """Return whether an error came from code that JAX cannot trace, such as code that needs NumPy's arrays."""
    refused = (
        jax.errors.TracerArrayConversionError, jax.errors.TracerBoolConversionError,
        jax.errors.TracerIntegerConversionError, jax.errors.ConcretizationTypeError,
        jax.errors.NonConcreteBooleanIndexError, jax.errors.UnexpectedTracerError,
    )  # fmt: skip
    if isinstance(error, WyrmError):
        return False
    # Compiled libraries refuse a tracer with errors of their own; the `lower` of a form means to be traced.
    return isinstance(error, refused) or type(JAX.of(node)).lower is JaxForm.lower


def refusal(node: BaseNode, error: Exception) -> RegistrationError:
    """Return the error for an op whose code JAX cannot trace."""
    form = type(JAX.of(node))
    what, remedy = f"`lower` of {form.__name__}", "use functions of jax.numpy alone there"
    if form.lower is JaxForm.lower:
        what, remedy = "its `evaluate`", f"use functions of the namespace `xp` alone there, or {_lowering_of(node)}"
    return RegistrationError(explain(node, f"{_cannot(node, what, error)}; {remedy}"))


def _cannot(node: BaseNode, what: str, error: Exception) -> str:
    first = str(error).strip().partition("\n")[0]
    return f"JAX cannot trace op {type(node).__name__}: {what} needs arrays of NumPy ({first})"


def _lowering_of(node: BaseNode) -> str:
    op = type(node).__name__
    return (
        f"register a lowering:\n"
        f"    @wy.JAX.register({op})\n"
        f"    class {op}Form(wy.JaxForm):\n"
        f"        def lower(self, node, operands, shape, lowering): ...  # functions of jax.numpy"
    )


def call_evaluate(
    node: BaseNode, operands: Sequence[Any], shape: tuple[int, ...], sizes: Mapping[type[Dim], int], error: Exception
) -> Any:
    """Return the value of an op by a call of its `evaluate` with NumPy's arrays, from JAX's program.

    Warn once for each op: the call copies operands to the host, and JAX neither fuses nor differentiates it.
    """
    from jax.dtypes import canonicalize_dtype

    op = type(node)
    if op not in _told and _warns.get():
        _told.add(op)
        what = f"{_cannot(node, 'its `evaluate`', error)}, so JAX's programs call it with those on the host, slowly"
        text = f"{describe(node)}: {what}; to compute it by XLA, {_lowering_of(node)}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    evaluate = node.evaluate_for(sizes)
    kinds = [parent.dtype for parent in node.parents]

    def compute(*arrays: np.ndarray) -> Any:
        given = (x.astype(kind, copy=False) for x, kind in zip(arrays, kinds, strict=True))
        value = evaluate(NUMPY, *given, shape=shape)
        check_shape(node, value, shape)
        return np.asarray(value)

    # Activations of a program that computes in bfloat16 are floats here.
    floats = [x.astype(kind) if kind.kind == "f" else x for x, kind in zip(operands, kinds, strict=True)]
    return on_host(compute, shape, np.dtype(canonicalize_dtype(node.dtype)), floats)


def must_call(node: BaseNode, operands: Sequence[Any], shape: tuple[int, ...], lowering: Any) -> bool:
    """Return whether JAX cannot trace the `evaluate` of an op for operands of these shapes."""
    try:
        jax.eval_shape(lambda *given: JAX.of(node).lower(node, given, shape, lowering), *operands)
    except Exception as error:
        return untraceable(node, error)
    return False
