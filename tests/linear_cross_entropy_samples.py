"""Samples of the fused linear layer and cross-entropy, with PyTorch as reference."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.sampling import Sample, integers, normal
from wyrm.ops.linear_cross_entropy import (
    LabelTargets,
    LinearCrossEntropy,
    LinearCrossEntropyResiduals,
    PlaceInResiduals,
    ResidualsPart,
)

ROWS, CLASSES, WIDTH = 4, 5, 3


def _run(
    x: Any, weight: Any, labels: Any, label_smoothing: float = 0.0, ignore_index: int = -(2**62)
) -> tuple[Any, Any, Any]:
    import torch

    leaves = torch.tensor(x).requires_grad_(), torch.tensor(weight).requires_grad_()
    wanted = torch.tensor(np.where(labels == ignore_index, -100, labels))
    loss = torch.nn.functional.cross_entropy(
        leaves[0] @ leaves[1].T, wanted, label_smoothing=label_smoothing, ignore_index=-100
    )
    loss.backward()
    return loss.detach().numpy(), leaves[0].grad.numpy(), leaves[1].grad.numpy()


def loss(*operands: Any, **options: Any) -> NDArray[Any]:
    """Reference for `LinearCrossEntropy`."""
    result: NDArray[Any] = _run(*operands, **options)[0]
    return result


def residuals(*operands: Any, **options: Any) -> NDArray[Any]:
    """Reference for `LinearCrossEntropyResiduals`."""
    found, by_x, by_weight = _run(*operands, **options)
    row = np.zeros((1, by_x.shape[1]), by_x.dtype)
    row[0, 0] = found
    return np.concatenate([by_weight, row, by_x])


def targets(labels: Any, weight: Any, label_smoothing: float, ignore_index: int) -> NDArray[Any]:
    """Reference for `LabelTargets`."""
    spread = np.full((len(labels), len(weight)), label_smoothing / len(weight))
    for row, label in enumerate(labels):
        if label == ignore_index:
            spread[row] = 0.0
        else:
            spread[row, label] += 1.0 - label_smoothing
    return spread


def linear_cross_entropy_samples() -> list[Sample]:
    """Samples of the five ops: plain, with label smoothing, with an ignored label."""
    x, weight, labels = normal(ROWS, WIDTH), normal(CLASSES, WIDTH), integers(CLASSES, ROWS)
    labels[1] = 2
    samples = []
    for name, options in (
        ("plain", {}), ("smooth", {"label_smoothing": 0.2}),
        ("ignored", {"label_smoothing": 0.1, "ignore_index": 2}),
    ):  # fmt: skip
        for op, expected in ((LinearCrossEntropy, loss), (LinearCrossEntropyResiduals, residuals)):
            samples.append(
                Sample(
                    op, lambda *o, op=op, p=options: op(*o, **p), (x, weight, labels),
                    lambda *o, f=expected, p=options: f(*o, **p), name=f"{op.__name__}-{name}", empty=False,
                    misfit=(normal(ROWS, WIDTH + 1), weight, labels),
                )
            )  # fmt: skip
    samples.append(
        Sample(
            LabelTargets, lambda i, w: LabelTargets(i, w, 0.2, 2), (labels, weight),
            lambda i, w: targets(i, w, 0.2, 2), differentiable=False, empty=False,
        )
    )  # fmt: skip
    places = {"weight": slice(0, CLASSES), "loss": CLASSES, "x": slice(CLASSES + 1, None)}
    for part, rows in places.items():

        def computed(x: Any, weight: Any, labels: Any) -> Any:
            return LinearCrossEntropyResiduals(x, weight, labels)

        samples.append(
            Sample(
                ResidualsPart, lambda x, w, i, part=part: ResidualsPart(computed(x, w, i), x, w, part),
                (x, weight, labels),
                lambda *o, rows=rows: residuals(*o)[rows][:1] if isinstance(rows, int) else residuals(*o)[rows],
                name=f"ResidualsPart-{part}", empty=False,
            )
        )  # fmt: skip
        shape = {"weight": (CLASSES, WIDTH), "loss": (1,), "x": (ROWS, WIDTH)}[part]

        def placed(gradient: Any, *operands: Any, rows: Any = rows) -> Any:
            result = np.zeros((CLASSES + 1 + ROWS, WIDTH))
            result[rows, : gradient.shape[-1]] = gradient
            return result

        samples.append(
            Sample(
                PlaceInResiduals, lambda g, x, w, _, part=part: PlaceInResiduals(g, x, w, part),
                (normal(*shape), x, weight, labels), placed, name=f"PlaceInResiduals-{part}", empty=False,
            )
        )  # fmt: skip
    return samples
