"""Conversion of users' values to arrays; masked arrays are rejected, because their mask would be lost."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from wyrm.errors import DTypeError, ShapeError


def as_array(value: object, what: str | Callable[[], str] = "a list") -> np.ndarray:
    """Return `numpy.asarray(value)`, of the value that `what` names in errors.

    Raise `DTypeError` for a masked array, also inside a list or tuple, and `ShapeError` for nested lists of different
    lengths.

    >>> as_array([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """
    check_unmasked(value)
    try:
        return np.asarray(value)
    except ValueError:
        reason = _unequal(value)
        if reason is None:
            raise
        name = what if isinstance(what, str) else what()
        raise ShapeError(
            f"{name} was given lists of different lengths, which form no array: {reason}; make them equally long, for "
            f"example by padding with zeros; rows of an input with an axis wy.Ragged are wy.RaggedArray.of_rows(lists)"
        ) from None


def _unequal(value: object, place: str = "") -> str | None:
    """Return which elements of nested lists differ in shape; None if none do."""
    if not isinstance(value, list | tuple):
        return None
    for position, each in enumerate(value):
        inside = _unequal(each, f"{place}[{position}]")
        if inside is not None:
            return inside
    shapes = [np.shape(each) for each in value]
    for position, shape in enumerate(shapes):
        if shape != shapes[0]:
            return f"element {place}[0] has the shape {shapes[0]}, and {place}[{position}] {shape}"
    return None


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
