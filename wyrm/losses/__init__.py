"""Losses: functions that take nodes and give the node to be made small.

Each takes `reduction="mean"`, `"sum"` or `"none"`, and broadcasts nothing: a target of another shape is a mistake.
"""

from wyrm.losses.binary import bce, bce_with_logits, focal, hinge, squared_hinge
from wyrm.losses.classification import cross_entropy, kl_divergence, nll
from wyrm.losses.ranking import bpr, cosine_embedding, margin_ranking, triplet
from wyrm.losses.regression import huber, l1, mse

__all__ = [
    "bce",
    "bce_with_logits",
    "bpr",
    "cosine_embedding",
    "cross_entropy",
    "focal",
    "hinge",
    "huber",
    "kl_divergence",
    "l1",
    "margin_ranking",
    "mse",
    "nll",
    "squared_hinge",
    "triplet",
]
