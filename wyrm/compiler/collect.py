"""The source text of the kernels of ops, with the functions and numbers that they use, to be compiled elsewhere."""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from wyrm.compiler.naming import RESERVED
from wyrm.errors import RegistrationError
from wyrm.ops import fast_math
from wyrm.ops.product import multiply_into
from wyrm.ops.sums import accumulated, natural

# Functions of ops that the runtime has in another form.
_SUBSTITUTES: dict[Callable[..., Any], str] = {
    multiply_into: "multiply_into",
    accumulated: "accumulated",
    natural: "natural",
}
# Functions of a number of either precision: what stands for them in float32, and in float64.
_BY_PRECISION: dict[Callable[..., Any], tuple[Callable[..., Any], Callable[..., Any] | str]] = {
    fast_math.exp: (fast_math.float32_exp, "np.exp"),
    fast_math.tanh: (fast_math.float32_tanh, "np.tanh"),
    fast_math.sigmoid: (fast_math.float32_sigmoid, fast_math.float64_sigmoid),
    fast_math.largest: (fast_math.float32_largest, fast_math.float64_largest),
}
# Functions of this package are formulas of this library.
_OPS = fast_math.__name__.removesuffix("fast_math")
_MODULES = {"np": "numpy", "math": "math"}


class Collection:
    """Functions by the names that they have in one generated module; names that are `given` it has already."""

    def __init__(self, given: Iterable[str] = ()) -> None:
        self._given = frozenset(given)
        self.texts: list[str] = []
        # Whether any multiplies matrices.
        self.multiplies = False
        # Where the definitions of functions are, by their names here: file and line.
        self.origins: dict[str, tuple[str, int]] = {}
        self._names: dict[tuple[Callable[..., Any], np.dtype[Any]], str] = {}
        # A helper of a kernel may have the name of what generated code calls.
        self._taken: dict[str, object] = dict.fromkeys(RESERVED)

    def add(self, function: Callable[..., Any], wanted: str, dtype: np.dtype[Any], decorator: str = "kernel") -> str:
        """Take in a function of numbers of a dtype, and what it uses, once; returns its name here.

        `RegistrationError` where its text cannot be read, or it uses what compiled code cannot.
        """
        if function in _SUBSTITUTES:
            self.multiplies |= function is multiply_into
            return _SUBSTITUTES[function]
        if function in _BY_PRECISION:
            chosen = _BY_PRECISION[function][dtype == np.float64]
            return chosen if isinstance(chosen, str) else self.add(chosen, chosen.__name__, dtype, decorator)
        if (function, dtype) in self._names:
            return self._names[function, dtype]
        assert isinstance(function, FunctionType)
        if function.__code__.co_freevars:
            raise RegistrationError(
                f"the kernel {wanted} uses {', '.join(function.__code__.co_freevars)} of the function around "
                f"{function.__name__} ({_place(function)}); a kernel may use what it is given and what its module has: "
                f"give it numbers by kernel_arguments"
            )
        try:
            text = textwrap.dedent(inspect.getsource(function))
        except OSError:
            raise RegistrationError(
                f"the kernel {wanted} cannot be compiled: its source is not in a file; define the op in a file or a "
                f"notebook"
            ) from None
        if function.__module__ == fast_math.__name__:
            decorator = "fused"
        elif decorator == "kernel" and function.__module__.startswith(_OPS):
            decorator = "fused_kernel"
        name = self._names[function, dtype] = self._free(wanted, function)
        start = text.index("def ") if text.startswith("def ") else text.index("\ndef ") + 1
        self.origins[name] = function.__code__.co_filename, function.__code__.co_firstlineno + text[:start].count("\n")
        text = text[start:]
        text = re.sub(rf"^def {function.__name__}\b", f"def {name}", text)
        for used in sorted(_globals_of(function)):
            text = self._resolve(function, used, text, wanted, dtype, decorator)
        self.texts.append(f"@{decorator}\n{text.rstrip()}\n")
        return name

    def _resolve(
        self, function: FunctionType, used: str, text: str, wanted: str, dtype: np.dtype[Any], decorator: str
    ) -> str:
        # An attribute of the same name, as in `np.exp`, is not meant.
        pattern = re.compile(rf"(?<![\w.]){used}\b")
        if used not in function.__globals__ or used in self._given or not pattern.search(text):
            return text
        value = function.__globals__[used]
        if isinstance(value, ModuleType) and _MODULES.get(used) == value.__name__:
            return text
        if isinstance(value, FunctionType):
            return pattern.sub(self.add(value, value.__name__, dtype, decorator), text)
        if isinstance(value, bool | int | float | np.generic | tuple):
            if self._taken.get(used, value) is not value:
                free = self._free(used, value)
                self.texts.append(f"{free} = {_literal(value)}\n")
                return pattern.sub(free, text)
            if used not in self._taken:
                self._taken[used] = value
                self.texts.append(f"{used} = {_literal(value)}\n")
            return text
        raise RegistrationError(
            f"the kernel {wanted} uses {used}, a {type(value).__name__} ({_place(function)}); it may use np, math, "
            f"functions like itself and numbers"
        )

    def _free(self, wanted: str, owner: object) -> str:
        name, count = wanted, 1
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken[name] = owner
        return name


def _place(function: FunctionType) -> str:
    return f"{function.__name__}, {function.__code__.co_filename}:{function.__code__.co_firstlineno}"


def _literal(value: Any) -> str:
    """A number, or a tuple of them, as code; the text of an infinite one is no code."""
    if isinstance(value, tuple):
        return f"({''.join(f'{_literal(each)}, ' for each in value)})"
    if isinstance(value, np.generic):
        return f"np.{value.dtype}({_literal(value.item())})"
    return f'float("{value}")' if isinstance(value, float) and not math.isfinite(value) else repr(value)


def _globals_of(function: FunctionType) -> set[str]:
    return set(inspect.getclosurevars(function).globals)
