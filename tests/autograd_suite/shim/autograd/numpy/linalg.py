"""`numpy.linalg`, with lists of nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import of_lists


# Names that autograd's tests use.
def T(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


def _dot(x: Any, y: Any) -> Any:
    return np.einsum("...ij,...jk->...ik", x, y)


def __getattr__(name: str) -> Any:
    found = getattr(np.linalg, name)
    return of_lists(found) if callable(found) and not isinstance(found, type) else found
