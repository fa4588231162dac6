"""Every function, method and operator of nodes that NumPy has too, on odd shapes and values, against NumPy.

An error is right where NumPy raises one too. Otherwise only an empty array and an axis of a scalar may be refused;
refused keywords have a test of their own.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.functions.numpy_protocol import FUNCTIONS, UFUNCS

Call = Callable[..., Any]

_RANDOM = np.random.default_rng(0)
_EDGES = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 2.5, -2.5, 1e300, 5e-324, 710.3, 1000.0, 0.1, 3.0]
ARRAYS: dict[str, Any] = {
    "scalar": np.array(2.5),
    "scalar nan": np.array(np.nan),
    "one": np.array([1.5]),
    "empty": np.zeros(0),
    "no rows": np.zeros((0, 3)),
    "no columns": np.zeros((3, 0, 2)),
    "ties": np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]),
    "edges": np.array(_EDGES),
    "rows of edges": np.array(_EDGES).reshape(3, 5),
    "zeros": np.array([[-0.0, 0.0], [0.0, -0.0]]),
    "infinities": np.array([[np.inf, -np.inf], [np.inf, np.inf]]),
    "three axes": _RANDOM.normal(size=(2, 1, 3)),
}
AXES: list[Any] = [None, 0, -1, 1, (0,), (0, 1), (-1, 0), (), 2, (0, 0)]
SHAPES: list[Any] = [6, (2, 3), (3, -1), (-1,), (), (1, -1, 1), (0, -1), np.array([3, 2]), [6], (-1, -1), (2, 3.0)]
KEYS: list[Any] = [
    0, -1, slice(None, None, -1), slice(1, None), slice(5, 1), ..., None, (..., 0), (slice(None), -1), (0, None), 7,
    (0, 0, 0), slice(None, None, 2), (None, ..., None), (),
]  # fmt: skip


def with_axes(name: str, call: Call) -> Iterator[tuple[str, Call]]:
    for axis in AXES:
        yield f"{name} axis={axis}", lambda x, axis=axis: call(x, axis)


def reductions() -> Iterator[tuple[str, Call]]:
    for name in ("sum", "mean", "prod", "max", "min", "amax", "amin", "var", "std", "argmax", "any", "all"):
        for keepdims in (False, True):
            function = getattr(np, name)
            yield from with_axes(
                f"{name} {keepdims}", lambda x, axis, f=function, k=keepdims: f(x, axis=axis, keepdims=k)
            )
            if hasattr(wy.Node, name):
                yield from with_axes(
                    f".{name} {keepdims}", lambda x, axis, n=name, k=keepdims: getattr(x, n)(axis=axis, keepdims=k)
                )
    for function in (np.var, np.std):
        for ddof in (1, 2, 0.5):
            yield f"{function.__name__} ddof={ddof}", lambda x, f=function, d=ddof: f(x, ddof=d)
    of_dtype: list[Call] = [np.sum, np.mean, np.prod, np.var, np.std]
    for function in of_dtype:
        for dtype in (np.float32, np.float64):
            yield f"{function.__name__} {dtype.__name__}", lambda x, f=function, d=dtype: f(x, dtype=d)
    of_some: list[Call] = [np.sum, np.mean, np.prod, np.any, np.all]
    for function in of_some:
        yield f"{function.__name__} where", lambda x, f=function: f(x, axis=-1, where=x > 0)
    of_more: list[Call] = [np.sum, np.prod, np.max, np.min]
    for function in of_more:
        yield f"{function.__name__} initial", lambda x, f=function: f(x, initial=0.5, keepdims=True)
        yield f"{function.__name__} initial where", lambda x, f=function: f(x, axis=0, initial=0.5, where=x > 0)
    yield "max where", lambda x: np.max(x, where=x > 0)
    yield "var correction", lambda x: np.var(x, correction=1)
    yield "sum by name", lambda x: np.sum(a=x, axis=0, out=None)
    yield "max by position", lambda x: np.max(x, 0, None, True)
    yield "mean by position", lambda x: np.mean(x, -1, None, None, True)
    yield "std by position", lambda x: np.std(x, 0, None, None, 1)
    yield from with_axes("norm", lambda x, axis: np.linalg.norm(x, axis=axis))
    for axis in (0, -1, 2):
        yield f"norm 2 {axis}", lambda x, a=axis: np.linalg.norm(x, 2, axis=a)
    yield from with_axes("norm fro", lambda x, axis: np.linalg.norm(x, "fro", axis=axis, keepdims=True))


def _size_takes_axes() -> bool:
    try:
        return np.size(np.ones(2), axis=(0,)) == 2
    except TypeError:
        return False


SIZE_TAKES_AXES = _size_takes_axes()


def shapes() -> Iterator[tuple[str, Call]]:
    for shape in SHAPES:
        yield f"reshape {shape}", lambda x, s=shape: np.reshape(x, s)
        yield f".reshape {shape}", lambda x, s=shape: x.reshape(s)
        yield f"broadcast_to {shape}", lambda x, s=shape: np.broadcast_to(x, s)
    for axes in (None, (1, 0), (0, 1), (-1, 0), (0, 2, 1), (), (0,), (0, 0)):
        yield f"transpose {axes}", lambda x, a=axes: np.transpose(x, axes=a)
        yield f".transpose {axes}", lambda x, a=axes: x.transpose(a)
    yield from with_axes("squeeze", np.squeeze)
    yield from with_axes("expand_dims", np.expand_dims)
    # Nodes accept several axes in every version; NumPy only in new ones.
    yield from ((name, call) for name, call in with_axes("size", np.size) if SIZE_TAKES_AXES or "(" not in name)
    yield from with_axes("concatenate", lambda x, axis: np.concatenate([x, x], axis=axis))
    yield from with_axes("stack", lambda x, axis: np.stack([x, x], axis))
    for axis in (0, -1, 1):
        for parts in (1, 2, 3, [1], [1, 2], [5, 2], [-1], []):
            yield f"split {parts} {axis}", lambda x, p=parts, a=axis: np.split(x, p, axis=a)
    yield "swapaxes", lambda x: np.swapaxes(x, 0, -1)
    for name in ("T", "mT"):
        yield name, operator.attrgetter(name)
    for function in (np.ravel, np.zeros_like, np.ones_like, np.shape, np.ndim):
        yield function.__name__, function
    yield "reshape by name", lambda x: np.reshape(x, shape=(-1,), order="C")
    yield "full_like", lambda x: np.full_like(x, 2.5)
    yield "full_like float32", lambda x: np.full_like(x, 2.5, np.float32)
    yield "zeros_like float32", lambda x: np.zeros_like(x, np.float32)
    yield "ones_like by name", lambda x: np.ones_like(x, order="K", subok=True, dtype=x.dtype)
    for key in KEYS:
        yield f"[{key}]", lambda x, k=key: x[k]


def choices() -> Iterator[tuple[str, Call]]:
    for chosen in (0, [0], [[0, 1]]):
        yield from with_axes(f"take {chosen}", lambda x, axis, i=chosen: np.take(x, i, axis=axis))
    yield (
        "take_along_axis",
        lambda x: np.take_along_axis(x, np.zeros((*x.shape[:-1], min(1, x.size)), int), -1 if x.ndim else 0),
    )
    yield "take_along_axis None", lambda x: np.take_along_axis(x, np.zeros(min(1, x.size), int), None)
    for low, high in ((0.0, 1.0), (None, 1.0), (-1.0, None), (0, 2), (-np.inf, np.inf)):
        yield f"clip {low} {high}", lambda x, a=low, b=high: np.clip(x, a, b)
        yield f".clip {low} {high}", lambda x, a=low, b=high: x.clip(a, b)
        yield f"clip a_min={low}", lambda x, a=low, b=high: np.clip(x, a_min=a, a_max=b)
        yield f"clip min={low}", lambda x, a=low, b=high: np.clip(x, min=a, max=b)
    yield "where float64", lambda x: np.where(x > 0, np.float64(1.1), np.float64(2.0))
    yield "where arrays", lambda x: np.where(x > 0, np.full(x.shape, 1.1), np.full(x.shape, 0.1))
    yield "where mixed", lambda x: np.where(x > 0, x, 0.1)
    yield "where of an array", lambda x: np.where(np.ones(x.shape, bool), x, 2.0)


def ufuncs() -> Iterator[tuple[str, Call]]:
    for name in UFUNCS:
        function = getattr(np, name, None)
        if function is not None and function.nin == 1 and name not in ("invert", "bitwise_not"):
            yield name, function
    yield "neg", operator.neg
    yield "abs", abs
    yield "defaults", lambda x: np.exp(x, where=True, casting="same_kind", order="K", dtype=x.dtype)
    yield "outer", lambda x: np.outer(a=x, b=x)


def pairs() -> Iterator[tuple[str, Call]]:
    for name in UFUNCS:
        function = getattr(np, name, None)
        if function is not None and function.nin == 2 and not name.startswith("bitwise_"):
            yield name, function
    yield "dot", lambda x, y: np.dot(x, y) if x.ndim and y.ndim else np.multiply(x, y)
    for function in (
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "matmul",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
    ):
        yield function, getattr(operator, function)


def answer(call: Call, *operands: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", "Degrees of freedom")  # nodes raise there
        try:
            return call(*operands)
        except Exception as error:
            return error


def computed(call: Call, *operands: Any) -> Any:
    try:
        found = call(*map(wy.Constant, operands))
        if isinstance(found, list):
            return [part.forward() for part in found]
        return found.forward() if isinstance(found, wy.Node | wy.IndexNode) else found
    except (wy.WyrmError, TypeError) as error:
        return error


def differs(found: Any, wanted: Any) -> bool:
    """Whether shape or dtype differ, values by more than 4 ulp, or the sign of a zero."""
    if isinstance(wanted, list):
        return len(found) != len(wanted) or any(map(differs, found, wanted))
    a, b = np.asarray(found), np.asarray(wanted)
    if a.shape != b.shape or a.dtype != b.dtype:
        return True
    if a.dtype.kind != "f":
        return not np.array_equal(a, b)
    with np.errstate(all="ignore"):
        near = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= 1e-14 * np.abs(b))
        return bool((~near | ((a == 0) & (np.signbit(a) != np.signbit(b)))).any())


def deviations(call: Call, *names: str) -> Iterator[str]:
    operands = [ARRAYS[name] for name in names]
    wanted, found = answer(call, *operands), computed(call, *operands)
    where = " and ".join(names)
    if isinstance(found, Exception):
        may = any(x.size == 0 or x.ndim == 0 for x in operands)
        if not isinstance(wanted, Exception) and not may:
            yield f"{where}: refused with {found}"
    elif isinstance(wanted, Exception):
        yield f"{where}: {found!r} where NumPy raises {wanted!r}"
    elif differs(found, wanted):
        yield f"{where}: {found!r} instead of {wanted!r}"


@pytest.mark.parametrize("family", [reductions, shapes, choices, ufuncs], ids=lambda family: family.__name__)
def test_functions_of_one_array(family: Callable[[], Iterator[tuple[str, Call]]]) -> None:
    wrong = [f"{name}: {each}" for name, call in family() for array in ARRAYS for each in deviations(call, array)]
    assert wrong == []


def test_functions_of_two_arrays() -> None:
    several = [name for name in ARRAYS if name not in ("scalar nan", "no rows", "infinities")]
    wrong = [
        f"{name}: {each}"
        for name, call in pairs()
        for one in several
        for other in several
        for each in deviations(call, one, other)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("left", "right"),
    [((3,), (2, 3, 4)), ((2, 3), (5, 3, 4)), ((2, 6, 3), (3,)), ((2, 6, 3), (3, 4)), ((2, 6, 3), (5, 7, 3, 4))],
)
def test_dot_of_several_axes(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    x: Any = _RANDOM.normal(size=left)
    y: Any = _RANDOM.normal(size=right)
    one: Any = wy.Constant(x)
    other: Any = wy.Constant(y)
    for found in (np.dot(one, y), np.dot(x, other)):
        np.testing.assert_allclose(found.forward(), np.dot(x, y), rtol=1e-12)


def test_every_function_is_swept() -> None:
    swept = {
        name.lstrip(".").split()[0] for family in (reductions, shapes, choices, ufuncs, pairs) for name, _ in family()
    }
    others = {"einsum"}  # tested in test_numpy_protocol.py
    assert {function.__name__ for function in FUNCTIONS} - swept - others == set()


def test_what_is_like_a_node_has_no_nan_of_its_own() -> None:
    class Batch(wy.Dim): ...

    x: Any = wy.Input(dims=(Batch(), 2), finite=False)
    x.set(np.array([[np.nan, np.inf]]))
    like: Any = np.stack([np.zeros_like(x), np.ones_like(x)])
    mask: Any = np.zeros_like(x > 0.0)
    assert like.forward().tolist() == [[[0.0, 0.0]], [[1.0, 1.0]]]
    assert mask.forward().dtype == np.bool_
    x.set(np.ones((3, 2)))
    assert like.forward().shape == (2, 3, 2)


def test_the_sum_of_exponentials_shares_its_gradient_at_ties() -> None:
    inputs: list[Any] = [wy.Input(np.array([0.0, np.inf, -np.inf, last]), finite=False) for last in (3.0, 1.0)]
    by_x, by_y = wy.grad(np.logaddexp(*inputs).sum(), inputs)
    np.testing.assert_allclose(by_x.forward(), [0.5, 0.5, 0.5, 1.0 / (1.0 + np.exp(-2.0))])
    np.testing.assert_allclose(by_y.forward(), 1.0 - by_x.forward())
    assert wy.grad(by_x.sum(), inputs[0]).forward()[0] == 0.25


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: np.sum(x, dtype=np.float16), r"numpy\.sum of a node takes .* not dtype; convert with \.astype"),
        (lambda x: np.sum(x, 0, np.int64), r"numpy\.sum .* not dtype"),
        (lambda x: np.mean(x, where=x), r"numpy\.mean: .* where= takes a mask"),
        (lambda x: np.var(x, ddof=1, correction=1), r"numpy\.var: ddof and correction are two names"),
        (lambda x: np.var(x, mean=x), r"numpy\.var of a node takes .* not mean"),
        (lambda x: np.nansum(x, where=np.ones(3, bool)), r"numpy\.nansum of a node takes a, axis, keepdims, not where"),
        (lambda x: np.max(x, out=np.zeros(())), r"numpy\.max .* not out; use the returned node"),
        (lambda x: np.reshape(x, (3,), order="F"), r"numpy\.reshape .* not order; elements are in row-major order"),
        (lambda x: np.ravel(x, "F"), r"numpy\.ravel .* not order"),
        (lambda x: np.clip(x, 0, 1, dtype=np.float64), r"numpy\.clip .* not dtype"),
        (lambda x: np.take(x, [7], out=np.zeros(1)), r"numpy\.take of a node takes a, indices, axis, mode, not out"),
        (lambda x: np.concatenate([x, x], dtype=np.float64), r"numpy\.concatenate .* not dtype"),
        (lambda x: np.zeros_like(x, shape=(2,)), r"numpy\.zeros_like of a node takes a, dtype, not shape"),
        (lambda x: np.matmul(x, x, axes=[(0, 1)] * 3), r"numpy\.matmul of a node takes its operands, not axes"),
        (lambda x: np.add(x, 1.0, where=np.ones(3, bool)), r"numpy\.add .* not where"),
        (lambda x: np.add(x, 1.0, dtype=np.float16), r"numpy\.add .* not dtype; convert with \.astype"),
        (lambda x: np.einsum("i,i", x, x, dtype=np.float64), r"numpy\.einsum .* not dtype"),
        (lambda x: np.where(x > 0.0), r"numpy\.where of nodes takes \(condition, x, y\)"),
        (lambda x: x.sum(dtype=np.float64), r"node\.sum takes axis, keepdims, not dtype; convert with \.astype"),
        (lambda x: x.mean(where=True), r"node\.mean takes axis, keepdims, not where"),
        (lambda x: x.var(mean=0.0), r"node\.var takes axis, keepdims, ddof, not mean"),
        (lambda x: x.sum(0, np.float64), "sum: keepdims must be True or False, not .*; pass keywords by name"),
        (lambda x: x.argmax(0, np.zeros(())), "argmax: keepdims must be True or False"),
    ],
)
def test_keywords_that_nodes_do_not_take(call: Call, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call(wy.Constant([1.0, 2.0, 3.0]))
