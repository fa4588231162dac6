"""Conversion of users' values to arrays; masked arrays are rejected, because their mask would be lost."""

from __future__ import annotations

import sys

import numpy as np

from wyrm.errors import DTypeError


def as_array(value: object) -> np.ndarray:
    """Return `numpy.asarray(value)`; raise `DTypeError` for a masked array, also inside a list or tuple.

    >>> as_array([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """
    check_unmasked(value)
    return np.asarray(value)


def check_unmasked(value: object) -> None:
    """Raise `DTypeError` for a masked array, and for a list or tuple that holds one."""
    if "numpy.ma" not in sys.modules:  # NumPy imports it on first use
        return
    if isinstance(value, np.ma.MaskedArray):
        raise DTypeError(
            f"a masked array of shape {value.shape} would lose its mask: fill it with array.filled(number), and select "
            f"by the mask, wy.Constant(np.ma.getmaskarray(array)), with wy.where"
        )
    if isinstance(value, list | tuple):
        for element in value:
            if isinstance(element, list | tuple | np.ndarray):
                check_unmasked(element)
