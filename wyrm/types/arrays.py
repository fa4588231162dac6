"""What users give as numbers, as arrays; a masked array is refused, for its mask would be lost."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import DTypeError


def as_array(value: Any) -> NDArray[Any]:
    """As `numpy.asarray`; `DTypeError` for a masked array, also inside a list or tuple.

    >>> as_array([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """
    check_unmasked(value)
    return np.asarray(value)


def check_unmasked(value: object) -> None:
    """`DTypeError` for a masked array, and for a list or tuple that holds one."""
    if "numpy.ma" not in sys.modules:  # which NumPy loads when it is first used
        return
    if isinstance(value, np.ma.MaskedArray):
        raise DTypeError(
            f"a masked array of shape {value.shape} would lose its mask: fill it with array.filled(number), and choose "
            f"by the mask, wy.Constant(np.ma.getmaskarray(array)), with wy.where"
        )
    if isinstance(value, list | tuple):
        for element in value:
            if isinstance(element, list | tuple | np.ndarray):
                check_unmasked(element)
