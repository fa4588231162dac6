"""The default arguments of methods and functions that have NumPy's names are those of NumPy."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wyrm as wy
import wyrm.declare.methods  # imports all ops
from wyrm.graph.registration import METHODS

EMPTY = inspect.Parameter.empty
# Type checkers refuse calls with the arguments that are refused here.
functions: Any = wy
# What NumPy's signatures show for a keyword that only some arrays take, and the value that it then has.
UNSAID = {"keepdims": False, "min": None, "max": None, "prepend": None, "append": None, "a_min": None, "a_max": None}
# Defaults that differ on purpose, with the reason.
DIFFERENT: dict[tuple[str, str], str] = {
    ("einsum", "optimize"): "the order of the products changes no result",
    ("histogram", "density"): "False and None say the same",
    **{
        (name, "dtype"): "wyrm's own default is float32"
        for name in ("eye", "identity", "tri", "linspace", "logspace", "geomspace")
    },
    ("where", "x"): "the places where a mask is true depend on the data",
    ("where", "y"): "the places where a mask is true depend on the data",
}


# Methods with another order, whose `keepdims` refuses NumPy's `dtype` at its place.
OTHER_ORDER = {"var", "std"}


def signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def pairs() -> Iterator[tuple[str, Any, Any]]:
    """Yield a name, wyrm's function and NumPy's, for methods and for functions."""
    for (owner, name), method in METHODS.items():
        source = getattr(method, "__init__", method) if isinstance(method, type) else method
        if hasattr(np.ndarray, name) and not name.startswith("__"):
            yield f"{owner}.{name}", source, getattr(np, name, None) or getattr(np.ndarray, name)
    for ours, theirs in ((wy, np), (wy.linalg, np.linalg)):
        for name in sorted(set(ours.__all__) & set(dir(theirs))):
            function: Any = getattr(ours, name)
            # `Callable` is a protocol.
            if isinstance(function, Callable) and not isinstance(function, type):  # type: ignore[arg-type]
                yield name, function, getattr(theirs, name)


def differences(name: str, function: Any, theirs: Any) -> Iterator[str]:
    own, other = signature(function), signature(theirs)
    if own is None or other is None:
        return
    for key, parameter in own.parameters.items():
        there = other.parameters.get(key)
        if there is None or parameter.default is EMPTY or (name.rpartition(".")[2], key) in DIFFERENT:
            continue
        default = UNSAID.get(key, there.default) if there.default is np._NoValue else there.default
        if default is not parameter.default and default != parameter.default:
            yield f"{name}: {key} is {parameter.default!r}, and {default!r} in NumPy"
    # An argument by position is the same one in NumPy, or a keyword of NumPy's own, which a value check refuses.
    positions = [key for key, p in own.parameters.items() if p.kind is not p.KEYWORD_ONLY and key in other.parameters]
    order = [key for key in other.parameters if key in positions]
    if positions != order and name.rpartition(".")[2] not in OTHER_ORDER:
        yield f"{name}: the arguments are {positions}, and {order} in NumPy"


def test_defaults_are_those_of_numpy() -> None:
    assert [difference for pair in pairs() for difference in differences(*pair)] == []


def test_the_sweep_has_what_it_is_for() -> None:
    names = {name for name, _, _ in pairs()}
    assert {"Node.take", "Node.sum", "Node.sort", "IndexNode.sum", "IndexNode.take", "cross", "take", "norm"} <= names
    assert list(differences("take", lambda x, indices, axis=0: None, np.take))  # finds one


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: functions.nan_to_num(x, True), "takes 1 positional argument"),
        (lambda x: functions.nan_to_num(x, copy=False), "takes no keyword 'copy': leave it out"),
        (lambda x: functions.full((2,), fill_value=1.0), "takes no keyword 'fill_value': use value="),
        (lambda x: x.max(0, None, True), "^max takes axis, keepdims, but 3 arguments were given"),
        (lambda x: (x > 0).any(0, None), "^any: keepdims must be True or False"),
    ],
)
def test_arguments_that_numpy_has_besides_are_told(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call(wy.Constant([[1.0, 2.0], [3.0, 4.0]]))
