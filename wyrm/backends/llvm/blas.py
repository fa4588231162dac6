"""Where the products of BLAS are in memory: those of NumPy's own OpenBLAS, else of SciPy's."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np

# By the name of a Fortran function; each takes its arguments by address.
BLAS = ("sgemm", "dgemm")


@cache
def _of_numpy() -> ctypes.CDLL | None:
    """The OpenBLAS of NumPy, which has loaded it already, where NumPy comes as a wheel."""
    for path in (Path(np.__file__).parents[1] / "numpy.libs").glob("*openblas64_*"):
        with suppress(OSError):
            return ctypes.CDLL(str(path))
    return None


@cache
def kernels() -> str:
    """The processor, as "SkylakeX", for which the kernels of OpenBLAS were written that run here; "" where unknown."""
    name = getattr(_of_numpy(), "scipy_openblas_get_corename64_", None)
    if name is None:
        return ""
    name.restype = ctypes.c_char_p
    found: bytes = name()
    return found.decode()


@cache
def address_of(name: str) -> int:
    """The address of a function of BLAS; to import that of SciPy takes a fifth of a second."""
    function = getattr(_of_numpy(), f"scipy_{name}_64_", None)
    found = None if function is None else ctypes.cast(function, ctypes.c_void_p).value
    return _of_scipy(name) if found is None else found


def _of_scipy(name: str) -> int:
    from scipy.linalg import cython_blas

    get_name, get_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    exported: dict[str, object] = dict(cython_blas.__pyx_capi__)
    capsule = exported[name]
    found: int = get_pointer(capsule, get_name(capsule))
    return found
