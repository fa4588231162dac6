"""Upsampling by repetition or linear interpolation, as a function and as a layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from wyrm.errors import DTypeError, OptionError, ShapeError
from wyrm.graph.axes import Axis, Dim, axis_size
from wyrm.graph.base import format_dims
from wyrm.graph.node import Node
from wyrm.graph.quotients import scaled
from wyrm.graph.typing import AtLeast1D, Shaped
from wyrm.module import Module
from wyrm.nn.axes import per_axis, spatial_axes
from wyrm.nn.pooling import B, C, D, H, W, resampled
from wyrm.ops.elementwise.elementwise import L
from wyrm.ops.pooling.resample import Taps, Weighting
from wyrm.support.options import choice, number

Interpolation = Literal["nearest", "linear", "bilinear", "trilinear"]
# The number of spatial axes that a mode is for; any number for "nearest".
_RANKS: dict[str, int | None] = {"nearest": None, "linear": 1, "bilinear": 2, "trilinear": 3}
# Below this denominator, the product of a factor and the size of an axis is exact.
_EXACT = 2**16


@overload
def interpolate(
    x: Shaped[L, AtLeast1D],
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: Interpolation = ...,
    align_corners: bool = False,
) -> Node: ...
@overload
def interpolate(
    x: Node[Any, tuple[B, C, W]],
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: Interpolation = ...,
    align_corners: bool = False,
) -> Node[Any, tuple[B, C, Any]]: ...
@overload
def interpolate(
    x: Node[Any, tuple[B, C, H, W]],
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: Interpolation = ...,
    align_corners: bool = False,
) -> Node[Any, tuple[B, C, Any, Any]]: ...
@overload
def interpolate(
    x: Node[Any, tuple[B, C, D, H, W]],
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: Interpolation = ...,
    align_corners: bool = False,
) -> Node[Any, tuple[B, C, Any, Any, Any]]: ...
def interpolate(
    x: Any,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: Interpolation = "nearest",
    align_corners: bool = False,
) -> Node:
    """Return `x`, (batch, channels, *sizes), with its spatial axes resampled to other sizes, as PyTorch does.

    Either `size` gives the new sizes, or `scale_factor` multiplies the old ones; both are one number for all spatial
    axes, or one for each. "nearest" takes element `floor(i * old / new)`. "linear", "bilinear" and "trilinear",
    for one, two and three spatial axes, interpolate at `(i + 0.5) * old / new - 0.5`, within the axis; or at
    `i * (old - 1) / (new - 1)` with `align_corners`, so that the ends of an axis stay ends.

    An axis whose size the data of each run decides takes a `scale_factor` that is a whole number, a half, a quarter or
    the like, and `size` may have such axes, as in `size=other.shape[2:]`.

    Raise `ShapeError` for axes that do not fit, `ValueError` for an unknown mode and unless exactly one of `size` and
    `scale_factor` is given, `DTypeError` for options of another kind.

    >>> interpolate(wy.Constant([[[1.0, 2.0]]]), scale_factor=2).forward().tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    >>> interpolate(wy.Constant([[[0.0, 1.0]]]), size=3, mode="linear").forward().tolist()
    [[[0.0, 0.5, 1.0]]]
    """
    _check_resizing("interpolate", size, scale_factor, mode, align_corners)
    axes = spatial_axes("interpolate", x, _RANKS[mode])
    factors: Sequence[float | None] = [None] * len(axes)
    to: Sequence[Axis]
    if size is not None:
        to = _new_axes("interpolate", size, len(axes))
    else:
        factors = scales = _factors("interpolate", scale_factor, len(axes))
        to = [_multiplied(axis, factor) for axis, factor in zip(axes, scales, strict=True)]
    if any(axis_size(old) == 0 or axis_size(new) == 0 for old, new in zip(axes, to, strict=True)):
        raise OptionError(
            f"interpolate: cannot resample the sizes {format_dims(tuple(axes))} to {format_dims(tuple(to))}; each must "
            f"be at least 1"
        )
    result: Node[Any, Any] = resampled(
        x, [_Between(factor, mode != "nearest", align_corners) for factor in factors], to
    )
    return result


def _new_axes(name: str, size: Any, rank: int) -> list[Axis]:
    """Return the new axes, one per spatial axis: sizes, or axes that get theirs from the data of each run."""
    entries = size if isinstance(size, tuple | list) else (size,) * rank
    sizes = iter(per_axis(name, "size", [1 if _is_open(each) else each for each in entries], rank))
    return [each if _is_open(each) else number for each, number in zip(entries, sizes, strict=True)]


def _is_open(axis: object) -> bool:
    return isinstance(axis, Dim) and axis.size is None


def _multiplied(axis: Axis, factor: float) -> Axis:
    """Return the axis of the size `floor(size * factor)`; raise `ShapeError` for one that only the data decides."""
    size = axis_size(axis)
    if size is not None:
        return math.floor(size * factor)
    times, over = factor.as_integer_ratio()
    if over > _EXACT:
        raise ShapeError(
            f"interpolate: {axis!r} gets its size from the data of each run; a scale_factor for it is a whole number, "
            f"a half, a quarter or the like, not {factor}"
        )
    return scaled(axis, times, 0, over)


def _check_resizing(name: str, size: object, scale_factor: object, mode: str, align_corners: bool) -> None:
    """Raise `OptionError` for options that no node would fit."""
    choice(f"{name}: mode", mode, _RANKS)
    if align_corners and mode == "nearest":
        raise OptionError(f"{name}: align_corners is for linear interpolation; 'nearest' has no such choice")
    if (size is None) == (scale_factor is None):
        raise OptionError(f"{name}: give either size or scale_factor")
    value: Any = scale_factor if size is None else size
    rank = max(1, len(value)) if isinstance(value, tuple | list) else 1
    if size is None:
        _factors(name, value, rank)
    else:
        _new_axes(name, value, rank)


def _factors(name: str, value: Any, rank: int) -> list[float]:
    values = value if isinstance(value, tuple | list) else [value] * rank
    if len(values) != rank:
        raise DTypeError(f"{name}: scale_factor must be a number, or one for each of {rank} axes, not {value!r}")
    factors = [number(f"{name}: scale_factor", each, 0.0) for each in values]
    if min(factors) == 0.0:
        raise OptionError(f"{name}: scale_factor must be greater than 0, not {value}")
    return factors


@dataclass(frozen=True)
class _Between(Weighting):
    """The nearest element, or linear interpolation between two; `factor` is that of the sizes, if it is given."""

    factor: float | None
    linear: bool
    align_corners: bool

    def taps(self, old: int, new: int) -> Taps:
        if not self.linear:
            over, times = self._ratio(old, new)
            return tuple((min(i * over // times, old - 1), (1.0,)) for i in range(new))
        if old == new:  # with a factor too, that makes less than one more element
            return tuple((i, (1.0,)) for i in range(new))
        scale = old / new if self.factor is None else 1.0 / self.factor
        found: list[tuple[int, tuple[float, ...]]] = []
        for i in range(new):
            place = i * (old - 1) / max(1, new - 1) if self.align_corners else max(0.0, (i + 0.5) * scale - 0.5)
            first = min(math.floor(place), old - 1)
            share = min(place - first, 1.0)
            found.append((first, (1.0 - share, share)) if share > 0.0 and first + 1 < old else (first, (1.0,)))
        return tuple(found)

    def _ratio(self, old: int, new: int) -> tuple[int, int]:
        """Return the ratio of the old size to the new one in integers: as floats, `11 * (30 / 22)` is below 15."""
        if self.factor is None:
            return old, new
        from fractions import Fraction  # only here, as it takes milliseconds to import

        times, over = Fraction(self.factor).limit_denominator(_EXACT).as_integer_ratio()
        return over, times


class Upsample(Module):
    """A module that resamples the spatial axes of (batch, channels, *sizes); see `interpolate` for the options.

    >>> Upsample(scale_factor=2)(wy.Input(dims=(4, 3, 5, 6))).shape
    (4, 3, 10, 12)
    """

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: Interpolation = "nearest",
        align_corners: bool = False,
    ) -> None:
        _check_resizing("Upsample", size, scale_factor, mode, align_corners)
        self.size = size
        self.scale_factor = scale_factor
        self.align_corners = align_corners
        self.mode: Interpolation = mode

    @overload
    def __call__(self, x: Shaped[L, AtLeast1D]) -> Node: ...
    @overload
    def __call__(self, x: Node[Any, tuple[B, C, W]]) -> Node[Any, tuple[B, C, Any]]: ...
    @overload
    def __call__(self, x: Node[Any, tuple[B, C, H, W]]) -> Node[Any, tuple[B, C, Any, Any]]: ...
    @overload
    def __call__(self, x: Node[Any, tuple[B, C, D, H, W]]) -> Node[Any, tuple[B, C, Any, Any, Any]]: ...
    def __call__(self, x: Any) -> Node:
        """Return `x` resampled."""
        return interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners)

    def __repr__(self) -> str:
        by = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"Upsample({by}, mode={self.mode!r}{', align_corners=True' if self.align_corners else ''})"
