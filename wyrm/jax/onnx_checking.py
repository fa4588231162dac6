"""Whether an ONNX file computes what the graph does, and which op it is if not."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wyrm.errors import WyrmError
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input
from wyrm.graph.schedule import Schedule
from wyrm.ops.random.philox import COUNTERS
from wyrm.support.imports import unread

# The sizes of open axes that a file is tried with, until two fit: 1, where runtimes broadcast, and larger ones.
_SIZES = (1, 3, 16, 64)
# How far numbers may be from those of JAX, relative to the largest, and how many of them farther: the larger of two
# nearly equal elements may be another one.
_TOLERANCE, _FEW = 1e-2, 0.01


class Fault(Exception):
    """What is wrong with a file."""


def check(
    file: Path, names: Sequence[str], compute: Callable[[int], tuple[Callable[..., Any], Sequence[Any]]], is_open: bool
) -> None:
    """Raise `Fault` for a file that its runtime cannot load, or that has other shapes or numbers than JAX computes.

    `names` are those of its inputs. `compute(size)` returns the function of JAX for a size of open axes, and the shapes
    of its arguments. Without ONNX Runtime, only the format and the types are checked.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        import onnx

        try:
            onnx.checker.check_model(str(file), full_check=True)
        except onnx.checker.ValidationError as error:
            raise Fault(f"the file is not valid: {error}") from error
        return
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of classes of its own
        raise Fault(f"ONNX Runtime cannot load the file: {error}") from error
    # The file leaves out inputs that no output depends on.
    used = {each.name for each in session.get_inputs()}
    tried = 0
    for size in _SIZES if is_open else _SIZES[:1]:
        faults = []
        for data, expected in _computed(compute, size):
            try:
                found = session.run(None, {x: array for x, array in zip(names, data, strict=True) if x in used})
            except Exception as error:
                faults.append(f"ONNX Runtime cannot run the file: {error}")
            else:
                faults.append(next(filter(None, map(_difference, found, expected)), ""))
        if faults and all(faults):
            raise Fault(faults[0] + (f", for open axes of size {size}" if is_open else ""))
        tried += bool(faults)
        if tried == 2:
            return


def _computed(
    compute: Callable[[int], tuple[Callable[..., Any], Sequence[Any]]], size: int
) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Yield data and what JAX computes from them: for numbers of any sign, and for numbers between 0 and 1."""
    jax = unread("jax")
    try:
        function, arguments = compute(size)
        compiled = jax.jit(function, compiler_options={"xla_backend_optimization_level": 0}).lower(*arguments).compile()
    except Exception:  # of many types: windows do not fit into axes of this size
        return
    for is_positive in (False, True):
        random = np.random.default_rng(0)
        data = [_drawn(random, x.shape, np.dtype(x.dtype), is_positive) for x in arguments]
        yield data, [np.asarray(result) for result in compiled(*data)]


def _drawn(random: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, is_positive: bool) -> np.ndarray:
    """Return numbers; integers are 0, or 0 and 1, because they may be indices."""
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    if dtype.kind in "iu":
        return random.integers(0, 2 if is_positive else 1, shape).astype(dtype)
    drawn: Any = random.uniform(0.1, 0.9, shape) if is_positive else random.normal(size=shape)
    return np.asarray(drawn, dtype)


def _difference(found: Any, expected: np.ndarray) -> str | None:
    """Return what differs, or None. Where JAX computes no finite number, runtimes differ."""
    if found.shape != expected.shape:
        return f"ONNX Runtime computes the shape {found.shape}, JAX {expected.shape}"
    finite = np.isfinite(expected)
    have, want = np.asarray(found)[finite].astype(np.float64), expected[finite].astype(np.float64)
    allowed = _TOLERANCE * np.abs(want).max(initial=0.0) if expected.dtype.kind == "f" else 0.0
    wrong = ~(np.abs(have - want) <= allowed)
    if wrong.sum() <= _FEW * want.size:
        return None
    return f"ONNX Runtime computes {have[wrong][0]:.6g}, JAX {want[wrong][0]:.6g}"


def first_fault(outputs: Sequence[BaseNode], attempt: Callable[[BaseNode], None]) -> tuple[BaseNode, Exception] | None:
    """Return the first node whose op cannot be exported even alone, and why; `attempt` exports one node."""
    tried: set[tuple[object, ...]] = set()
    for node in Schedule(outputs).nodes:
        if node.is_leaf:
            continue
        key = (type(node), str(node.attribute_values()), *((x.dims, x.dtype) for x in node.parents))
        if key in tried:
            continue
        tried.add(key)
        try:
            copy = _on_inputs(node)
        except (WyrmError, TypeError, ValueError):  # its operands are no arrays
            continue
        try:
            attempt(copy)
        except WyrmError:  # its operands do not have the open axes of the result
            continue
        except Exception as error:  # of many types
            return node, error
    return None


def _on_inputs(node: BaseNode) -> BaseNode:
    """Return the op of a node on inputs in place of what the graph computes, other than random steps and keys."""
    inputs: Mapping[BaseNode, Any] = {
        x: IndexInput(dims=x.dims) if x.dtype.kind == "i" else Input(dims=x.dims, dtype=x.dtype)
        for i, x in enumerate(node.parents)
        if i not in node.residual_parents
        and not (x in COUNTERS or x.dtype.kind == "u")
        and (not x.is_leaf or isinstance(x, Input | IndexInput))
    }
    return type(node).rebuild(tuple(inputs.get(x, x) for x in node.parents), node.attribute_values())


__all__ = ["Fault", "check", "first_fault"]
