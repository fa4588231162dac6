"""Samples of the convolutions; the expected values are PyTorch's."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from tests.pytorch import functional, torch
from tests.samples.sample import Sample, normal
from wyrm.ops.convolution.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionOptions,
    ConvolutionWeightGradient,
)

_NAMES = {1: "conv1d", 2: "conv2d", 3: "conv3d"}


def _forward(x: Any, weight: Any, options: ConvolutionOptions) -> Any:
    """Return PyTorch's convolution of tensors; the padding may differ at both ends of an axis."""
    ends = [size for pair in reversed(options["padding"]) for size in pair]
    convolve = getattr(functional, _NAMES[x.ndim - 2])
    return convolve(
        functional.pad(x, ends), weight, stride=options["stride"], dilation=options["dilation"],
        groups=options["groups"],
    )  # fmt: skip


def _numpy(tensor: Any) -> NDArray[Any]:
    found: NDArray[Any] = tensor.detach().numpy()
    return found


def convolved(x: NDArray[Any], weight: NDArray[Any], options: ConvolutionOptions) -> NDArray[Any]:
    return _numpy(_forward(torch.tensor(x), torch.tensor(weight), options))


def gradient_of_input(
    gradient: NDArray[Any], weight: NDArray[Any], shape: tuple[int, ...], options: ConvolutionOptions
) -> NDArray[Any]:
    x = torch.zeros(shape, dtype=torch.tensor(gradient).dtype, requires_grad=True)
    _forward(x, torch.tensor(weight), options).backward(torch.tensor(gradient))
    return _numpy(x.grad)


def gradient_of_weight(
    x: NDArray[Any], gradient: NDArray[Any], shape: tuple[int, ...], options: ConvolutionOptions
) -> NDArray[Any]:
    weight = torch.zeros(shape, dtype=torch.tensor(x).dtype, requires_grad=True)
    _forward(torch.tensor(x), weight, options).backward(torch.tensor(gradient))
    return _numpy(weight.grad)


# Names, axes of x without the batch, axes of the weight, stride, padding, dilation and groups.
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], ConvolutionOptions]] = {
    "1d": ((2, 7), (3, 2, 3), {"stride": (1,), "padding": ((0, 0),), "dilation": (1,), "groups": 1}),
    "1d-strided": ((2, 8), (3, 2, 2), {"stride": (3,), "padding": ((2, 0),), "dilation": (2,), "groups": 1}),
    "same": ((1, 4, 5), (5, 1, 3, 3), {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}),
    "strided": (
        (2, 6, 5), (4, 2, 3, 2), {"stride": (2, 3), "padding": ((1, 0), (0, 2)), "dilation": (1, 1), "groups": 1}
    ),
    "dilated": (
        (2, 6, 7), (2, 2, 2, 3), {"stride": (1, 2), "padding": ((1, 2), (0, 1)), "dilation": (3, 2), "groups": 1}
    ),
    "groups": (
        (4, 3, 4), (6, 2, 2, 1), {"stride": (1, 2), "padding": ((0, 1), (0, 0)), "dilation": (1, 1), "groups": 2}
    ),
    "by-channel": (
        (3, 3, 4), (3, 1, 3, 3), {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 3}
    ),
    "3d": (
        (2, 3, 2, 4), (2, 2, 2, 1, 3),
        {"stride": (2, 1, 1), "padding": ((0, 1), (0, 0), (1, 1)), "dilation": (1, 1, 1), "groups": 1},
    ),
}  # fmt: skip
_BATCH = 2


def _shape_of_outputs(x: tuple[int, ...], weight: tuple[int, ...], options: ConvolutionOptions) -> tuple[int, ...]:
    """Return the shape of outputs, without PyTorch: its import would be one of every process that has samples."""
    sizes = (
        (size + before + after - dilation * (window - 1) - 1) // stride + 1
        for size, window, stride, (before, after), dilation in zip(
            x[1:], weight[2:], options["stride"], options["padding"], options["dilation"], strict=True
        )
    )
    return _BATCH, weight[0], *sizes


def _samples(name: str, x: tuple[int, ...], weight: tuple[int, ...], options: ConvolutionOptions) -> list[Sample]:
    shape, outputs = (_BATCH, *x), _shape_of_outputs(x, weight, options)
    wrong = normal(_BATCH, x[0] + 1, *x[1:])
    return [
        Sample(
            Convolution,
            lambda x, w: Convolution(x, w, **options),
            (normal(*shape), normal(*weight)),
            lambda x, w: convolved(x, w, options),
            name=f"Convolution-{name}",
            empty=False,
            misfit=(wrong, normal(*weight)),
        ),
        Sample(
            ConvolutionInputGradient,
            lambda g, w: ConvolutionInputGradient(g, w, sizes=x[1:], **options),
            (normal(*outputs), normal(*weight)),
            lambda g, w: gradient_of_input(g, w, shape, options),
            name=f"ConvolutionInputGradient-{name}",
            empty=False,
            misfit=(normal(_BATCH, outputs[1] + 1, *outputs[2:]), normal(*weight)),
        ),
        Sample(
            ConvolutionWeightGradient,
            lambda x, g: ConvolutionWeightGradient(x, g, sizes=weight[2:], **options),
            (normal(*shape), normal(*outputs)),
            lambda x, g: gradient_of_weight(x, g, weight, options),
            name=f"ConvolutionWeightGradient-{name}",
            empty=False,
            misfit=(normal(_BATCH + 1, *x), normal(*outputs)),
        ),
    ]


def _with_bias() -> Sample:
    x, weight, options = CASES["groups"]
    bias = normal(weight[0])
    return Sample(
        Convolution,
        lambda x, w, b: Convolution(x, w, b, **options),
        (normal(_BATCH, *x), normal(*weight), bias),
        lambda x, w, b: convolved(x, w, options) + b[:, None, None],
        name="Convolution-bias",
        empty=False,
        misfit=(normal(_BATCH, *x), normal(*weight), normal(weight[0] + 1)),
    )


def samples() -> list[Sample]:
    return [_with_bias()] + [
        sample for name, (x, weight, options) in CASES.items() for sample in _samples(name, x, weight, options)
    ]
