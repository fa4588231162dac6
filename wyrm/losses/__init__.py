"""Loss functions: each takes nodes and returns the node to minimize.

>>> logits = wy.Constant([[2.0, 0.0], [0.0, 3.0]])
>>> loss = wy.losses.cross_entropy(logits, np.array([0, 1]))
>>> round(float(loss.forward()), 3)
0.088

- Classes: `cross_entropy`, `nll`, `bce_with_logits`, `focal`, `multiclass_focal`, `hinge`; `ctc` for sequences.
- Numbers: `mse`, `l1`, `huber`, `smooth_l1`, `log_cosh`, `quantile`.
- Distributions: `gaussian_nll`, `poisson_nll`, `student_t_nll`, `kl_divergence`.
- Order and distance: `bpr`, `margin_ranking`, `triplet`, `cosine_embedding`.
- Items among many: `info_nce`, `sampled_softmax`, `warp`, `implicit_squares`.

Each takes `reduction="mean"`, `"sum"` or `"none"`, and `sample_weight`. None of them broadcasts: a target of another
shape is an error.
"""

from wyrm.support.imports import lazy_imports

# Imported on first use; `python -m wyrm.declare` writes the same names for type checkers.
__getattr__, __dir__, __all__ = lazy_imports(
    __name__,
    {
        "classification": (
            "bce bce_with_logits cross_entropy ctc focal hinge kl_divergence multiclass_focal nll squared_hinge"
        ),
        "ranking": "bpr cosine_embedding implicit_squares info_nce margin_ranking sampled_softmax triplet warp",
        "regression": "gaussian_nll huber l1 log_cosh mse poisson_nll quantile smooth_l1 student_t_nll",
    },
)
