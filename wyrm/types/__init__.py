"""Named axes, and the types that annotations use."""

from wyrm.types.dims import Dim, One, Plus, Times, any_dim
from wyrm.types.typing import Array, FloatArray, Number, Shaped

__all__ = ["Array", "Dim", "FloatArray", "Number", "One", "Plus", "Shaped", "Times", "any_dim"]
