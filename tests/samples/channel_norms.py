"""Samples of batch and group normalization; the expected values and gradients are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.pytorch import functional, torch
from tests.samples.sample import Sample, distinct, normal
from wyrm.ops.normalization.batch_norm import BatchMoments, BatchNorm, BatchNormGradient, BatchNormVectorGradient
from wyrm.ops.normalization.group_norm import GroupMoments, GroupNorm, GroupNormGradient, GroupNormVectorGradient

EPSILON = 1e-3
GROUPS = 2


def _moments(x: Any, axis: int) -> NDArray[Any]:
    others = tuple(i for i in range(x.ndim) if i != axis)
    return np.stack([x.mean(others), x.var(others)])


def _torch(x: Any, weight: Any = None, bias: Any = None, *, axis: int | None) -> Any:
    """Return batch norm over all axes but `axis`, or without one group norm."""
    if axis is None:
        return functional.group_norm(x, GROUPS, weight, bias, EPSILON)
    moved = x.movedim(axis, 1)
    return functional.batch_norm(moved, None, None, weight, bias, training=True, eps=EPSILON).movedim(1, axis)


def normalized(*operands: Any, axis: int | None) -> NDArray[Any]:
    result: NDArray[Any] = _torch(*map(torch.tensor, operands), axis=axis).numpy()
    return result


def gradients(x: Any, cotangent: Any, *vectors: Any, axis: int | None) -> list[NDArray[Any]]:
    """Return the gradients with respect to the operand, the weight and the bias."""
    channels = x.shape[1 if axis is None else axis]
    given = vectors or (np.ones(channels, x.dtype), np.zeros(channels, x.dtype))
    if len(given) == 1:
        given = (*given, np.zeros(channels, x.dtype))
    tensors = [torch.tensor(array, requires_grad=True) for array in (x, *given)]
    result = _torch(*tensors, axis=axis)
    return [gradient.numpy() for gradient in torch.autograd.grad(result, tensors, torch.tensor(cotangent))]


def _wrong(operands: tuple[Any, ...], place: int, axis: int) -> tuple[Any, ...]:
    """Return the operands with one more channel at `place`."""
    found = list(operands)
    array = found[place]
    found[place] = np.concatenate([array, np.take(array, [0], axis=axis)], axis=axis)
    return tuple(found)


def _sample(
    op: Any, build: Callable[..., Any], operands: tuple[Any, ...], expected: Any, name: str, misfit: Any
) -> Sample:
    return Sample(op, build, operands, expected, name=f"{op.__name__}-{name}", empty=False, misfit=misfit)


def _of_batch(shape: tuple[int, ...], axis: int) -> list[Sample]:
    options: Any = {"axis": axis, "epsilon": EPSILON}
    x, cotangent = distinct(*shape), normal(*shape)
    weight, bias = normal(shape[axis]), normal(shape[axis])
    name = f"{len(shape)}d-axis-{axis}"

    def value(*arrays: Any) -> NDArray[Any]:
        return normalized(*arrays, axis=axis)

    # The moments and the gradients of the vectors are computed from the operands, as a model does.
    def vectors(x: Any, gradient: Any) -> Any:
        return BatchNormVectorGradient(x, gradient, BatchMoments(x, axis=axis), **options)

    def whole(x: Any, gradient: Any, *weight: Any) -> Any:
        moments = BatchMoments(x, axis=axis)
        each = BatchNormVectorGradient(x, gradient, moments, **options)
        return BatchNormGradient(x, gradient, moments, each, *weight, **options)

    def expected_vectors(*arrays: Any) -> NDArray[Any]:
        return np.stack(gradients(*arrays, axis=axis)[1:])

    def expected_whole(*arrays: Any) -> NDArray[Any]:
        return gradients(*arrays, axis=axis)[0]

    one_less = np.zeros((1, shape[axis])) if axis else np.zeros((shape[axis], 1))
    return [
        _sample(
            BatchMoments,
            lambda x: BatchMoments(x, axis=axis % x.ndim),
            (x,),
            lambda x: _moments(x, axis),
            name,
            (one_less if len(shape) == 2 else np.zeros(3),),
        ),
        _sample(
            BatchNorm,
            lambda *nodes: BatchNorm(*nodes, **options),
            (x, weight, bias),
            value,
            name,
            _wrong((x, weight, bias), 1, 0),
        ),
        _sample(BatchNorm, lambda x: BatchNorm(x, **options), (x,), value, f"{name}-not-affine", None),
        _sample(
            BatchNormVectorGradient,
            vectors,
            (x, cotangent),
            expected_vectors,
            name,
            _wrong((x, cotangent), 1, axis),
        ),
        _sample(
            BatchNormGradient,
            whole,
            (x, cotangent, weight),
            expected_whole,
            name,
            _wrong((x, cotangent, weight), 2, 0),
        ),
        _sample(
            BatchNormGradient,
            whole,
            (x, cotangent),
            expected_whole,
            f"{name}-not-affine",
            None,
        ),
    ]


def _of_groups(shape: tuple[int, ...]) -> list[Sample]:
    options: Any = {"groups": GROUPS, "epsilon": EPSILON}
    x, cotangent, weight, bias = distinct(*shape), normal(*shape), normal(shape[1]), normal(shape[1])
    name = f"{len(shape)}d"

    def value(*arrays: Any) -> NDArray[Any]:
        return normalized(*arrays, axis=None)

    def expected_vectors(*arrays: Any) -> NDArray[Any]:
        return np.stack(gradients(*arrays, axis=None)[1:])

    def expected_whole(*arrays: Any) -> NDArray[Any]:
        return gradients(*arrays, axis=None)[0]

    def of(op: Any) -> Callable[..., Any]:
        return lambda *nodes: op(*nodes, **options)

    def expected_moments(x: Any) -> NDArray[Any]:
        groups = x.reshape(len(x), GROUPS, -1)
        return np.stack([groups.mean(2), groups.var(2)], axis=1)

    each: list[tuple[Any, tuple[Any, ...], Any, str]] = [
        (GroupMoments, (x,), expected_moments, name),
        (GroupNorm, (x, weight, bias), value, name),
        (GroupNorm, (x, weight), value, f"{name}-without-bias"),
        (GroupNorm, (x,), value, f"{name}-not-affine"),
        (GroupNormVectorGradient, (x, cotangent), expected_vectors, name),
        (GroupNormGradient, (x, cotangent, weight), expected_whole, name),
        (GroupNormGradient, (x, cotangent), expected_whole, f"{name}-not-affine"),
    ]
    return [
        _sample(
            op,
            of(op),
            operands,
            expected,
            each_name,
            _wrong(operands, len(operands) - 1, min(1, operands[-1].ndim - 1)),
        )
        for op, operands, expected, each_name in each
    ]


def samples() -> list[Sample]:
    """Return samples of each op: over the first, a middle and the last axis, and groups with and without sizes."""
    found = [*_of_batch((4, 3), 1), *_of_batch((3, 4), 0), *_of_batch((3, 2, 2, 3), 1), *_of_batch((2, 2, 17), 1)]
    return [*found, *_of_groups((3, 4)), *_of_groups((2, 4, 2, 3))]
