"""The two layouts of rotary embeddings, and weights that say which of them they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import OptionError, ShapeError
from wyrm.graph.typing import Array
from wyrm.support.options import whole


class Half:
    """The layout of rotations in which features i and i + features / 2 of a head form a plane, as in transformers.

    >>> wy.nn.RotaryEmbedding(layout=wy.nn.Half).layout.__name__
    'Half'
    """

    words = "halves, features i and i + features / 2"


class Pair:
    """The layout of rotations in which features 2 i and 2 i + 1 of a head form a plane, as in files of Meta and GGUF.

    >>> wy.nn.RotaryEmbedding(layout=wy.nn.Pair).layout.__name__
    'Pair'
    """

    words = "pairs, features 2 i and 2 i + 1"


# A layout of rotations.
Layout = TypeVar("Layout", Half, Pair, default=Half)
OtherLayout = TypeVar("OtherLayout", Half, Pair)


@dataclass(frozen=True, eq=False)
class RotaryWeights(Generic[Layout]):
    """Weights or biases whose results are queries or keys that are rotated, with the layout of their planes.

    The first axis of `array` has the features of one head after another, (heads * features, ...), as files of
    transformers, Meta and llama.cpp have them; the weight of a `Linear` is the transpose. `weights.to(wy.nn.Half)` has
    them in the order of a layout, and `RotaryEmbedding.array_of(weights)` takes those of its own layout alone.

    Raise `ShapeError` where the first axis is no multiple of `heads` or a head has an odd number of features.

    >>> weights = wy.nn.RotaryWeights(np.arange(6.0), heads=1, layout=wy.nn.Pair)
    >>> weights.to(wy.nn.Half).array.tolist()
    [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]
    >>> wy.nn.RotaryEmbedding().array_of(weights.to(Half)).tolist()
    [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]
    """

    array: Array
    heads: int
    layout: type[Layout]

    def __post_init__(self) -> None:
        check_layout("RotaryWeights", self.layout)
        heads = whole("RotaryWeights: heads", self.heads, 1)
        if not self.array.shape or self.array.shape[0] % (2 * heads):
            raise ShapeError(
                f"RotaryWeights: the first axis of an array of the shape {self.array.shape} does not divide into "
                f"{heads} heads of an even number of features"
            )

    def to(self, layout: type[OtherLayout]) -> RotaryWeights[OtherLayout]:
        """Return the weights with the features of each head in the order of a layout."""
        check_layout("RotaryWeights.to", layout)
        array: Array = self.array
        if layout is not self.layout:
            planes = (2, -1) if self.layout is Half else (-1, 2)
            split = array.reshape(self.heads, *planes, *array.shape[1:])
            array = np.ascontiguousarray(split.swapaxes(1, 2)).reshape(array.shape)
        return RotaryWeights(array, self.heads, layout)


def check_layout(caller: str, layout: object) -> None:
    """Raise `OptionError` for what is no layout."""
    if layout is not Half and layout is not Pair:
        raise OptionError(f"{caller}: layout must be wy.nn.Half or wy.nn.Pair, not {layout!r}")


__all__ = ["Half", "Layout", "Pair", "RotaryWeights", "check_layout"]
