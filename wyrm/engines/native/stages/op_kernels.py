"""The op kernels that a program calls; the names that they use are checked before anything is compiled."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from wyrm.engines.native.kernels.functions import KernelFunction, global_names, kernel_of
from wyrm.errors import RegistrationError
from wyrm.ops.kernels.lapack import lapack
from wyrm.ops.kernels.sums import accumulated, natural
from wyrm.ops.products.product import multiply_into

# Functions of ops that compiled code implements in another way.
_OWN_FORM: tuple[Any, ...] = (multiply_into, lapack, accumulated, natural)
_MODULES = {"numpy", "math"}


class OpKernels:
    """The kernels of one program, in the order of addition."""

    def __init__(self) -> None:
        self.kernels: list[KernelFunction] = []
        # Whether any kernel calls BLAS or LAPACK.
        self.multiplies = False
        self._checked: dict[FunctionType, None] = {}

    def add(self, function: Callable[..., Any], name: str) -> KernelFunction:
        """Add a kernel; raise `RegistrationError` if its source is unknown or it uses what cannot be compiled."""
        assert isinstance(function, FunctionType)
        self._check(function, name)
        kernel = kernel_of(function, name)
        if kernel not in self.kernels:
            self.kernels.append(kernel)
        return kernel

    @property
    def sources(self) -> list[str]:
        """The Python code of the kernels, named as they are called, and of the functions that they call."""
        names = {kernel.function: kernel.__name__ for kernel in self.kernels}
        texts = []
        for function in self._checked:
            text, name = textwrap.dedent(inspect.getsource(function)), names.get(function, function.__name__)
            texts.append(re.sub(rf"^def {function.__name__}\b", f"def {name}", text, count=1, flags=re.MULTILINE))
        return texts

    def _check(self, function: FunctionType, kernel: str) -> None:
        if function in self._checked:
            return
        self._checked[function] = None
        if function.__code__.co_freevars:
            raise RegistrationError(
                f"the kernel {kernel} uses {', '.join(function.__code__.co_freevars)} of the function that encloses "
                f"{function.__name__} ({_place(function)}); a kernel may only use its arguments and the names of its "
                f"module: pass numbers through kernel_arguments"
            )
        if inspect.getsourcefile(function) is None:
            raise RegistrationError(
                f"the kernel {kernel} cannot be compiled: its source is not in a file; define the op in a file or a "
                f"notebook"
            )
        for used in global_names(function):
            if used in function.__globals__:
                self._check_use(function, used, function.__globals__[used], kernel)

    def _check_use(self, function: FunctionType, used: str, value: Any, kernel: str) -> None:
        self.multiplies |= value is multiply_into or value is lapack
        if isinstance(value, FunctionType):
            if value not in _OWN_FORM:
                self._check(value, kernel)
            return
        module = isinstance(value, ModuleType) and value.__name__ in _MODULES
        if not (module or isinstance(value, bool | int | float | str | np.generic | tuple | type)):
            raise RegistrationError(
                f"the kernel {kernel} uses {used}, a {type(value).__name__} ({_place(function)}); a kernel may use np, "
                f"math, numbers, texts, and functions under the same rules"
            )


def _place(function: FunctionType) -> str:
    return f"{function.__name__}, {function.__code__.co_filename}:{function.__code__.co_firstlineno}"
