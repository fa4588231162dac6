"""Which operations of JAX a file of ONNX cannot hold, or holds wrongly: found before it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from wyrm.support.imports import unread


class Refusal(NamedTuple):
    """What ONNX lacks, and the scopes of JAX that it stands in, the innermost last."""

    what: str
    scopes: tuple[str, ...]


def first_refusal(traced: Any) -> Refusal | None:
    """Return the first operation of a closed jaxpr that cannot be written, or None."""
    plugins = unread("jax2onnx.plugins.plugin_system")
    plugins.import_all_plugins()
    for equation, scopes in _equations(traced.jaxpr, ()):
        name = equation.primitive.name
        what = _LACKING[name](equation) if name in _LACKING else ""
        if not what and name not in plugins.PLUGIN_REGISTRY:
            what = f"the operation {name!r} of JAX"
        if what:
            return Refusal(what, scopes)
    return None


def _equations(jaxpr: Any, outside: tuple[str, ...]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield the operations of a function, each before those inside of it, with their scopes."""
    for equation in jaxpr.eqns:
        scopes = (*outside, *filter(None, str(equation.source_info.name_stack).split("/")))
        yield equation, scopes
        for value in equation.params.values():
            for each in value if isinstance(value, tuple | list) else [value]:
                inside = getattr(each, "jaxpr", each)  # of a closed one
                if hasattr(inside, "eqns"):
                    yield from _equations(inside, scopes)


def _of_batch(equation: Any) -> str:
    return "factorizations of a batch of matrices" if len(equation.invars[0].aval.shape) > 2 else ""


def _backwards(equation: Any) -> str:
    return "loops from the last step to the first" if equation.params["reverse"] else ""


def _spread(equation: Any) -> str:
    between = any(inside for _, _, inside in equation.params["padding_config"])
    return "padding between the elements of an array" if between else ""


def _unusual(equation: Any) -> str:
    numbers = equation.params["dimension_numbers"]
    if len(numbers.lhs_spec) > 4:
        return "convolutions in three dimensions"
    is_usual = all(tuple(spec) == tuple(range(len(spec))) for spec in numbers)
    return "" if is_usual and equation.params["batch_group_count"] == 1 else "gradients by the kernel of a convolution"


def _outer(equation: Any) -> str:
    (summed, _), _ = equation.params["dimension_numbers"]
    return "" if summed else "products that sum over no axis, other than those by `*`"


def _all(what: str) -> Callable[[Any], str]:
    return lambda equation: what


# What of an operation cannot be written, or nothing.
_LACKING: dict[str, Callable[[Any], str]] = {
    "cholesky": _of_batch,
    "lu": _of_batch,
    "qr": _of_batch,
    "eig": _all("eigenvalues"),
    "eigh": _all("eigenvalues"),
    "svd": _all("singular values"),
    "bitcast_convert_type": _all("the bits of a float, such as its sign"),
    "cumprod": _all("running products"),
    "cummax": _all("running maxima"),
    "cummin": _all("running minima"),
    "scan": _backwards,
    "pad": _spread,
    "conv_general_dilated": _unusual,
    "dot_general": _outer,
}

__all__ = ["Refusal", "first_refusal"]
