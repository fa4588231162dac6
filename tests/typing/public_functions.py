"""Calls of every public function and method of nodes, chosen by running them: those that fit, and those that do not."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import wyrm as wy
from tests.typing.random_programs import PREAMBLE as _LEAVES
from tests.typing.random_programs import axes_of
from wyrm.errors import ShapeError

PREAMBLE = (
    _LEAVES
    + """\
x_abb = wy.Parameter.zeros((a, b, b))
m_ab = x_ab > 0.0
i_a = wy.IndexInput([0, 1, 2, 0, 1], dims=(a,))
i_b = wy.IndexInput([0, 1, 2, 0, 1, 1, 2], dims=(b,))
"""
)
# Functions that build no node, that call functions of users, or whose operands come first as axes or texts.
_OTHERS = frozenset({
    "allclose", "any_dim", "array_equal", "at_step", "backward", "checkpoint", "compile", "cond", "custom_jvp",
    "custom_vjp", "embed", "erase", "forward", "function", "generate", "generate_text", "gpt2_axes", "grad", "hessian",
    "hvp", "index", "item", "jacobian", "jvp", "kernel", "linearize", "next_step", "parameters", "profile",
    "recommend", "run", "sample_tokens", "sampled_tokens", "scan", "seed", "set", "set_step", "show", "summary",
    "switch", "time_ops", "tofile", "tolist", "updating", "value_and_grad", "vjp", "vmap", "watch", "watch_nan",
    "while_loop", "zero_gradient",
})  # fmt: skip
# What joins and stacks takes a list.
_OF_LISTS = frozenset({
    "block", "column_stack", "concat", "concatenate", "dstack", "hstack", "meshgrid", "multi_dot", "stack",
    "vstack",
})  # fmt: skip
_ONE = ("x_ab", "x_a", "x_aa", "x_abc", "x_abb", "s", "i_a", "m_ab")
_OPTIONS = (
    "", "0", "1", "-1", "axis=0", "axis=-1", "axis=None", "axis=(0, 1)", "axis=0, keepdims=True", "0, 1", "(1, 0)",
    "0.5", "(a, b)", "(a, b, c)", "b", "-1.0, 1.0", "2, 2", "3", "k=1", "n=2", "(-1,)",
)  # fmt: skip
_TWO = (
    ("x_ab", "y_ab"), ("x_ab", "x_b"), ("x_ab", "x_bc"), ("x_a", "x_a"), ("x_aa", "x_a"), ("x_aa", "x_ab"),
    ("x_abb", "x_ab"), ("x_abb", "x_abb"), ("x_ab", "i_a"), ("x_a", "i_a"), ("i_a", "x_ab"), ("m_ab", "x_ab"),
    ("x_ab", "s"), ("x_ab", "x_a[:, None]"), ("x_abc", "x_bc"),
)  # fmt: skip
_THREE = (("x_ab", "y_ab", "x_b"), ("m_ab", "x_ab", "y_ab"), ("x_a", "x_a", "x_a"), ("x_ab", "y_ab", "i_a"))
_UNLIKE = (
    ("x_ab", "x_ba"), ("x_a", "x_b"), ("x_abc", "x_acb"), ("x_aa", "x_b"), ("x_ab", "x_a"), ("x_ab", "i_b"),
    ("x_aa", "x_bc"), ("x_ab", "x_abc"), ("m_ab", "x_ba"), ("x_ab", "x_ba", "x_ab"), ("x_a", "x_a", "x_b"),
)  # fmt: skip
_OUTSIDE = ("axis=2", "axis=-3", "2", "-3", "0, 2", "(0, 1, 2)", "axis=(0, 2)", "0, 0")


class Call(NamedTuple):
    """A call, the function's name, and the axes of what it builds; None where the axes of its operands do not fit."""

    function: str
    text: str
    axes: list[str] | None


def _written() -> Iterator[tuple[str, Callable[[Sequence[str], str], str]]]:
    """Yield functions and methods by name, each with what writes a call of it: of operands and options."""
    places = {
        "wy": wy, "wy.losses": wy.losses, "wy.linalg": wy.linalg, "wy.special": wy.special, "wy.random": wy.random,
        "wy.nn": wy.nn,
    }  # fmt: skip
    for place, module in places.items():
        for name in module.__all__:
            found = getattr(module, name)
            if name in _OTHERS or name[:1].isupper() or inspect.ismodule(found) or not callable(found):
                continue

            def call(operands: Sequence[str], options: str, name: str = f"{place}.{name}") -> str:
                given = [f"[{', '.join(operands)}]"] if name.rpartition(".")[2] in _OF_LISTS else operands
                return f"{name}({', '.join(filter(None, [*given, options]))})"

            yield f"{place}.{name}", call
    for name in dir(wy.Node):
        if name.startswith("_") or name in _OTHERS or not inspect.isfunction(getattr(wy.Node, name, None)):
            continue

        def of_method(operands: Sequence[str], options: str, name: str = name) -> str:
            return f"{operands[0]}.{name}({', '.join(filter(None, [*operands[1:], options]))})"

        yield f".{name}", of_method


def calls() -> Iterator[Call]:
    """Yield up to six calls that fit and three that do not, of every function."""
    names: dict[str, Any] = {}
    exec(PREAMBLE, names)
    fitting = [((x,), option) for option in _OPTIONS for x in _ONE]
    fitting += [(x, option) for x in (*_TWO, *_THREE) for option in ("", "axis=0", "axis=-1")]  # type: ignore[misc]
    unlike = [(("x_ab",), option) for option in _OUTSIDE]
    unlike += [(x, option) for x in _UNLIKE for option in ("", "axis=0")]  # type: ignore[misc]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for function, written in _written():
            built: dict[object, Call] = {}
            for operands, option in fitting:
                text = written(operands, option)
                value = _value(text, names)
                if isinstance(value, wy.Node | wy.IndexNode):
                    axes = axes_of(value)
                    built.setdefault((len(operands), *axes), Call(function, text, axes))
            yield from list(built.values())[:6]
            texts = [written(*each) for each in unlike]
            yield from [Call(function, text, None) for text in texts if isinstance(_value(text, names), ShapeError)][:3]


def _value(text: str, names: dict[str, Any]) -> Any:
    try:
        return eval(text, names)
    except Exception as error:
        return error
