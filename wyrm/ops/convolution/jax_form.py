"""The lowering of convolutions to `jax.lax.conv_general_dilated`.

XLA has two errors on CPUs. If padding removes elements at the start, its numbers are wrong: here they are sliced off
before. If each output reads one element, because of the zeros between the elements of the input, XLA exchanges both
operands and ends the process: here one more output is computed, and sliced off after. Where JAX would derive such a
convolution, the op has its own gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from wyrm.graph.axes import axis_size
from wyrm.graph.jax_form import Lowering
from wyrm.ops.products.jax_form import ProductForm, sum_dtype


class _Axis(NamedTuple):
    """A spatial axis of a convolution of XLA, of an input of `size` elements with a kernel of `taps`.

    The input has `spacing - 1` zeros between its elements, `low` zeros before and `high` after them. A negative number
    removes elements.
    """

    size: int
    taps: int
    stride: int
    low: int
    high: int
    spacing: int
    dilation: int

    @property
    def spaced(self) -> int:
        """The number of elements with the zeros between them."""
        return (self.size - 1) * self.spacing + 1

    @property
    def extent(self) -> int:
        """The number of elements from the first to the last tap."""
        return (self.taps - 1) * self.dilation + 1

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return (self.spaced + self.low + self.high - self.extent) // self.stride + 1

    @property
    def ends_process(self) -> bool:
        """Whether XLA may end the process."""
        single = self.spacing == self.taps and self.stride == self.taps - 1 and self.dilation == 1
        return single and self.low == self.high == 0 and self.size != self.taps

    @property
    def fails(self) -> bool:
        """Whether XLA may compute other numbers or end the process."""
        return self.low < 0 or self.ends_process

    def derived(self) -> tuple[_Axis, _Axis]:
        """Return the axes of the gradients with respect to the input and to the kernel, as JAX derives them."""
        reach = (self.outputs - 1) * self.stride + 1
        low = self.extent - 1 - self.low
        of_input = _Axis(
            self.outputs, self.taps, self.spacing, low, self.spaced + self.extent - 1 - reach - low, self.stride,
            self.dilation,
        )  # fmt: skip
        high = reach + self.extent - 1 - self.spaced - self.low
        of_kernel = _Axis(self.size, self.outputs, self.dilation, self.low, high, self.spacing, self.stride)
        return of_input, of_kernel

    def kept(self) -> tuple[slice, _Axis]:
        """Return which elements are not removed, and the axis of an input of these alone."""
        before, after = -(min(self.low, 0) // self.spacing), -(min(self.high, 0) // self.spacing)
        size = max(0, self.size - before - after)
        low, high = self.low + before * self.spacing, self.high + after * self.spacing
        return slice(before, before + size), self._replace(size=size, low=low, high=high)


class _ConvolutionForm(ProductForm):
    """A convolution of XLA."""

    # Which of both operands and the result, from 0, has the axes of the weight.
    weight = 1

    def axes(self, node: Any, first: Sequence[int], second: Sequence[int], result: Sequence[int]) -> list[_Axis]:
        """Return the spatial axes, given the sizes of those of both operands and of the result."""
        raise NotImplementedError

    def own_gradient(self, node: Any) -> bool:
        sizes = [[axis_size(axis) for axis in x.dims[2:]] for x in (*node.parents[:2], node)]
        known: Any = sizes
        # XLA fails for some sizes. Where data decides the size, it may be one of them, unless windows keep the size.
        if any(size is None for each in sizes for size in each):
            return not all(window.keeps_sizes for window in node.windows(known[self.weight]))
        return any(axis.fails for each in self.axes(node, *known) for axis in each.derived())

    def convolved(
        self,
        node: Any,
        operands: tuple[Any, Any],
        kernel: Any,
        shape: tuple[int, ...],
        lowering: Lowering,
        exchanged: bool = False,
    ) -> Any:
        """Return the convolution of the first operand with a kernel made of the second one.

        With `exchanged`, batch and channels are exchanged in the operands and the result.
        """
        import jax.numpy as jnp
        from jax import lax

        (x, second), dtype = operands, sum_dtype(*operands)
        pairs = [axis.kept() for axis in self.axes(node, x.shape[2:], second.shape[2:], shape[2:])]
        kept, axes = [slices for slices, _ in pairs], [axis for _, axis in pairs]
        if any(axis.size == 0 for axis in axes):
            return jnp.zeros(shape, dtype)
        x = x[(slice(None), slice(None), *kept)]
        order = (1, 0, *range(2, x.ndim)) if exchanged else tuple(range(x.ndim))
        options = {
            "window_strides": [axis.stride for axis in axes],
            "padding": [(axis.low, axis.high + axis.ends_process) for axis in axes],
            "lhs_dilation": [axis.spacing for axis in axes],
            "rhs_dilation": [axis.dilation for axis in axes],
            "batch_group_count" if exchanged else "feature_group_count": node.groups,
        }

        numbers = lax.ConvDimensionNumbers(order, order, order)
        result = lax.conv_general_dilated(x, kernel, dimension_numbers=numbers, preferred_element_type=dtype, **options)
        return result[tuple(map(slice, shape))]


class ConvolutionForm(_ConvolutionForm):
    """One convolution of XLA, and the bias."""

    def axes(self, node: Any, first: Sequence[int], second: Sequence[int], result: Sequence[int]) -> list[_Axis]:
        return [
            _Axis(size, window.size, window.stride, window.before, window.after, 1, window.dilation)
            for size, window in zip(first, node.windows(second), strict=True)
        ]

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, weight, *biases = operands
        result = self.convolved(node, (x, weight), weight, shape, lowering)
        return result + biases[0].reshape(-1, *[1] * len(node.stride)) if biases else result


class InputGradientForm(_ConvolutionForm):
    """A convolution of the gradient, spaced by the stride, with the flipped weight."""

    def axes(self, node: Any, first: Sequence[int], second: Sequence[int], result: Sequence[int]) -> list[_Axis]:
        return [
            _Axis(
                count, window.size, 1, window.extent - 1 - window.before,
                size - 1 + window.before - (count - 1) * window.stride, window.stride, window.dilation,
            )
            for window, size, count in zip(node.windows(second), result, first, strict=True)
        ]  # fmt: skip

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        from jax import lax

        gradient, weight = operands
        outputs, channels, *sizes = weight.shape
        grouped = weight.reshape(node.groups, outputs // node.groups, channels, *sizes).swapaxes(1, 2)
        exchanged = grouped.reshape(node.groups * channels, outputs // node.groups, *sizes)
        flipped = lax.rev(exchanged, range(2, exchanged.ndim))
        return self.convolved(node, (gradient, weight), flipped, shape, lowering)


class WeightGradientForm(_ConvolutionForm):
    """A convolution that sums over the batch: x and the gradient exchange batch and channels, stride and dilation."""

    weight = 2

    def axes(self, node: Any, first: Sequence[int], second: Sequence[int], result: Sequence[int]) -> list[_Axis]:
        return [
            _Axis(
                size, count, window.dilation, window.before,
                (count - 1) * window.stride + window.extent - size - window.before, 1, window.stride,
            )
            for window, size, count in zip(node.windows(result), first, second, strict=True)
        ]  # fmt: skip

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, gradient = operands
        return self.convolved(node, (x, gradient), gradient, shape, lowering, exchanged=True)
