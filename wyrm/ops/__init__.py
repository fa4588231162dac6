"""The operations, one class each, one family per file.

Those that are methods of nodes are there as soon as `wyrm` is; others when their module is imported.
"""

from typing import TYPE_CHECKING

from wyrm import _later
from wyrm.ops import (
    activation,
    arithmetic,
    comparison,
    dropout,
    elementwise,
    exponential,
    fused,
    index,
    normalization,
    prod,
    product,
    product_loops,
    reduction,
    shape,
    slicing,
    softmax,
)

if TYPE_CHECKING:
    from wyrm.ops import attention, cached_attention, checkpoint, custom, linear_cross_entropy, recurrent, scan

if not TYPE_CHECKING:  # a module with `__getattr__` has every name, as far as the type checker can tell
    _LATER = (
        "attention",
        "cached_attention",
        "checkpoint",
        "custom",
        "recurrent",
        "scan",
        "linear_cross_entropy",
    )
    __getattr__, __dir__ = _later.later(__name__, {name: name for name in _LATER})

__all__ = [
    "activation",
    "arithmetic",
    "attention",
    "cached_attention",
    "checkpoint",
    "comparison",
    "custom",
    "dropout",
    "elementwise",
    "exponential",
    "fused",
    "index",
    "linear_cross_entropy",
    "normalization",
    "prod",
    "product",
    "product_loops",
    "recurrent",
    "reduction",
    "scan",
    "shape",
    "slicing",
    "softmax",
]
