"""Where the products of BLAS are in memory: those of NumPy's own OpenBLAS, else of SciPy's."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import numpy as np

# By the name of a Fortran function; each takes its arguments by address.
BLAS = ("sgemm", "dgemm")


@cache
def address_of(name: str) -> int:
    """The address of a function of BLAS.

    NumPy has loaded its BLAS already, where it comes as a wheel; to import that of SciPy takes a fifth of a second.
    """
    for path in (Path(np.__file__).parents[1] / "numpy.libs").glob("*openblas64_*"):
        try:
            function = getattr(ctypes.CDLL(str(path)), f"scipy_{name}_64_")
        except (OSError, AttributeError):
            continue
        found = ctypes.cast(function, ctypes.c_void_p).value
        if found is not None:
            return found
    return _of_scipy(name)


def _of_scipy(name: str) -> int:
    from scipy.linalg import cython_blas

    get_name, get_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    exported: dict[str, object] = dict(cython_blas.__pyx_capi__)
    capsule = exported[name]
    found: int = get_pointer(capsule, get_name(capsule))
    return found
