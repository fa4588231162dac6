"""The lowering of convolutions to `jax.lax.conv_general_dilated`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wyrm.node.jax_form import JaxForm, Lowering


class ConvolutionForm(JaxForm):
    """One convolution of XLA, and the bias."""

    narrow = True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        from jax import lax

        x, weight, *biases = operands
        result = lax.conv_general_dilated(
            x, weight, node.stride, node.padding, rhs_dilation=node.dilation, feature_group_count=node.groups,
            preferred_element_type=lowering.dtype(node),
        )  # fmt: skip
        return result + biases[0].reshape(-1, *[1] * len(node.stride)).astype(result.dtype) if biases else result


class InputGradientForm(JaxForm):
    """A convolution of the gradient, spaced by the stride, with the flipped weight."""

    narrow = True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        from jax import lax

        gradient, weight = operands
        padding = []
        for window, size, count in zip(node.windows(weight.shape[2:]), shape[2:], gradient.shape[2:], strict=True):
            before = window.extent - 1 - window.before
            padding.append((before, size - 1 + window.before - (count - 1) * window.stride))
        outputs, channels, *sizes = weight.shape
        grouped = weight.reshape(node.groups, outputs // node.groups, channels, *sizes).swapaxes(1, 2)
        exchanged = grouped.reshape(node.groups * channels, outputs // node.groups, *sizes)
        return lax.conv_general_dilated(
            gradient, lax.rev(exchanged, range(2, exchanged.ndim)), [1] * len(sizes), padding, lhs_dilation=node.stride,
            rhs_dilation=node.dilation, feature_group_count=node.groups, preferred_element_type=lowering.dtype(node),
        )  # fmt: skip


class WeightGradientForm(JaxForm):
    """A convolution that sums over the batch: x and the gradient exchange batch and channels, stride and dilation."""

    narrow = True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        from jax import lax

        x, gradient = operands
        padding = []
        for window, size, count in zip(node.windows(shape[2:]), x.shape[2:], gradient.shape[2:], strict=True):
            padding.append((window.before, (count - 1) * window.stride + window.extent - size - window.before))
        exchanged = (1, 0, *range(2, x.ndim))
        return lax.conv_general_dilated(
            x, gradient, node.dilation, padding, rhs_dilation=node.stride, batch_group_count=node.groups,
            dimension_numbers=lax.ConvDimensionNumbers(exchanged, exchanged, exchanged),
            preferred_element_type=lowering.dtype(node),
        )  # fmt: skip
