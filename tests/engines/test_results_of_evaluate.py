"""What a user's `evaluate` returns and does wrongly is an error in every engine, and never another number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, ShapeError


def numpy(node: Any) -> Any:
    return node.forward()


def native(node: Any) -> Any:
    return wy.compile(node)()


def jax(node: Any) -> Any:
    pytest.importorskip("jax")
    return wy.compile(node, engine="jax")()


def op(evaluate: Callable[..., Any]) -> Any:
    """Return an op that computes three float64 numbers by a function of its operand."""
    p = wy.Parameter(np.array([-1.0, 0.5, 2.0]), name="p")
    parts = {
        "__slots__": (), "shape_rule": lambda self: (3,), "dtype_rule": lambda self: np.dtype(np.float64),
        "evaluate": lambda self, xp, x, *, shape: evaluate(x), "vjp": lambda self, gradient: (gradient,),
    }  # fmt: skip
    node: Any = type("Unsound", (wy.Node,), parts)
    return node(p)


@pytest.fixture(params=[numpy, native, jax], name="compute")
def _compute(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize(
    ("evaluate", "error", "reason"),
    [
        (lambda x: x.sum(), ShapeError, r"evaluate returned shape \(\), but shape_rule gives \(3,\)"),
        (lambda x: x[:1], ShapeError, r"evaluate returned shape \(1,\), but shape_rule gives \(3,\)"),
        (lambda x: None, DTypeError, "evaluate returned None: return an array"),
    ],
)
def test_a_result_that_numpy_would_stretch(
    compute: Callable[[Any], Any], evaluate: Callable[..., Any], error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=f"unsound: {reason}.*") as raised:
        compute(op(evaluate))
    assert "test_results_of_evaluate.py" in str(raised.value)


@pytest.mark.parametrize("compute", [numpy, native])
def test_a_complex_result_does_not_lose_its_imaginary_part(compute: Callable[[Any], Any]) -> None:
    with pytest.raises(DTypeError, match="evaluate returned complex128, but dtype_rule gives float64"):
        compute(op(lambda x: x * 1j))


@pytest.mark.parametrize("compute", [numpy, native])
def test_a_result_may_be_a_list(compute: Callable[[Any], Any]) -> None:
    assert compute(op(lambda x: [1.0, 2.0, 3.0])).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("compute", [numpy, native])
def test_an_operand_cannot_be_written(compute: Callable[[Any], Any]) -> None:
    node = op(lambda x: x.__imul__(2.0))
    with pytest.raises(ValueError, match="read-only"):
        compute(node)
    assert node.parents[0].value.tolist() == [-1.0, 0.5, 2.0]


def test_a_result_of_the_wrong_shape_by_a_call_from_jax() -> None:
    reason = r"evaluate returned shape \(1,\), but shape_rule gives \(3,\)"
    with pytest.warns(RuntimeWarning, match="JAX cannot trace op"), pytest.raises(Exception, match=reason):
        jax(op(lambda x: np.asarray(x)[:1]))


@pytest.mark.parametrize("compute", [numpy, native])
def test_an_error_is_noted_with_the_line(compute: Callable[[Any], Any]) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        compute(op(lambda x: x * (1 // 0)))
    (note,) = raised.value.__notes__
    assert note.startswith("unsound: failed with ZeroDivisionError")
    assert "test_results_of_evaluate.py" in note
