"""Operations on nodes: one class per op, one module per family of ops.

`import wyrm` imports the ops that are methods of nodes; the other modules are imported on first use.
"""

from typing import TYPE_CHECKING

from wyrm import _lazy_imports
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
    from wyrm.ops import (
        attention,
        cached_attention,
        checkpoint,
        composed_activation,
        custom,
        dot_product_attention,
        gated_recurrent,
        label,
        linear_cross_entropy,
        recurrent,
        scan,
        segment,
    )

if not TYPE_CHECKING:  # to a type checker, a module with `__getattr__` has every attribute
    _LATER = (
        "attention",
        "cached_attention",
        "checkpoint",
        "composed_activation",
        "custom",
        "dot_product_attention",
        "gated_recurrent",
        "label",
        "recurrent",
        "scan",
        "segment",
        "linear_cross_entropy",
    )
    __getattr__, __dir__ = _lazy_imports.lazy_imports(__name__, {name: name for name in _LATER})

__all__ = [
    "activation",
    "arithmetic",
    "attention",
    "cached_attention",
    "checkpoint",
    "comparison",
    "composed_activation",
    "custom",
    "dot_product_attention",
    "dropout",
    "elementwise",
    "exponential",
    "fused",
    "gated_recurrent",
    "index",
    "label",
    "linear_cross_entropy",
    "normalization",
    "prod",
    "product",
    "product_loops",
    "recurrent",
    "reduction",
    "scan",
    "segment",
    "shape",
    "slicing",
    "softmax",
]
