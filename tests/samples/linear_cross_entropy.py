"""Samples of the fused linear layer with cross-entropy; the expected values are PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.pytorch import torch
from tests.samples.sample import Sample, integers, normal
from wyrm.ops.cross_entropy.kernels import PlaceInResiduals, ResidualsPart
from wyrm.ops.cross_entropy.linear_cross_entropy import LabelTargets, LinearCrossEntropy, LinearCrossEntropyResiduals

ROWS, CLASSES, WIDTH = 4, 5, 3


def _run(
    x: Any, weight: Any, labels: Any, label_smoothing: float = 0.0, ignore_index: int | None = None
) -> tuple[Any, Any, Any]:
    leaves = torch.tensor(x).requires_grad_(), torch.tensor(weight).requires_grad_()
    torch_labels = torch.tensor(np.where(labels == ignore_index, -100, labels))
    loss = torch.nn.functional.cross_entropy(
        leaves[0] @ leaves[1].T, torch_labels, label_smoothing=label_smoothing, ignore_index=-100
    )
    loss.backward()
    return loss.detach().numpy(), leaves[0].grad.numpy(), leaves[1].grad.numpy()


def loss(*operands: Any, **options: Any) -> NDArray[Any]:
    """Return the value of `LinearCrossEntropy`."""
    result: NDArray[Any] = _run(*operands, **options)[0]
    return result


def residuals(*operands: Any, **options: Any) -> NDArray[Any]:
    """Return the value of `LinearCrossEntropyResiduals`."""
    loss_value, x_gradient, weight_gradient = _run(*operands, **options)
    row = np.zeros((1, x_gradient.shape[1]), x_gradient.dtype)
    row[0, 0] = loss_value
    return np.concatenate([weight_gradient, row, x_gradient])


def targets(labels: Any, weight: Any, label_smoothing: float, ignore_index: int) -> NDArray[Any]:
    """Return the value of `LabelTargets`."""
    probabilities = np.full((len(labels), len(weight)), label_smoothing / len(weight))
    for row, label in enumerate(labels):
        if label == ignore_index:
            probabilities[row] = 0.0
        else:
            probabilities[row, label] += 1.0 - label_smoothing
    return probabilities


def samples() -> list[Sample]:
    """Return samples of the five ops: plain, smoothed, with ignored labels."""
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
    part_rows = {"weight": slice(0, CLASSES), "loss": CLASSES, "x": slice(CLASSES + 1, None)}
    for part, rows in part_rows.items():

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
