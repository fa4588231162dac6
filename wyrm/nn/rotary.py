"""Rotary position embeddings: rotations of queries and keys by angles that grow with the position."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, overload

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import DTypeError, OptionError, ShapeError
from wyrm.graph.axes import axis_size
from wyrm.graph.base import describe
from wyrm.graph.leaves import constant_beside
from wyrm.graph.node import IndexNode, Node, Tensor
from wyrm.graph.typing import S2, A, Array, D, K, N
from wyrm.ops.attention.rotary_layouts import Half, Layout, Pair, RotaryWeights, check_layout
from wyrm.ops.indexing.joining import concatenate, stack
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import number

# The longest wavelength, divided by 2 pi (Vaswani et al., 2017).
MAX_WAVELENGTH = 10_000.0
# The numbers that each kind of scaling has, in transformers' names.
_SCALINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "linear": ("factor",),
        "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    }
)


def time_size(caller: str, x: Node, axis: int) -> int:
    """Return the size of the time axis of `x`; raise `ShapeError` for one that data decides."""
    size = axis_size(x.dims[axis])
    if size is None:
        raise ShapeError(f"{caller}: the time axis of {describe(x)} needs a size; give it one, as in Time(128)")
    return size


@dataclass(frozen=True, init=False)
class RotaryEmbedding(Generic[Layout]):
    """The rotation of queries or keys, (batch, time, heads, features), by their positions: `rotary(x)`.

    With the `layout` `Half`, features i and i + features / 2 form a plane, as in files of transformers; with `Pair`,
    features 2 i and 2 i + 1, as in those of Meta and in GGUF. The weights that make queries and keys must have the same
    layout, or the numbers are wrong in silence: `array_of` takes `RotaryWeights` and refuses those of the other one. A
    plane turns by the position times its frequency, `theta ** (-2 * i / features)`, so that the dot product of a query
    and a key depends on their distance (Su et al., "RoFormer", 2021).

    `scaling` changes the frequencies for longer sequences, in transformers' names. `{"rope_type": "linear", "factor":
    4.0}` divides all by the factor. `{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}` divides those whose wavelength is above
    `original_max_position_embeddings / low_freq_factor`, keeps those below the same by `high_freq_factor`, and blends
    between.

    Raise `OptionError` for a `theta` or a factor that is not above 0, and for a scaling of another kind.

    >>> RotaryEmbedding()(wy.Constant(np.ones((1, 2, 1, 2)))).forward()[0, 1, 0].round(2).tolist()
    [-0.3, 1.38]
    """

    theta: float
    scaling: Mapping[str, Any] | None
    layout: type[Layout]

    @overload
    def __init__(
        self: RotaryEmbedding[Half], theta: float = MAX_WAVELENGTH, scaling: Mapping[str, Any] | None = None
    ) -> None: ...
    @overload
    def __init__(
        self, theta: float = MAX_WAVELENGTH, scaling: Mapping[str, Any] | None = None, *, layout: type[Layout]
    ) -> None: ...
    @explains_keywords
    def __init__(
        self, theta: float = MAX_WAVELENGTH, scaling: Mapping[str, Any] | None = None, *, layout: Any = Half
    ) -> None:
        check_layout("RotaryEmbedding", layout)
        # The rotation is frozen.
        object.__setattr__(self, "theta", _positive("theta", theta))
        object.__setattr__(self, "scaling", checked_scaling(scaling))
        object.__setattr__(self, "layout", layout)

    def frequencies(self, features: int) -> NDArray[np.float64]:
        """Return the frequency of each plane of so many features, (features / 2,)."""
        pairs = features // 2
        found: NDArray[np.float64] = self.theta ** (-np.arange(pairs) / max(pairs, 1))
        if self.scaling is None:
            return found
        if self.scaling["rope_type"] == "linear":
            found /= self.scaling["factor"]
            return found
        factor, low, high = (float(self.scaling[name]) for name in _SCALINGS["llama3"][:3])
        turns = self.scaling["original_max_position_embeddings"] * found / (2.0 * math.pi)
        kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
        found *= kept + (1.0 - kept) / factor
        return found

    def array_of(self, weights: RotaryWeights[Layout]) -> Array:
        """Return the array of weights of this layout.

        Raise `OptionError` for weights of the other layout, which `weights.to` permutes, and `DTypeError` for an array
        that says no layout.
        """
        if not isinstance(weights, RotaryWeights):
            raise DTypeError(
                f"RotaryEmbedding.array_of takes weights that say their layout, as in RotaryWeights(array, heads, "
                f"wy.nn.Pair), not {type(weights).__name__}"
            )
        if weights.layout is not self.layout:
            features = weights.array.shape[0] // weights.heads
            raise OptionError(
                f"RotaryEmbedding turns {self.layout.words}, and these weights of {weights.heads} heads of {features} "
                f"features have {weights.layout.words}: permute them by weights.to(wy.nn.{self.layout.__name__})"
            )
        return weights.array

    def __call__(self, x: Tensor[N, S2, K, D], positions: IndexNode | None = None) -> Tensor[N, S2, K, D]:
        """Return `x` rotated by its positions along time, or by those given: an index node of (time,) or (batch, time).

        Raise `ShapeError` for another number of axes, an odd number of features, or a time without a size where no
        positions are given.
        """
        node: Node = x
        if len(node.dims) != 4:
            raise ShapeError(f"RotaryEmbedding takes the axes (batch, time, heads, features), not {describe(node)}")
        features = _even_features("RotaryEmbedding", node)
        cosine: Node
        sine: Node
        if positions is None:
            angles = angles_of(time_size("RotaryEmbedding", node, 1), self.frequencies(features))[:, None]
            cosine, sine = constant_beside(np.cos(angles), node.dtype), constant_beside(np.sin(angles), node.dtype)
        else:
            # In float64, since a rounded angle of a late position would be far off.
            places: Any = positions.astype(np.float64)
            turned: Any = places.expand_dims(-1).expand_dims(-1) * self.frequencies(features)
            cosine, sine = turned.cos().astype(node.dtype), turned.sin().astype(node.dtype)
        result: Tensor[N, S2, K, D] = _turned(node, self.layout, cosine, sine)
        return result


def checked_scaling(scaling: object) -> Mapping[str, Any] | None:
    """Return a scaling as a mapping of its kind and numbers; raise `OptionError` for what is none."""
    if scaling is None:
        return None
    if not isinstance(scaling, Mapping):
        raise OptionError(
            f"rope_scaling must be a dict such as {{'rope_type': 'linear', 'factor': 2.0}}, not {scaling!r}"
        )
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind == "default":
        return None
    names = _SCALINGS.get(str(kind))
    if names is None:
        raise OptionError(f"rope_scaling has the rope_type {kind!r}; it must be one of {', '.join(_SCALINGS)}")
    unknown = sorted(set(scaling) - {*names, "rope_type", "type"})
    missing = [name for name in names if name not in scaling]
    if unknown or missing:
        what = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(map(str, unknown))}"
        raise OptionError(f"rope_scaling of the rope_type {kind!r} {what}; it has {', '.join(names)}")
    found = {name: _positive(f"rope_scaling: {name}", scaling[name]) for name in names}
    if kind == "llama3" and found["low_freq_factor"] >= found["high_freq_factor"]:
        raise OptionError("rope_scaling: low_freq_factor must be below high_freq_factor")
    return MappingProxyType({"rope_type": kind, **found})


def _positive(name: str, value: object) -> float:
    found = number(name, value)
    if found <= 0.0:
        raise OptionError(f"{name} must be above 0, not {found}")
    return found


def _even_features(caller: str, x: Node) -> int:
    """Return the number of features; raise `ShapeError` for an odd one."""
    features = axis_size(x.dims[-1])
    if features is None or features % 2:
        raise ShapeError(f"{caller}: the last axis of {describe(x)} needs an even size")
    return features


def angles_of(time: int, frequencies: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the angle of each position at each frequency, (time, pairs)."""
    found: NDArray[np.float64] = np.arange(time)[:, None] * frequencies
    return found


def _turned(x: Node, layout: type[Half | Pair], cosine: Node, sine: Node) -> Any:
    """Return `x` with its planes turned, of the axes of `x`."""
    features, plain = int(x.dims[-1]), x.erase()
    if layout is Half:
        first, second = plain[..., : features // 2], plain[..., features // 2 :]
        parts = first * cosine - second * sine, first * sine + second * cosine
        return concatenate(parts, axis=-1).reshape(x.dims)
    first, second = plain[..., ::2], plain[..., 1::2]
    return stack([first * cosine - second * sine, first * sine + second * cosine], axis=-1).reshape(x.dims)


def rotary_embedding(qkv: Tensor[N, S2, A, K, D]) -> Tensor[N, S2, A, K, D]:
    """Return queries, keys and values, (batch, time, 3, heads, features), with queries and keys rotated.

    The rotation is that of `RotaryEmbedding` with its defaults; values are unchanged. Raises `ShapeError` for a time
    axis without a size or an odd number of features.

    >>> rotary_embedding(wy.Constant(np.ones((1, 2, 3, 1, 2)))).forward()[0, 1, 0, 0].round(2).tolist()
    [-0.3, 1.38]
    """
    node: Node = qkv
    time, features = time_size("rotary_embedding", node, 1), _even_features("rotary_embedding", node)
    angles = np.zeros((time, 3, 1, features // 2))
    angles[:, :2] = angles_of(time, RotaryEmbedding().frequencies(features))[:, None, None]
    cosine, sine = constant_beside(np.cos(angles), node.dtype), constant_beside(np.sin(angles), node.dtype)
    result: Tensor[N, S2, A, K, D] = _turned(node, Half, cosine, sine)
    return result
