"""The table of degenerate points: kinks, poles, ties, and matrices of low rank.

A row is JAX's number, unless it has a `reason`: then it is the documented choice of the row, in `gradients`, `value`
or `error`. Gradients are those of the elements' sum, weighted by `weights_of`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

import wyrm as wy

INF, NAN = np.inf, np.nan
jnp, jsp = jax.numpy, jax.scipy.special
JLA = jax.numpy.linalg


@dataclass(frozen=True)
class Row:
    """A function at a point: ours, JAX's, the operands, and where ours differs, why and what it is instead."""

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    operands: tuple[Any, ...]
    reason: str = ""
    gradients: tuple[Any, ...] | None = None
    error: str = ""
    # Whether versions of JAX after 0.10 have our numbers.
    later_agrees: bool = False


def weights_of(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return different weights for the elements of a result."""
    return np.linspace(1.0, 2.0, int(np.prod(shape))).reshape(shape)


def _elementwise(name: str, *operands: Any, **choice: Any) -> Row:
    """Return the row of a function of one name in both libraries."""
    short = name.removeprefix("special.").removeprefix("nn.")
    if name.startswith("special."):
        ours, theirs = getattr(wy.special, short), getattr(jsp, short)
    elif name.startswith("nn."):
        # PyTorch's names, and JAX's.
        other = {"hardsigmoid": "hard_sigmoid", "hardswish": "hard_swish", "hardtanh": "hard_tanh"}
        ours, theirs = (lambda x: getattr(x, short)()), getattr(jax.nn, other.get(short, short))
    else:
        ours, theirs = getattr(wy, short), getattr(jnp, short)
    return Row(f"{name}{operands}", ours, theirs, operands, **choice)


def _power(exponent: float) -> Row:
    return Row(f"x ** {exponent}", lambda x: x**exponent, lambda x: x**exponent, ([0.0, -1.0, 1.0],))


_TIES = "ties share the gradient, as in maximum"
_RIGHT = "the limit from within the domain"

ELEMENTWISE = [
    _elementwise("sqrt", [0.0, -1.0]),
    _elementwise("cbrt", [0.0]),
    _elementwise("arccos", [1.0, -1.0, 2.0]),
    _elementwise("arcsin", [1.0, -1.0]),
    _elementwise("arctanh", [1.0, -1.0]),
    _elementwise("arccosh", [1.0]),
    _elementwise("log", [0.0, -1.0]),
    _elementwise("log1p", [-1.0, -2.0]),
    _elementwise("log2", [0.0]),
    _elementwise("log10", [0.0]),
    _elementwise("sign", [0.0]),
    _elementwise("reciprocal", [0.0]),
    _elementwise("sinc", [0.0, 1.0]),
    _elementwise("tanh", [1e4, -1e4]),
    _elementwise("expm1", [-1e4, 0.0]),
    _elementwise("arctan", [INF, -INF]),
    _elementwise("abs", [0.0], reason="the mean of the slopes of both sides", gradients=([0.0],)),
    _elementwise("nn.relu", [0.0]),
    _elementwise("nn.sigmoid", [1e4, -1e4]),
    _elementwise("nn.softplus", [1e4, -1e4, 0.0]),
    _elementwise("nn.silu", [0.0, -1e4]),
    _elementwise("nn.elu", [0.0, -1e4]),
    _elementwise("nn.selu", [0.0, -1e4]),
    _elementwise("nn.celu", [0.0, -1e4]),
    _elementwise("nn.relu6", [0.0, 6.0]),
    _elementwise("nn.hardsigmoid", [-3.0, 3.0]),
    _elementwise("nn.hardswish", [-3.0, 3.0]),
    _elementwise("nn.hardtanh", [-1.0, 1.0]),
    _elementwise("nn.log_sigmoid", [1e4, -1e4]),
    _elementwise("nn.leaky_relu", [0.0], reason="the slope of the other side, as in PyTorch", gradients=([0.01],)),
    _elementwise("special.erf", [0.0, INF]),
    _elementwise("special.erfc", [INF, -INF]),
    _elementwise("special.erfinv", [1.0, -1.0, 0.0]),
    _elementwise("special.ndtr", [-INF, INF]),
    _elementwise("special.log_ndtr", [-1e4, INF]),
    _elementwise("special.i0e", [0.0]),
    _elementwise("special.i1", [0.0, 1e-310]),
    _elementwise("special.i1e", [0.0, 1e-310]),
    _elementwise("special.logit", [0.0, 1.0]),
    _elementwise("special.entr", [0.0, -1.0, 1.0]),
    _elementwise("special.i0", [0.0], reason="the function is even", gradients=([0.0],), later_agrees=True),
    _elementwise("special.ndtri", [0.0, 1.0], reason=_RIGHT, gradients=([INF, INF],), later_agrees=True),
    _elementwise("special.gammaln", [0.0, -1.0], reason=_RIGHT, gradients=([-INF, NAN],), later_agrees=True),
    _elementwise("arctan2", [0.0, 0.0, 0.0], [0.0, 1.0, -1.0]),
    _elementwise("maximum", [0.0, 1.0], [0.0, 1.0]),
    _elementwise("minimum", [0.0, 1.0], [0.0, 1.0]),
    _elementwise("fmod", [1.0, 0.0], [1.0, 2.0]),
    _elementwise("remainder", [1.0, 0.0], [1.0, 2.0]),
    _elementwise("copysign", [0.0, 1.0], [1.0, 0.0]),
    _elementwise("fmax", [0.0, NAN], [0.0, 1.0], reason=_TIES, gradients=([0.5, 0.0], [0.5, 2.0])),
    _elementwise("fmin", [0.0], [0.0], reason=_TIES, gradients=([0.5], [0.5])),
    _elementwise(
        "hypot", [0.0, 0.0], [0.0, 1.0], reason="the mean of the slopes of all sides", gradients=([0, 0], [0, 2])
    ),
    _elementwise(
        "logaddexp", [-INF, -INF, INF, 0.0], [-INF, 0.0, 0.0, 0.0], reason="equal infinities share the gradient",
        gradients=([0.5, 0.0, 5 / 3, 1.0], [0.5, 4 / 3, 0.0, 1.0]),
    ),
    _elementwise(
        "logaddexp2", [-INF, INF], [-INF, 0.0], reason="equal infinities share the gradient",
        gradients=([0.5, 2.0], [0.5, 0.0]),
    ),
    _elementwise(
        "float_power", [0.0, 0.0], [0.0, 2.0], reason="x ** 0 is the constant 1", gradients=([0, 0], [0, 0])
    ),
    _elementwise(
        "special.xlogy", [0.0, 0.0, 1.0], [0.0, 1.0, 0.0], reason="0 times any slope of the logarithm",
        gradients=([-INF, 0.0, -INF], [0.0, 0.0, INF]),
    ),
    _elementwise(
        "special.xlog1py", [0.0, 0.0, 1.0], [-1.0, 0.0, -1.0], reason="0 times any slope of the logarithm",
        gradients=([-INF, 0.0, -INF], [0.0, 0.0, INF]),
    ),
    _elementwise("special.rel_entr", [0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, -1.0]),
    _elementwise(
        "special.kl_div", [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], reason="an infinite entropy is a constant, as in rel_entr",
        gradients=([-1, 0, -2], [1, 0, 2]),
    ),
    *map(_power, (0, 1, 2, 3, -1, 0.5, 1.5, 2.5, -0.5)),
    Row(
        "0 ** x", lambda x: 0.0**x, lambda x: jnp.power(0.0, x), ([0.0, 1.0, -1.0],),
        "the limit from the right: -inf where the power is infinite", ([0.0, 0.0, -INF],),
    ),
    Row(
        "clip", lambda x: wy.clip(x, -1.0, 1.0), lambda x: jnp.clip(x, -1.0, 1.0), ([-1.0, 1.0, 0.0, -2.0],),
        "the bounds are within, as in PyTorch", ([1, 4 / 3, 5 / 3, 0],),
    ),
    Row("where of a root", lambda x: wy.where(x > 0, x.sqrt(), 0.0), lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0),
        ([0.0, 1.0],)),
    Row("rgamma", lambda x: wy.special.rgamma(x), lambda x: jnp.zeros_like(x), ([0.0, -1.0, -2.0],),
        "JAX has none; 1 / gamma is entire", ([1.0, -1.5, 4.0],)),
]  # fmt: skip

_VECTORS: dict[str, Any] = {
    "all -inf": [-INF] * 3, "one -inf": [-INF, 0.0, 0.0], "inf": [INF, 0.0, 0.0], "equal": [1.0] * 3, "one": [5.0],
}  # fmt: skip
REDUCTIONS = [
    row
    for name, x in _VECTORS.items()
    for row in (
        Row(f"logsumexp {name}", lambda x: x.logsumexp(), jax.nn.logsumexp, (x,)),
        Row(f"softmax {name}", lambda x: x.softmax(), jax.nn.softmax, (x,)),
        Row(f"log_softmax {name}", lambda x: x.log_softmax(), jax.nn.log_softmax, (x,)),
        Row(f"max {name}", lambda x: x.max(), jnp.max, (x,)),
        Row(f"min {name}", lambda x: x.min(), jnp.min, (x,)),
    )
]
for _name, _x in {"one": [3.0], "equal": [2.0] * 3, "zeros": [0.0, 0.0]}.items():
    REDUCTIONS += [
        Row(f"{function} {_name}", getattr(wy, function), getattr(jnp, function), (_x,))
        for function in ("var", "std", "ptp", "median", "sort", "prod", "cumprod")
    ]
REDUCTIONS += [
    Row("prod with a zero", wy.prod, jnp.prod, ([0.0, 2.0, 3.0],)),
    Row("cumprod with zeros", wy.cumprod, jnp.cumprod, ([2.0, 0.0, 3.0, 0.0, 1.0],)),
    Row("quantile of ties", lambda x: wy.quantile(x, 0.5), lambda x: jnp.quantile(x, 0.5), ([1.0, 1.0, 1.0, 2.0],)),
    Row("log of a probability of 0", lambda x: -x.log_softmax()[0], lambda x: -jax.nn.log_softmax(x)[0],
        ([-INF, 0.0, 0.0],)),
]  # fmt: skip


def _norm(order: Any, name: str, x: Any, reason: str = "", gradient: Any = None) -> Row:
    return Row(
        f"norm {order} {name}", lambda x: wy.linalg.norm(x, order), lambda x: JLA.norm(x, order), (x,), reason,
        None if gradient is None else (gradient,),
    )  # fmt: skip


_ZEROS, _SOME, _EQUAL = [0.0, 0.0, 0.0], [0.0, 2.0, -3.0], [2.0, 2.0, -2.0]
_SINGULAR2 = [[1.0, 2.0], [2.0, 4.0]]
_ABS = "the slope of abs at 0 is 0"
NORMS = [
    *(_norm(order, "of zeros", _ZEROS) for order in (None, 2, 3, 0, 0.5, -1)),
    *(_norm(order, "of zeros", _ZEROS, _ABS, _ZEROS) for order in (1, INF, -INF)),
    *(_norm(order, "with a zero", _SOME) for order in (None, 2, 3, 0, 1.5, INF, -1)),
    _norm(1, "with a zero", _SOME, _ABS, [0.0, 1.0, -1.0]),
    _norm(-INF, "with a zero", _SOME, _ABS, _ZEROS),
    _norm(0.5, "with a zero", _SOME, "no slope on either side", [NAN, 2.22474487, -1.81649658]),
    *(_norm(order, "of equal sizes", _EQUAL) for order in (None, 1, 2, 3, INF, -INF)),
    *(_norm(order, "of a singular matrix", _SINGULAR2) for order in ("fro", "nuc", 2, 1, -1, INF, -INF)),
    *(_norm(order, "of the identity", np.eye(2)) for order in ("fro", "nuc", 2, -2)),
    *(_norm(order, "of the identity", np.eye(2), _ABS, np.eye(2) * 0.5) for order in (1, -1, INF, -INF)),
    *(_norm(order, "of a zero matrix", np.zeros((2, 2))) for order in ("fro", "nuc", -2)),
    _norm(2, "of a zero matrix", np.zeros((2, 2)), "JAX counts its first value as a third tie", np.eye(2) * 0.5),
    *(
        _norm(order, "of a zero matrix", np.zeros((2, 2)), _ABS, np.zeros((2, 2))) for order in (1, -1, INF, -INF)
    ),
]  # fmt: skip

MATRICES: dict[str, Any] = {
    "zero": np.zeros((3, 3)),
    "of rank 1": np.outer([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]),
    "the identity": np.eye(3),
    "of a zero pivot": np.diag([1.0, 1.0, 0.0]),
}
_NO_SOLUTION = "JAX's are NaN; an error says where"
_NOT_VECTORS = "JAX's are NaN; vectors of equal values have no derivative"
LINALG: list[Row] = []
for _name, _x in MATRICES.items():
    _regular = _name == "the identity"
    _refused: dict[str, Any] = {} if _regular else {"reason": _NO_SOLUTION, "error": "is singular"}
    _equal: dict[str, Any] = {"reason": _NOT_VECTORS, "error": "two equal eigenvalues"}
    LINALG += [
        Row(f"det {_name}", wy.linalg.det, JLA.det, (_x,)),
        Row(f"pinv {_name}", wy.linalg.pinv, JLA.pinv, (_x,)),
        Row(f"expm {_name}", lambda x: wy.linalg.expm(x * 0.1), lambda x: jax.scipy.linalg.expm(x * 0.1), (_x,)),
        Row(f"matrix_power {_name}", lambda x: wy.linalg.matrix_power(x, 3), lambda x: JLA.matrix_power(x, 3), (_x,)),
        Row(f"inv {_name}", wy.linalg.inv, JLA.inv, (_x,), **_refused),
        Row(f"solve {_name}", wy.linalg.solve, JLA.solve, (_x, [1.0, 2.0, 3.0]), **_refused),
        Row(f"slogdet {_name}", lambda x: wy.linalg.slogdet(x)[1], lambda x: JLA.slogdet(x)[1], (_x,), **_refused),
    ]
    if _name != "of rank 1":  # rounding decides whether values of 0 are equal, and which vectors belong to them
        LINALG += [
            Row(f"svdvals {_name}", wy.linalg.svdvals, lambda x: JLA.svd(x, compute_uv=False), (_x,)),
            Row(f"eigh {_name}", lambda x: wy.linalg.eigh(x)[1], lambda x: JLA.eigh(x)[1], (_x,), **_equal),
            Row(f"svd {_name}", lambda x: wy.linalg.svd(x).U, lambda x: JLA.svd(x)[0], (_x,), **_equal),
            Row(f"qr {_name}", lambda x: wy.linalg.qr(x).R, lambda x: JLA.qr(x)[1], (_x,), **_refused),
        ]
    if not _regular:
        LINALG.append(
            Row(f"cholesky {_name}", wy.linalg.cholesky, JLA.cholesky, (_x,), _NO_SOLUTION, error="positive definite")
        )
_B = [1.0, 2.0, 3.0]
LINALG += [
    Row("lstsq of rank 1", lambda a, b: wy.linalg.lstsq(a, b).x, lambda a, b: JLA.lstsq(a, b)[0],
        (MATRICES["of rank 1"], _B)),
    Row("lstsq zero", lambda a, b: wy.linalg.lstsq(a, b).x, lambda a, b: JLA.lstsq(a, b)[0], (MATRICES["zero"], _B),
        "of rank 0 everywhere that the gradient is valid; JAX's is NaN", (np.zeros((3, 3)), [0.0] * 3)),
    Row("lstsq the identity", lambda a, b: wy.linalg.lstsq(a, b).x, lambda a, b: JLA.lstsq(a, b)[0], (np.eye(3), _B),
        "that of the inverse; JAX's is NaN for equal singular values",
        (-np.outer([1.0, 1.5, 2.0], _B), [1.0, 1.5, 2.0])),
]  # fmt: skip
ROWS = [*ELEMENTWISE, *REDUCTIONS, *NORMS, *LINALG]
