"""Checks of derivatives against differences, of functions of nested containers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from .core import is_complex, leaves_of, make_jvp, make_vjp, vspace
from .wrap_util import get_name, unary_to_nary

TOL = RTOL = 1e-6
EPS = 1e-6


def scalar_close(a: Any, b: Any) -> bool:
    return bool(abs(a - b) < TOL or abs(a - b) / abs(a + b) < RTOL)


def check_equivalent(x: Any, y: Any) -> None:
    space = vspace(x)
    assert space == vspace(y), f"{space.shapes} against {vspace(y).shapes}"
    v = space.randn()
    assert scalar_close(space.inner_prod(x, v), space.inner_prod(y, v)), f"{x} against {y}"


def _difference(f: Callable[..., Any], x: Any, v: Any) -> Any:
    of_x, of_y = vspace(x), vspace(make_vjp(f, x)[1])
    above = make_vjp(f, of_x.add(x, of_x.scalar_mul(v, EPS / 2)))[1]
    below = make_vjp(f, of_x.add(x, of_x.scalar_mul(v, -EPS / 2)))[1]
    return of_y.scalar_mul(of_y.add(above, of_y.scalar_mul(below, -1.0)), 1.0 / EPS)


def check_vjp(f: Callable[..., Any], x: Any) -> None:
    pullback, y = make_vjp(f, x)
    of_x, of_y = vspace(x), vspace(y)
    along_x, along_y = of_x.randn(), of_y.randn()
    found = pullback(along_y)
    assert vspace(found) == of_x
    exact, numeric = of_x.inner_prod(along_x, found), of_y.inner_prod(along_y, _difference(f, x, along_x))
    assert scalar_close(numeric, exact), (
        f"Derivative (VJP) check of {get_name(f)} failed at {x}: {exact} against {numeric} by differences"
    )


def check_jvp(f: Callable[..., Any], x: Any) -> None:
    along = vspace(x).randn()
    check_equivalent(make_jvp(f, x)(along)[1], _difference(f, x, along))


@unary_to_nary
def check_grads(f: Callable[..., Any], x: Any, modes: Sequence[str] = ("fwd", "rev"), order: int = 2) -> None:
    if any(is_complex(leaf) for leaf in leaves_of(x)):
        pytest.skip("complex numbers")
    if "fwd" in modes:
        check_jvp(f, x)
        if order > 1:
            v = vspace(x).randn()
            check_grads(lambda x, v: make_jvp(f, x)(v)[1], (0, 1), modes, order=order - 1)(x, v)
    if "rev" in modes:
        check_vjp(f, x)
        if order > 1:
            v = vspace(make_vjp(f, x)[1]).randn()

            def pulled(x: Any, v: Any) -> Any:
                return make_vjp(f, x)[0](v)

            pulled.__name__ = f"vjp_{get_name(f)}"
            check_grads(pulled, (0, 1), modes, order=order - 1)(x, v)


def combo_check(function: Callable[..., Any], *options: Any, **settings: Any) -> Callable[..., None]:
    """Check all combinations of arguments; those with complex numbers are left out unless they are all."""

    def check(*arguments: Any, **keywords: Any) -> None:
        pairs = [[(key, value) for value in values] for key, values in keywords.items()]
        combinations = list(itertools.product(itertools.product(*arguments), itertools.product(*pairs)))
        real = [each for each in combinations if not any(is_complex(leaf) for leaf in leaves_of(list(each[0])))]
        if combinations and not real:
            pytest.skip("complex numbers")
        for chosen, named in real:
            check_grads(function, *options, **settings)(*chosen, **dict(named))

    return check
