"""Code outside the kernel language raises `NotCompiled`, which names the line."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.engines.native.kernels.running import translated, written
from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.kernels.translate import Translation
from wyrm.engines.native.kernels.values import NotCompiled
from wyrm.engines.native.llvm.calling import kind_of_argument

# The body of a kernel with arrays x and y, an integer n and a float f; and a pattern that the error message matches.
WRONG = [
    ("with f: pass", "with statement"),
    ("try:\n        pass\n    except ValueError:\n        pass", "not catch them"),
    ("g = lambda a: a", "lambdas are not supported; write a function with def"),
    ("y = [i for i in range(3)]", "comprehension"),
    ("y = tuple(i for i in range(3))", "is not a tuple"),
    ("for each in (1, 2):\n        break", "break and continue are not supported in a loop over a tuple"),
    ("for each in (1, 2):\n        each = 3", "each stands for an item of a tuple"),
    ("for a, b in zip((1, 2), (3,), strict=True):\n        pass", "different lengths"),
    ("for each in (1, 2):\n        pass\n    x[0] = each", "each is read behind the loop"),
    ("for a, b in ((1, 2), (3,)):\n        pass", "cannot unpack"),
    ("y = {1: 2}", "dicts are"),
    ("y = {1, 2}", "sets are"),
    ("y = [1, 2]", "lists are"),
    ("y = sum(i for i in range(3))", "generator"),
    ("y = 'text' + 'more'", "'text' is not a scalar"),
    ("y = f'{n}'", "strings are"),
    ("y = np.zeros(3)", "np.zeros"),
    ("y = np.sum(x)", "np.sum of an array; it takes scalars"),
    ("y = x.sum()", "no sum"),
    ("y = np.exp(x)", "loop over"),
    ("y = max(x)", "loop over"),
    ("y = np.maximum(n, f, out=x)", "keyword out"),
    ("y = np.no_such_thing(n)", "numpy has no no_such_thing"),
    ("y = no_such_name", "no_such_name is not defined"),
    ("y = print(n)", "kernels have no print"),
    ("y = n.no_such_thing", "no_such_thing"),
    ("y = x + 1", "x is an array where a scalar is expected"),
    ("y = x @ x", "@ is not supported"),
    ("x += x", "x is an array"),
    ("x[0:2] += 1", "has more than one element"),
    ("x[f] = 1", "an index must be an integer, not a float64"),
    ("x[n > 1] = 1", "an index must be an integer, not a bool"),
    ("x[None] = 1", "an index must be an integer, a slice or an ellipsis"),
    ("x[::-1][0] = 1", "a literal above 0"),
    ("x[::n][0] = 1", "a literal above 0"),
    ("x[f:] = 1", "a slice bound must be an integer"),
    ("x[0, 0, 0] = 1", "3 indices for an array with 1 axes"),
    ("x[0] = x", "cannot assign an array or a tuple to an element"),
    ("x[0] = (1, 2)", "cannot assign an array or a tuple to an element"),
    ("x[:] = (1, 2)", "can be assigned a scalar, or an array"),
    ("n[0] = 1", "only elements and slices of arrays can be assigned"),
    ("y = n[0]", "only arrays and tuples can be indexed"),
    ("y = (1, 2)[5]", "index 5 is out of range for a tuple of 2"),
    ("y = x.shape[3]", "index 3 is out of range for a tuple of 1"),
    ("y = (x, y)[n]", "only if all its items are scalars"),
    ("y = x.shape[f]", "an index of a tuple must be an integer"),
    ("a, b = 1, 2, 3", "a tuple of 3 items"),
    ("a, b = n", "not a tuple into 2 names"),
    ("a, *b = 1, 2, 3", "name each item"),
    ("a = (n, *x)", "only a tuple can be starred"),
    ("n = (n, n)", "use two variables"),
    ("y = 1", "use two variables"),
    ("for i in range(f): pass", "range takes integers"),
    ("for i in range(0, 5, 0): pass", "step of a range must not be 0"),
    ("for i in n: pass", "kernels loop over range"),
    ("for i in range(): pass", "kernels loop over range"),
    ("for i in reversed(x): pass", "kernels loop over range"),
    ("for i in range(3):\n        pass\n    else:\n        pass", "a loop with an else"),
    ("while n:\n        n -= 1\n    else:\n        pass", "a loop with an else"),
    ("for i, j in np.ndindex(3, 4):\n        break", "a loop for each axis"),
    ("del n", "del is not supported"),
    ("global q\n    q = 1", "global"),
    ("import os", "import at the top"),
    ("from os import path", "import at the top"),
    ("def g(): pass", "nested functions"),
    ("class C: pass", "nested classes"),
    ("match n:\n        case 1:\n            pass", "if and elif"),
    ("yield n", "generators are"),
    ("if (m := n) > 1: pass", "as a statement before"),
    ("assert_ = n in (1, 2)", "`in` and `is`"),
    ("y = n is f", "`in` and `is`"),
    ("raise ValueError('no')", "IndexError"),
    ("raise IndexError(n)", "IndexError"),
    ("raise", "IndexError"),
    ("y = n ** n", "must be a literal"),
    ("y = 10 ** 10 ** 10", "does not fit an integer of 64 bits"),
    ("y = 1 << 100", "does not fit an integer of 64 bits"),
    ("m = 2 ** 64", "does not fit an integer of 64 bits"),
    ("m = (-1) ** 0.5", "complex"),
    ("m = 1j", "a complex"),
    ("m = 1 / 0", "is undefined"),
    ("m = math.sqrt(-1.0)", "is undefined"),
    ("m = f << 1", "for integers"),
    ("m = f & 1", "for integers"),
    ("m = ~f", "for integers and bools"),
    ("m = n << -1", "use >> with a positive count"),
    ("m = len(n)", "len takes an array"),
    ("m = len()", "len takes 1 arguments"),
    ("m = max()", "max takes scalars"),
    ("m = float('word')", "cannot convert 'word' to a scalar"),
    ("m = np.float16(n)", "np.float16"),
    ("m = f.view(np.float16)", "unsupported dtype"),
    ("m = f.view(np.int32)", "their sizes differ"),
    ("m = f.view()", "takes a dtype"),
    ("m = np.dtype('word')", "not a dtype"),
    ("x.flat[0] = 1", "no flat"),
    ("m = GLOBAL[0]", "pass the array as an argument"),
    ("m = SCALED(n, n, n)", "takes 2 arguments, not 3"),
    ("m = SCALED(n, of=n)", "the argument of twice, or has no such parameter"),
    ("m = SCALED(n, x=n)", "the argument x twice"),
    ("m = SCALED(by=n)", "missing its argument x"),
    ("m = SCALED(*x)", "only a tuple can be starred"),
    ("m = SCALED(**{'x': n})", "name each argument"),
    ("m = SCALED(GLOBAL)", "cannot store a ndarray"),
    ("m = SCALED(np.exp)", "is not a scalar"),
    ("m = AROUND(n)", "of an enclosing function"),
    ("m = ENDLESS(n)", "calls itself"),
    ("m = SOMETIMES(n)", "none on another"),
    ("m = STARS(n)", r"takes \*args or \*\*kwargs"),
    ("m = LAMBDA(n)", "not as a lambda"),
    ("m = BUILTIN(n)", "not a function written in Python"),
    ("m = PARTIAL(n)", "not a function written in Python"),
    ("m = NOWHERE(n)", "not in a file"),
    ("m = unset + 1\n    unset = m", "unset is read before it has a value"),
    ("m = x\n    m = x[0]", "use two variables"),
    ("m = None\n    m += 1", "None is not a scalar|m is not a scalar"),
    ("n.real = 1", "cannot be assigned"),
    ("n += (1, 2)", "is not a scalar"),
    ("(n) = SCALED", "use two variables"),
    ("y = x.shape + 1", "is not a scalar"),
    ("y = -x", "x is an array"),
    ("y = not x", "x is an array"),
    ("if x: pass", "x is an array"),
    ("y = n(1)", "not a function"),
    ("y = ..., 1\n    y = y + 1", "use two variables"),
    ("return x, 'text' + 1", "'text' is not a scalar"),
]  # fmt: skip


def _around() -> Callable[..., Any]:
    q = 1

    def around(x: Any) -> Any:
        return x + q

    return around


def _endless(x: Any) -> Any:
    return ENDLESS(x)


def _scaled(x: Any, by: Any = 1) -> Any:
    return x * by


def _sometimes(x: Any) -> Any:
    if x > 0:
        return x
    x += 1


def _stars(*x: Any) -> Any:
    return x[0]


def _nowhere() -> Callable[..., Any]:
    found: dict[str, Any] = {}
    exec("def f(x): return x", found)
    function: Callable[..., Any] = found["f"]
    return function


ENDLESS = KernelFunction(_endless)
USED: dict[str, Any] = {
    "math": math,
    "GLOBAL": np.arange(3),
    "SCALED": KernelFunction(_scaled),
    "AROUND": KernelFunction(_around()),
    "ENDLESS": ENDLESS,
    "SOMETIMES": KernelFunction(_sometimes),
    "STARS": KernelFunction(_stars),
    "LAMBDA": KernelFunction(lambda x: x),
    "BUILTIN": KernelFunction(abs),
    "PARTIAL": KernelFunction(functools.partial(_scaled, by=2)),
    "NOWHERE": KernelFunction(_nowhere()),
}


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_unsupported_code(text: str, message: str) -> None:
    function = written(f"def kernel(x, y, n, f):\n    {text}\n", "kernel")
    function.__globals__.update(USED)
    with pytest.raises(NotCompiled, match=message) as error:
        translated(function, np.arange(4.0), np.arange(5.0), 3, 2.5)
    assert "cannot be compiled" not in str(error.value)
    assert error.value.where.split(",")[0] in str(error.value)
    assert ":" in error.value.where or error.value.where


def test_the_line_is_named() -> None:
    text = "def kernel(x):\n    a = 1\n    for i in range(3):\n        if i > a:\n            x[i] = unknown\n"
    function = written(text, "kernel")
    with pytest.raises(NotCompiled, match=r"kernel, <kernel .*>:5"):
        translated(function, np.arange(4.0))


def test_unsupported_arguments() -> None:
    def kernel(x: Any) -> None:
        pass

    odd: tuple[Any, ...] = (
        "text",
        [1],
        {},
        None,
        1j,
        np.zeros(2, complex),
        np.zeros(2, "M8[s]"),
        np.array(["a"]),
        2**63,
        -(2**70),
    )
    for value in odd:
        with pytest.raises(NotCompiled):
            translated(kernel, value)
    packed = np.frombuffer(bytes(9), np.uint8)[1:].view(np.float32)
    assert not packed.flags.aligned
    with pytest.raises(NotCompiled, match="aligned"):
        translated(kernel, packed)
    for structured in (np.zeros(2, ">f4"), np.zeros(2, [("a", "f4"), ("b", "i1")])["a"]):
        with pytest.raises(NotCompiled):
            translated(kernel, structured)
    with pytest.raises(NotCompiled, match="takes 1 arguments, not 2"):
        translated(kernel, 1, 2)


def test_an_error_leaves_the_compiler_usable() -> None:
    translation = Translation(checked=False)
    kernel = USED["ENDLESS"]
    for _ in range(2):
        with pytest.raises(NotCompiled, match="calls itself"):
            translation.specialized(kernel, (kind_of_argument(1),))
    assert translation.specialized(USED["SCALED"], (kind_of_argument(1),)).function.name == "_scaled"


def test_deep_expressions() -> None:
    deep = written(f"def kernel(x):\n    x[0] = {'-' * 150}x[0]\n", "kernel")
    translated(deep, np.arange(2.0))
    deeper = written(f"def kernel(x):\n    x[0] = {'+'.join(['x[0]'] * 900)}\n", "kernel")
    with pytest.raises(NotCompiled, match="nested"):
        translated(deeper, np.arange(2.0))
