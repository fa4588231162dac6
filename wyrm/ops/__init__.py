"""Operations on nodes: one class per op, one module per family of ops.

`import wyrm` imports these modules; the others are imported when a method or a function of theirs is first used.
"""

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
    transpose,
)

__all__ = [
    "activation",
    "arithmetic",
    "comparison",
    "dropout",
    "elementwise",
    "exponential",
    "fused",
    "index",
    "normalization",
    "prod",
    "product",
    "product_loops",
    "reduction",
    "shape",
    "slicing",
    "softmax",
    "transpose",
]
