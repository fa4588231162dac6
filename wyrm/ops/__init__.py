"""The operations, one class each, one family per file. Importing this room registers them all."""

from wyrm.ops import (
    activation,
    arithmetic,
    attention,
    comparison,
    elementwise,
    exponential,
    index,
    normalization,
    product,
    random,
    recurrent,
    reduction,
    shape,
    slicing,
    softmax,
    vocabulary,
)

__all__ = [
    "activation",
    "arithmetic",
    "attention",
    "comparison",
    "elementwise",
    "exponential",
    "index",
    "normalization",
    "product",
    "random",
    "recurrent",
    "reduction",
    "shape",
    "slicing",
    "softmax",
    "vocabulary",
]
