"""Samples of the normalizations; the expected values and gradients are PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.pytorch import functional, torch
from tests.samples.sample import Sample, distinct, normal
from wyrm.ops.normalization.normalization import LayerNorm, NormalizationGradient, NormalizationWeightGradient, RMSNorm

EPSILON = 1e-3


def _torch(x: Any, weight: Any, *bias: Any, centred: bool, epsilon: float) -> Any:
    if centred:
        return functional.layer_norm(x, x.shape[-1:], weight, bias[0] if bias else None, epsilon)
    return functional.rms_norm(x, x.shape[-1:], weight, epsilon)


def normalized(*operands: Any, centred: bool = True, epsilon: float = EPSILON) -> NDArray[Any]:
    """Return the value of `LayerNorm`, or unless `centred`, of `RMSNorm`."""
    tensors = map(torch.tensor, operands)
    result: NDArray[Any] = _torch(*tensors, centred=centred, epsilon=epsilon).numpy()
    return result


def gradients(
    x: Any, weight: Any, *bias: Any, cotangent: Any, centred: bool = True, epsilon: float = EPSILON
) -> list[NDArray[Any]]:
    """Return the gradients with respect to all operands."""
    tensors = [torch.tensor(array, requires_grad=True) for array in (x, weight, *bias)]
    result = _torch(*tensors, centred=centred, epsilon=epsilon)
    return [gradient.numpy() for gradient in torch.autograd.grad(result, tensors, torch.tensor(cotangent))]


def _forward_samples() -> list[Sample]:
    shapes: list[tuple[str, tuple[int, ...]]] = [("", (3, 4)), ("-row", (4,)), ("-rows-of-rows", (2, 3, 4))]
    samples = []
    for kind, shape in [*shapes, ("-one-feature", (3, 1))]:
        vectors = normal(shape[-1]), normal(shape[-1])
        for op, count, variant in ((LayerNorm, 2, ""), (LayerNorm, 1, "-without-bias"), (RMSNorm, 1, "")):

            def build(*nodes: Any, op: Any = op) -> Any:
                return op(*nodes, epsilon=EPSILON)

            def expected(*arrays: Any, op: Any = op) -> NDArray[Any]:
                return normalized(*arrays, centred=op is LayerNorm)

            samples.append(
                Sample(
                    op,
                    build,
                    (distinct(*shape), *vectors[:count]),
                    expected,
                    name=f"{op.__name__}{variant}{kind}",
                    empty=False,
                    misfit=(distinct(*shape), *vectors[: count - 1], normal(shape[-1] + 1)),
                )
            )
    return samples


def _gradient_samples() -> list[Sample]:
    samples = []
    for shape in ((3, 4), (4,), (2, 3, 4)):
        for centred in (True, False):
            kind = f"{'layer' if centred else 'rms'}-{len(shape)}d"
            x, weight, cotangent = distinct(*shape), normal(4), normal(*shape)

            def x_gradient(*nodes: Any, centred: bool = centred) -> Any:
                return NormalizationGradient(*nodes, centred=centred, epsilon=EPSILON)

            def expected_x_gradient(x: Any, weight: Any, cotangent: Any, centred: bool = centred) -> NDArray[Any]:
                return gradients(x, weight, cotangent=cotangent, centred=centred)[0]

            wrong = x, weight, normal(*shape[:-1], 5)
            samples.append(
                Sample(
                    NormalizationGradient,
                    x_gradient,
                    (x, weight, cotangent),
                    expected_x_gradient,
                    name=f"NormalizationGradient-{kind}",
                    empty=False,
                    misfit=wrong,
                )
            )
            for biased in (True, False)[not centred :]:

                def vector_gradients(*nodes: Any, centred: bool = centred, biased: bool = biased) -> Any:
                    return NormalizationWeightGradient(*nodes, centred=centred, biased=biased, epsilon=EPSILON)

                def expected_vector_gradients(
                    x: Any, cotangent: Any, centred: bool = centred, biased: bool = biased
                ) -> NDArray[Any]:
                    vectors = [np.ones(x.shape[-1], x.dtype)] * (1 + biased)
                    return np.stack(gradients(x, *vectors, cotangent=cotangent, centred=centred)[1:])

                samples.append(
                    Sample(
                        NormalizationWeightGradient,
                        vector_gradients,
                        (x, cotangent),
                        expected_vector_gradients,
                        name=f"NormalizationWeightGradient-{kind}{'-biased' if biased else ''}",
                        empty=False,
                        misfit=(x, wrong[-1]),
                    )
                )
    return samples


def samples() -> list[Sample]:
    """Return samples of each op for operands of 1, 2 and 3 axes; layer norm with and without a bias."""
    return _forward_samples() + _gradient_samples()
