"""LAPACK's functions, which SciPy has, and how many threads products and libraries use while programs run.

The number of threads holds for the whole process.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any, Final

from wyrm.engines.native.products import pool

# The functions that kernels call as `lapack(name, ...)`, for both float types.
LAPACK = tuple(
    letter + name for name in ("trsm", "potrf", "getrf", "syevd", "geev", "gesdd", "geqrf", "orgqr") for letter in "sd"
)


# The modules of SciPy that export BLAS and LAPACK.
_MODULES = ("scipy.linalg.cython_blas", "scipy.linalg.cython_lapack")


def scipy_is_loaded() -> bool:
    """Return whether a program has loaded SciPy's LAPACK, which has threads of its own."""
    return _MODULES[-1] in sys.modules


def _exported_by_scipy(name: str) -> dict[str, object]:
    """Return what a module of SciPy exports to Cython.

    The module is loaded without its package, whose import takes ten times as long.
    """
    module = sys.modules.get(name)
    if module is None:
        package = find_spec(name.rpartition(".")[0])
        found = package and PathFinder.find_spec(name, package.submodule_search_locations)
        if found and found.loader:
            module = module_from_spec(found)
            found.loader.exec_module(module)
    exported: dict[str, object] = (module or import_module(name)).__pyx_capi__
    return exported


@cache
def address_of(name: str) -> int:
    """Return the address of a function that SciPy exports to Cython; its integers have 32 bits."""
    get_name, get_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    exported: dict[str, object] = {
        name: each for module in _MODULES for name, each in _exported_by_scipy(module).items()
    }
    capsule = exported[name]
    found: int = get_pointer(capsule, get_name(capsule))
    return found


# --- threads ----------------------------------------------------------------------------------------------------------


class _Limits:
    """Limits in force at the same time. The lowest one applies; None stands for none."""

    def __init__(self, apply: Callable[[int | None], None]) -> None:
        self._lock = threading.Lock()
        self._asked: list[int] = []
        self._apply = apply

    def add(self, threads: int) -> None:
        with self._lock:
            self._asked.append(threads)
            self._apply(min(self._asked))

    def remove(self, threads: int) -> None:
        with self._lock:
            self._asked.remove(threads)
            self._apply(min(self._asked, default=None))

    def forget(self) -> None:
        """Drop all limits after a fork: the threads that set them do not exist in the child."""
        self._lock = threading.Lock()
        if self._asked:
            self._asked = []
            self._apply(None)


class Libraries:
    """The BLAS libraries that steps may call: NumPy's, and SciPy's once it is loaded."""

    def __init__(self) -> None:
        self._controller: Any = None
        self._with_scipy = False
        # The number of threads of each library before the first limit; empty without one.
        self._before: list[int] = []

    @property
    def controller(self) -> Any:
        """The controller of the libraries, created anew once SciPy's is loaded."""
        if self._controller is None or (not self._before and self._with_scipy != scipy_is_loaded()):
            # Imported late: it takes 40 ms, and most programs call no library.
            from threadpoolctl import ThreadpoolController

            self._with_scipy = scipy_is_loaded()
            self._controller = ThreadpoolController()
        return self._controller

    def limit(self, threads: int | None) -> None:
        """Let each library use at most this many threads; None: as many as before the first limit."""
        found = self.controller.lib_controllers
        if not self._before:
            self._before = [library.num_threads for library in found]
        # `limit` of the controller, which also describes every library, takes four times as long.
        for library, before in zip(found, self._before, strict=True):
            library.set_num_threads(before if threads is None else threads)
        if threads is None:
            self._before = []


libraries: Final = Libraries()
_of_products, _of_small, _of_libraries = _Limits(pool.limit), _Limits(pool.share_from), _Limits(libraries.limit)


class _InForce:
    """A context in which limits are in force. Callers defer signals, so that the limits are always removed."""

    def __init__(self, *limits: tuple[_Limits, int]) -> None:
        self._limits = limits

    def __enter__(self) -> None:
        for each, number in self._limits:
            each.add(number)

    def __exit__(self, *_: object) -> None:
        for each, number in self._limits:
            each.remove(number)


def limited(threads: int, *, libraries: bool) -> AbstractContextManager[None]:
    """Limit products to this many threads in a context, and if `libraries` also NumPy's and SciPy's BLAS."""
    return _InForce((_of_products, threads), *([(_of_libraries, threads)] if libraries else []))


def sharing_large_products(*, libraries: bool) -> AbstractContextManager[None]:
    """Let threads share only large products in a context; if `libraries`, NumPy's and SciPy's BLAS use one."""
    return _InForce((_of_small, pool.LARGE_PRODUCTS), *([(_of_libraries, 1)] if libraries else []))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_of_products.forget)
    os.register_at_fork(after_in_child=_of_libraries.forget)
