"""BLAS and LAPACK: the addresses of their functions, and how many threads they use while programs run.

NumPy's bundled OpenBLAS has gemm, SciPy the others. The number of threads holds for the whole process.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from wyrm.engines.native.products import pool

# Fortran functions, which take all arguments by address.
BLAS = ("sgemm", "dgemm")
# The functions that kernels call as `lapack(name, ...)`, for both float types.
LAPACK = tuple(
    letter + name for name in ("trsm", "potrf", "getrf", "syevd", "geev", "gesdd", "geqrf", "orgqr") for letter in "sd"
)


@cache
def _of_numpy() -> ctypes.CDLL | None:
    """Return the OpenBLAS bundled with NumPy's wheels, which importing NumPy has loaded; None in other builds."""
    for path in (Path(np.__file__).parents[1] / "numpy.libs").glob("*openblas64_*"):
        with suppress(OSError):
            return ctypes.CDLL(str(path))
    return None


@cache
def kernels() -> str:
    """Return the processor family whose kernels OpenBLAS selected, such as "SkylakeX"; "" if unknown."""
    name = getattr(_of_numpy(), "scipy_openblas_get_corename64_", None)
    if name is None:
        return ""
    name.restype = ctypes.c_char_p
    found: bytes = name()
    return found.decode()


@cache
def address_of(name: str) -> int:
    """Return the address of a BLAS function. NumPy's comes first: importing SciPy's takes 0.2 s."""
    function = getattr(_of_numpy(), f"scipy_{name}_64_", None)
    found = None if function is None else ctypes.cast(function, ctypes.c_void_p).value
    return of_scipy(name) if found is None else found


def scipy_is_loaded() -> bool:
    """Return whether a program has loaded SciPy's LAPACK, which has threads of its own."""
    return "scipy.linalg.cython_lapack" in sys.modules


@cache
def of_scipy(name: str) -> int:
    """Return the address of a function that SciPy exports to Cython; its integers have 32 bits."""
    from scipy.linalg import cython_blas, cython_lapack

    get_name, get_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    exported: dict[str, object] = {**cython_lapack.__pyx_capi__, **cython_blas.__pyx_capi__}
    capsule = exported[name]
    found: int = get_pointer(capsule, get_name(capsule))
    return found


class _Limits:
    """The limits in force. The lowest one applies; removing the last one restores the original setting."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: list[int] = []
        self._controller: Any = None
        self._with_scipy = False
        # The number of threads of each library before the first limit.
        self._before: list[int] = []

    @property
    def controller(self) -> Any:
        """The controller of all BLAS libraries that a program may call, created anew once SciPy's is loaded."""
        if self._controller is None or (not self._asked and self._with_scipy != scipy_is_loaded()):
            self._with_scipy = scipy_is_loaded()
            from threadpoolctl import ThreadpoolController

            for name in BLAS:  # the controller only finds libraries that are loaded
                address_of(name)
            self._controller = ThreadpoolController()
        return self._controller

    def add(self, threads: int) -> None:
        with self._lock:
            libraries = self.controller.lib_controllers
            if not self._asked:
                self._before = [library.num_threads for library in libraries]
            self._asked.append(threads)
            self._apply()

    def remove(self, threads: int) -> None:
        with self._lock:
            self._asked.remove(threads)
            self._apply()

    def _apply(self) -> None:
        """Set the lowest limit, or without one the numbers of threads from before."""
        least = min(self._asked) if self._asked else None
        # `limit` of the controller, which also describes every library, takes four times as long.
        for library, before in zip(self._controller.lib_controllers, self._before, strict=True):
            library.set_num_threads(before if least is None else least)
        pool.limit(least)

    def forget(self) -> None:
        """Drop all limits after a fork: the threads that set them do not exist in the child."""
        self._lock = threading.Lock()
        if self._asked:
            self._asked = []
            self._apply()


limits: Final = _Limits()


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Limit BLAS to this many threads inside the `with` block. Callers defer signals, so that it is always removed."""
    limits.add(threads)
    try:
        yield
    finally:
        limits.remove(threads)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=limits.forget)
