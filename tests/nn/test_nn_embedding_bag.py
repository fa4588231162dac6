"""Embedding bags against PyTorch."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import pytest

import wyrm as wy
from tests.against_torch import check_against_torch
from tests.pytorch import functional, torch
from tests.samples.sample import distinct
from wyrm.errors import ShapeError
from wyrm.ops.indexing.index import row_parts

INDICES = np.array([[1, 4, 4], [0, 2, 0], [0, 0, 0], [3, 1, 0]])


class Batch(wy.Dim): ...


class Bag(wy.Dim): ...


class Words(wy.Dim): ...


class Width(wy.Dim): ...


def bag(weight: Any, mode: Any, padding_idx: int | None) -> Any:
    layer: Any = wy.nn.EmbeddingBag(*weight.shape, mode=mode, padding_idx=padding_idx, dtype=np.float64)
    layer.weight = weight
    return layer


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding_idx", [None, 0])
def test_values_and_gradients_are_pytorchs(mode: str, padding_idx: int | None) -> None:
    def expected(weight: Any) -> Any:
        rows = weight[INDICES]
        present = torch.tensor((padding_idx != INDICES) if padding_idx is not None else np.ones_like(INDICES, bool))[
            ..., None
        ]
        if mode == "max":
            largest = rows.masked_fill(~present, -np.inf).amax(1)
            return largest.masked_fill(largest == -np.inf, 0.0)
        total = (rows * present).sum(1)
        return total if mode == "sum" else total / present.sum(1).clamp(min=1)

    table = distinct(5, 3)
    value = bag(wy.Parameter(table), mode, padding_idx)(wy.IndexInput(INDICES)).forward()
    theirs = functional.embedding_bag(torch.tensor(INDICES), torch.tensor(table), mode=mode, padding_idx=padding_idx)
    np.testing.assert_allclose(value, theirs.numpy(), rtol=1e-12)
    check_against_torch(lambda weight: bag(weight, mode, padding_idx)(wy.IndexInput(INDICES)), expected, [table])


def test_sample_weights_are_pytorchs() -> None:
    weights = distinct(*INDICES.shape)

    def expected(weight: Any, factors: Any) -> Any:
        return functional.embedding_bag(
            torch.tensor(INDICES), weight, mode="sum", per_sample_weights=factors, padding_idx=0
        )

    def ours(weight: Any, factors: Any) -> Any:
        return bag(weight, "sum", 0)(wy.IndexInput(INDICES), factors)

    check_against_torch(ours, expected, [distinct(5, 3), weights], second_order=False)


def test_the_gradient_holds_only_the_rows_used() -> None:
    layer = wy.nn.EmbeddingBag(100, 3, mode="mean", padding_idx=0)
    gradient = wy.grad(layer(wy.IndexInput(INDICES)).sum(), layer.weight)
    assert row_parts(gradient) is not None


def test_axes_are_typed_and_any_leading_axes_work() -> None:
    layer = wy.nn.EmbeddingBag(Words(10), Width(3))
    indices = wy.IndexInput(INDICES, dims=(Batch(4), Bag(3)))
    assert_type(layer(indices), wy.Tensor[Batch, Width])
    assert layer(indices).dims == (Batch(4), Width(3))
    assert layer(wy.IndexInput(dims=(2, 4, 3))).shape == (2, 4, 3)
    assert layer(wy.IndexInput(dims=(4,))).shape == (3,)


def test_wrong_options_are_errors() -> None:
    with pytest.raises(ValueError, match="mode"):
        wy.nn.EmbeddingBag(4, 2, mode="median")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(ValueError, match="padding_idx"):
        wy.nn.EmbeddingBag(4, 2, padding_idx=4)
    with pytest.raises(ValueError, match="sample_weight"):
        wy.nn.EmbeddingBag(5, 2)(wy.IndexInput(INDICES), np.ones(INDICES.shape))
    with pytest.raises(ShapeError):
        wy.nn.EmbeddingBag(5, 2, mode="sum")(wy.IndexInput(INDICES), np.ones(3))
