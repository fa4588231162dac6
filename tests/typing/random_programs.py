"""Random expressions on nodes, and what the run time says of each: the axes of the result, or that they do not fit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import wyrm as wy
from wyrm.errors import WyrmError

PREAMBLE = """\
from __future__ import annotations
from typing_extensions import reveal_type
import wyrm as wy


class A(wy.Dim): ...


class B(wy.Dim): ...


class C(wy.Dim): ...


a, b, c = A(5), B(7), C(11)
s = wy.Parameter(1.0)
x_a = wy.Parameter.zeros((a,))
x_b = wy.Parameter.zeros((b,))
x_ab = wy.Parameter.zeros((a, b))
y_ab = wy.Parameter.zeros((a, b))
x_ba = wy.Parameter.zeros((b, a))
x_bc = wy.Parameter.zeros((b, c))
x_aa = wy.Parameter.zeros((a, a))
x_abc = wy.Parameter.zeros((a, b, c))
y_abc = wy.Parameter.zeros((a, b, c))
x_acb = wy.Parameter.zeros((a, c, b))
"""
_LEAVES = ("s", "x_a", "x_b", "x_ab", "y_ab", "x_ba", "x_bc", "x_aa", "x_abc", "y_abc", "x_acb")
_AXES = ("None", "0", "1", "2", "-1", "-2", "(0, 1)", "(-2, -1)")
_KEYS = ("0", "-1", ":", "None", "...", "..., 0", ":, 0", ":, None", "..., None", "0, 0", "None, :, 0", "1:3", "::2")
_ONE = (
    "{x}.tanh()",
    "-{x}",
    "{x}.T",
    "{x}.mT",
    "{x}.softmax()",
    "{x}.reshape(-1)",
    "wy.relu({x})",
    "{x} ** 2",
    "2.0 - {x}",
)
_TWO = (
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / {y}", "{x} < {y}", "{x}.maximum({y})", "wy.minimum({x}, {y})",
    "{x} @ {y}", "{x} @ {y}.mT", "wy.where({x} > 0.0, {x}, {y})", "wy.concatenate([{x}, {y}], axis={axis})",
    "wy.stack([{x}, {y}], axis={axis})", "wy.losses.mse({x}, {y})", "wy.inner({x}, {y})", "{x} + {y}[None]",
    "wy.einsum('ij,jk->ik', {x}, {y})", "wy.einsum('ij,ij->i', {x}, {y})", "wy.einsum('...i,...i->...', {x}, {y})",
)  # fmt: skip
_REDUCED = (
    "{x}.sum(axis={axis})", "{x}.mean(axis={axis}, keepdims=True)", "{x}.max(axis={axis})", "wy.std({x}, axis={axis})",
    "{x}.sum(axis={axis}, keepdims=True) * {x}", "{x}.cumsum(axis={axis})", "{x}.argmax(axis={axis})",
    "wy.expand_dims({x}, {axis})", "wy.flip({x}, {axis})", "wy.logsumexp({x}, axis={axis})",
    "wy.swapaxes({x}, 0, {axis})",
)  # fmt: skip


def expressions(count: int) -> Iterator[str]:
    """Yield random expressions; a quarter of the operands are expressions too."""
    draw = random.Random(0)

    def operand() -> str:
        return draw.choice(_LEAVES) if draw.random() < 0.75 else f"({one()})"

    def one() -> str:
        form = draw.choice(draw.choice((_ONE, _TWO, _TWO, _REDUCED, ("{x}[{key}]",))))
        return form.format(x=operand(), y=operand(), axis=draw.choice(_AXES), key=draw.choice(_KEYS))

    for _ in range(count):
        yield one()


def axes_at_run_time(expression: str, names: dict[str, Any]) -> list[str] | None:
    """Return the axes of an expression's value, "Any" for one without a name; None where it raises an error."""
    try:
        value = eval(expression, names)
    except (AttributeError, TypeError, WyrmError):
        return None
    return axes_of(value)


def axes_of(node: Any) -> list[str]:
    """Return the axes of a node as they are written in types."""
    return [_text(axis) for axis in node.dims]


def _text(axis: Any) -> str:
    if isinstance(axis, wy.Plus | wy.Times):
        return f"{type(axis).__name__}[{', '.join(map(_text, axis.parts))}]"
    return type(axis).__name__ if isinstance(axis, wy.Dim) else "Any"
