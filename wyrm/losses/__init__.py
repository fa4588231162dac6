"""Loss functions: each takes nodes and returns the node to minimize.

>>> logits = wy.Constant([[2.0, 0.0], [0.0, 3.0]])
>>> loss = wy.losses.cross_entropy(logits, np.array([0, 1]))
>>> round(float(loss.forward()), 3)
0.088

- Classes: `cross_entropy`, `nll`, `bce_with_logits`, `focal`, `multiclass_focal`, `hinge`; `ctc` for sequences.
- Numbers: `mse`, `l1`, `huber`, `smooth_l1`, `log_cosh`, `quantile`.
- Distributions: `gaussian_nll`, `poisson_nll`, `student_t_nll`, `kl_divergence`.
- Order and distance: `bpr`, `margin_ranking`, `triplet`, `cosine_embedding`.

Each takes `reduction="mean"`, `"sum"` or `"none"`, and `sample_weight`. None of them broadcasts: a target of another
shape is an error.
"""

from typing import TYPE_CHECKING

from wyrm.losses.binary import bce, bce_with_logits, focal, hinge, squared_hinge
from wyrm.losses.classification import cross_entropy, ctc, kl_divergence, multiclass_focal, nll
from wyrm.losses.ranking import bpr, cosine_embedding, margin_ranking, triplet
from wyrm.losses.regression import (
    gaussian_nll,
    huber,
    l1,
    log_cosh,
    mse,
    poisson_nll,
    quantile,
    smooth_l1,
    student_t_nll,
)
from wyrm.support import late_imports as _lazy_imports

if not TYPE_CHECKING:  # a module with `__getattr__` has every name, as far as the type checker can tell
    __getattr__, __dir__ = _lazy_imports.lazy_imports(__name__, {})

__all__ = [
    "bce",
    "bce_with_logits",
    "bpr",
    "cosine_embedding",
    "cross_entropy",
    "ctc",
    "focal",
    "gaussian_nll",
    "hinge",
    "huber",
    "kl_divergence",
    "l1",
    "log_cosh",
    "margin_ranking",
    "mse",
    "multiclass_focal",
    "nll",
    "poisson_nll",
    "quantile",
    "smooth_l1",
    "squared_hinge",
    "student_t_nll",
    "triplet",
]
