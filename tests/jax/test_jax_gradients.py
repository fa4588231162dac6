"""Derivatives by JAX of lowered graphs are those of wyrm, for every op, and to second order."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

import wyrm as wy
from tests import OPTIMIZED
from tests.ops.test_ops_every import projected, run
from tests.samples.grouped import grouped
from tests.samples.sample import Sample
from wyrm.engines.jax.differentiable import _is_piecewise


def has_bias(sample: Sample) -> bool:
    """Return whether XLA makes infinities of a sample's gradient unless it optimizes, which takes longer."""
    return "alibi" in str(sample) or "biased" in str(sample)


def options_of(samples: list[Sample]) -> dict[str, str] | None:
    """Return the options of `jax.jit` for a function of samples."""
    return OPTIMIZED if any(map(has_bias, samples)) else None


@grouped(16, lambda sample: sample.differentiable, apart=has_bias)
def test_gradients_by_jax(samples: list[Sample]) -> None:
    totals: list[Any] = []
    expected: dict[Any, tuple[str, np.ndarray]] = {}
    for sample in samples:
        node = run(sample, sample.operands)
        wanted = node.parameters()
        if not wanted:
            continue
        total = projected(node)
        totals.append(total)
        for parameter, gradient in zip(wanted, wy.grad(total, wanted), strict=True):
            wy.random.set_step(0)
            expected[parameter] = str(sample), gradient.forward()
    with jax.enable_x64(True):
        function, parameters = wy.jax.lower(sum(totals[1:], totals[0]))
        gradients: Any = jax.jit(jax.grad(function), compiler_options=options_of(samples))(parameters)
    for parameter, (name, reference) in expected.items():
        found = gradients[function.names[parameter]]
        np.testing.assert_allclose(found, reference, rtol=1e-8, atol=1e-10, err_msg=name)


_OWN = ("Attention", "CTC", "GeneralEigenvalues", "GeneralEigenvectors", "LinearCrossEntropy", "Scan")


def own(sample: Sample) -> bool:
    """Return whether functions for JAX have a derivative of the op's own."""
    op = sample.op
    piecewise = op.formula != "" and _is_piecewise(op.formula)
    return sample.differentiable and (piecewise or op.__name__ in _OWN)


@grouped(4, own, apart=has_bias)
def test_second_derivatives_of_ops_with_a_derivative_of_their_own(samples: list[Sample]) -> None:
    totals: list[Any] = []
    expected: dict[Any, tuple[str, np.ndarray]] = {}
    for sample in samples:
        node = run(sample, sample.operands)
        total = projected(node)
        totals.append(total)
        wanted = node.parameters()
        sums = [(gradient * gradient).sum() for gradient in wy.grad(total, wanted)]
        second = wy.grad(sum(sums[1:], sums[0]), wanted, allow_unused=True)
        for parameter, gradient in zip(wanted, second, strict=True):
            wy.random.set_step(0)
            expected[parameter] = str(sample), gradient.forward()
    with jax.enable_x64(True):
        function, parameters = wy.jax.lower(sum(totals[1:], totals[0]))

        def squares(values: Any) -> Any:
            gradients = jax.grad(function)(values)
            return sum((gradient**2).sum() for gradient in gradients.values())

        gradients: Any = jax.jit(jax.grad(squares), compiler_options=options_of(samples))(parameters)
    for parameter, (name, reference) in expected.items():
        found = gradients[function.names[parameter]]
        np.testing.assert_allclose(found, reference, rtol=1e-7, atol=1e-9, err_msg=name)


def has_tangent(sample: Sample) -> bool:
    """Return whether functions for JAX have a derivative of the op's own for both modes."""
    return own(sample) and (sample.op.formula != "" or sample.op.__name__ in ("Attention", "LinearCrossEntropy"))


@grouped(16, has_tangent, apart=has_bias)
def test_forward_mode_is_the_transpose_of_reverse_mode(samples: list[Sample]) -> None:
    with jax.enable_x64(True):
        lowered = [wy.jax.lower(run(sample, sample.operands)) for sample in samples]

        def both(every: list[Any]) -> list[Any]:
            return [_by_both_modes(function, values) for (function, _), values in zip(lowered, every, strict=True)]

        found = jax.jit(both, compiler_options=options_of(samples))([parameters for _, parameters in lowered])
    for sample, (forward, reverse) in zip(samples, found, strict=True):
        np.testing.assert_allclose(forward, reverse, rtol=1e-8, atol=1e-10, err_msg=str(sample))


def _by_both_modes(function: Any, parameters: Any) -> tuple[Any, Any]:
    """Return the slope of a projection of a function along a direction, by forward and by reverse mode."""
    tangents = {name: np.cos(np.arange(each.size)).reshape(each.shape) for name, each in parameters.items()}
    value, tangent = jax.jvp(function, (parameters,), (tangents,))
    cotangent = np.sin(1.0 + np.arange(value.size)).reshape(value.shape)
    gradients = jax.vjp(function, parameters)[1](cotangent)[0]
    return (tangent * cotangent).sum(), sum((gradients[name] * tangents[name]).sum() for name in parameters)
